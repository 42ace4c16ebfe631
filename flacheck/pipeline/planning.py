"""The one planner: from what a command is about to the cells of a run, with compilers and packages.

A command is about a matrix (flacheck's own kernels without one), a launches file or one line of it,
or a package. `cell` finds one cell by its key instead.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from flacheck.captures import capture_archive
from flacheck.captures.capture_archive import Captures
from flacheck.errors import EmptySelection, UsageError
from flacheck.inputs import size, sources
from flacheck.inputs.expand import Selection, expand
from flacheck.inputs.subject import DEFAULT_MATRIX, Subject, line_of
from flacheck.model import Cell, Question
from flacheck.packages import checkouts
from flacheck.pipeline import built, captured
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.tables import targets
from flacheck.toolchains import Resolver, language_of


class _Planner(Protocol):
    """Who makes the plan of a package."""

    def plan(
        self,
        spec: str,
        selection: Selection,
        configs: str,
        until: str | None,
        travelling: Captures | None = None,
    ) -> Plan: ...

    def announced(self, spec: str, selection: Selection) -> Question | None: ...


# What a package is asked: kernels that it launches, or translation units that its build compiles.
_PLANNERS: Mapping[str, _Planner] = {"triton": captured, "cuda": built}
# Of the kernels that a capture missed, in the one sentence of an error.
_MOST_MISSED = 5
_SHARD = re.compile(r"(\d+)/(\d+)")


def plan(
    subject: Subject,
    selection: Selection,
    until: str | None = None,
    shard: str | None = None,
) -> Plan:
    """The cells that a command asks.

    Raises UsageError for unknown names and malformed files, EmptySelection when no cell is left.
    """
    for target in selection.targets:
        targets.find(target)
    if subject.captures_file is not None and subject.package is None:
        raise UsageError("--captured holds the captures of a package: name it with --package")
    checkout = subject.package is not None and checkouts.is_path(subject.package)
    if subject.with_tests and not checkout:
        raise UsageError(
            "--with-tests runs the tests of a checkout: name its folder by --package DIR"
        )
    if subject.package is not None:
        configs = subject.configs or "usual"
        with capture_archive.open_archive(subject.captures_file) as captures:
            planner, asked = _planner(selection), (subject.package, selection, configs, until)
            if subject.with_tests and planner is captured:
                made = captured.plan(*asked, captures, with_tests=True)
            elif subject.with_tests:
                raise UsageError(
                    "--with-tests records launches of Triton kernels: name Triton releases"
                )
            else:
                made = planner.plan(*asked, captures)
    else:
        made = _plan_of_kernels(subject, selection, until)
    cells = _shard(made.cells, shard)
    whole = None
    if shard is not None:
        whole = made.cells
    if not cells and subject.package is not None:
        raise EmptySelection(
            f"{subject.package}: nothing that it launches matches the selection{_coverage(made)}"
        )
    if not cells:
        raise EmptySelection(
            f"nothing in {made.name} matches the selection; `flacheck list matrices` shows what is "
            "in it"
        )
    narrowed = _narrowing(subject, selection, until)
    return replace(made, cells=cells, selection=narrowed, whole=whole)


def plan_job(job: Job) -> Plan:
    """Return the cells of a job; a package's launches are captured for it."""
    return plan(job.subject, job.selection, job.until, job.shard)


def announce(job: Job) -> Question | None:
    """Return the question of a job before its capture; None where no capture is needed."""
    return announced(job.subject, job.selection)


def needs_capture(job: Job) -> bool:
    """Return True if the cells depend on what a package launches."""
    return job.subject.package is not None and is_captured(job.selection)


def _coverage(plan: Plan) -> str:
    """How much there was to select from, for an answer that holds no cell."""
    told = []
    for each in plan.coverage:
        text = f"; {each['toolchain']}: {each['recorded']} of {each['launchable']} kernels recorded"
        missed = [f"{one['kernel']} ({one['reason']})" for one in each["missed"][:_MOST_MISSED]]
        if missed:
            text += f", not recorded: {'; '.join(missed)}"
        more = len(each["missed"]) - len(missed)
        if more:
            text += f"; and {more} more"
        told.append(text)
    return "".join(told)


def is_captured(selection: Selection) -> bool:
    """Whether the compilers asked compile what a package launches, and not what its build names."""
    return _planner(selection) is captured


def announced(subject: Subject, selection: Selection) -> Question | None:
    """What a scan of a package is about to ask, before the capture that decides its cells; None for
    anything else, whose cells are known at once."""
    if subject.package is None:
        return None
    question = _planner(selection).announced(subject.package, selection)
    if question is None:
        return None
    return replace(question, selection=_narrowing(subject, selection, None))


def _planner(selection: Selection) -> _Planner:
    """Who plans a package for the compilers that are asked for."""
    return _PLANNERS[language_of(selection.toolchains)]


def _narrowing(
    subject: Subject, selection: Selection, until: str | None
) -> dict[str, list[str | int]]:
    """What of the question is selected, as it is stored."""
    narrowed = selection.to_json()
    if subject.configs is not None:
        narrowed["configs"] = [subject.configs]
    if until is not None:
        narrowed["until"] = [until]
    return narrowed


def _plan_of_kernels(subject: Subject, selection: Selection, until: str | None) -> Plan:
    kernels = sources.kernels_of(subject, selection)
    known = [source.kernel for source in kernels.sources]
    resolver = Resolver()
    size.check(kernels.matrix, kernels.sources, selection, resolver)
    cells = list(expand(kernels.matrix, kernels.sources, selection, resolver, until))
    return Plan(
        name=kernels.matrix.name,
        source=_source(subject),
        cells=cells,
        choices=resolver.choices,
        packages=kernels.packages,
        forms={(k.package, k.name): (k.operator, k.form) for k in known if k.operator and k.form},
        warnings=(*kernels.warnings, *dict.fromkeys(resolver.warnings)),
        stale=kernels.stale,
        trust=subject.trust,
    )


def _source(subject: Subject) -> str:
    """What tells apart two matrices or launches files of one name: a file's path."""
    file, line = line_of(subject.matrix or DEFAULT_MATRIX)
    if not file.suffix:
        return str(file)
    if line is not None:
        return f"{file.absolute()}:{line}"
    return str(file.absolute())


def _shard(cells: Sequence[Cell], shard: str | None) -> Sequence[Cell]:
    """The part I of N (from 1), by key, so that every machine agrees without talking."""
    if shard is None:
        return cells
    match = _SHARD.fullmatch(shard)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {shard}: expected I/N with 1 ≤ I ≤ N, for example 2/8")
    # The first 32 bits of a key are as good as random.
    return [cell for cell in cells if int(cell.key[:8], 16) % count == index - 1]
