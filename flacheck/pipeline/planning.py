"""From a job to its plan: resolve its subject, capture its launches, expand them to cells.

`resolve` runs no code of a package and `expand` has no effects; `capture` runs packages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from flacheck.errors import EmptySelection, UsageError
from flacheck.model import Cell, Question
from flacheck.pipeline.build_units import ResolvedBuild
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import resolve_package
from flacheck.pipeline.plan import Plan
from flacheck.source.packages import checkouts
from flacheck.subjects.captures import capture_archive
from flacheck.subjects.captures.capture_archive import Captures
from flacheck.subjects.inputs import size, sources
from flacheck.subjects.inputs.chosen_cells import RecordedKernels, choose_cells
from flacheck.subjects.inputs.expand import expand as expand_matrix
from flacheck.subjects.inputs.expand import list_configurations
from flacheck.subjects.inputs.extents import extents, of_cells, selects_all
from flacheck.subjects.inputs.subject import DEFAULT_MATRIX, Subject, line_of
from flacheck.tables import targets
from flacheck.toolchains import Resolver, language_of

# Kernels without a launch that an error names.
_MOST_MISSED = 5
_SHARD = re.compile(r"(\d+)/(\d+)")


class Captured(Protocol):
    """A subject whose launches are known."""

    def expand(self) -> Plan:
        """Return the plan of all its cells."""
        ...


class Resolved(Protocol):
    """A subject with its compilers and targets, none of whose code has run."""

    @property
    def job(self) -> Job:
        """The job that is resolved."""
        ...

    @property
    def question(self) -> Question | None:
        """The question before the capture; None where the cells need no capture."""
        ...

    def capture(self, archive: Captures | None = None) -> Captured:
        """Find the launches, in an archive of captures if it has them."""
        ...


@dataclass(frozen=True)
class ResolvedKernels:
    """A matrix or a launches file: its launches need no capture."""

    job: Job

    @property
    def question(self) -> None:
        """None: the cells are known at once."""
        return

    def capture(self, archive: Captures | None = None) -> ResolvedKernels:
        """Return the kernels themselves."""
        return self

    def expand(self) -> Plan:
        """Return the plan of the matrix or launches file.

        Raises:
            UsageError: If the file is malformed, or a name in it or in the selection unknown.
        """
        subject, selection = self.job.subject, self.job.selection
        kernels = sources.kernels_of(subject, selection)
        resolver = Resolver()
        usual_keys: frozenset[str] = frozenset()
        configs: frozenset[str] = frozenset()
        is_whole = selects_all(kernels.matrix)
        if kernels.usual_sources is None or subject.configs == "own":
            size.check(kernels.matrix, kernels.sources, selection, resolver)
        if kernels.usual_sources is None:
            cells = list(
                expand_matrix(kernels.matrix, kernels.sources, selection, resolver, self.job.until)
            )
        else:
            recorded = RecordedKernels(kernels.matrix, kernels.usual_sources, kernels.sources)
            chosen = choose_cells(recorded, subject.configs, selection, resolver, self.job.until)
            cells = [*chosen.usual, *chosen.others]
            usual_keys = frozenset(cell.key for cell in chosen.usual)
            configs = frozenset([chosen.configs])
            is_whole = chosen.configs == "own"
        forms = {}
        for source in kernels.sources:
            kernel = source.kernel
            if kernel.operator and kernel.form:
                forms[kernel.package, kernel.name] = (kernel.operator, kernel.form)
        configurations = of_cells(cells)
        if not is_whole:
            configurations = list_configurations(
                kernels.matrix, kernels.sources, selection, resolver
            )
        return Plan(
            name=kernels.matrix.name,
            extents=extents(configurations),
            source=_source(subject),
            cells=cells,
            choices=resolver.choices,
            packages=kernels.packages,
            forms=forms,
            warnings=(*kernels.warnings, *dict.fromkeys(resolver.warnings)),
            stale=kernels.stale,
            trust=subject.trust,
            usual_keys=usual_keys,
            configs=configs,
        )


# A package's subject by the language of its compilers.
_OF_PACKAGES: Mapping[str, Callable[[Job], Resolved]] = {
    "triton": resolve_package,
    "cuda": ResolvedBuild,
}


def resolve(job: Job) -> Resolved:
    """Return a job's subject with its compilers and targets; run none of its code.

    Raises:
        UsageError: If a name is unknown, or options do not fit the subject.
    """
    for target in job.selection.targets:
        targets.find(target)
    subject = job.subject
    if subject.captures_file is not None and subject.package is None:
        raise UsageError("--captured holds the captures of a package: name it with --package")
    if subject.with_tests and not (subject.package and checkouts.is_path(subject.package)):
        raise UsageError(
            "--with-tests runs the tests of a checkout: name its folder by --package DIR"
        )
    if subject.package is None:
        return ResolvedKernels(job)
    language = language_of(job.selection.toolchains)
    if subject.with_tests and language != "triton":
        raise UsageError("--with-tests records launches of Triton kernels: name Triton releases")
    return _OF_PACKAGES[language](job)


def question_of(resolved: Resolved) -> Question | None:
    """Return the question to store before the capture; None where no capture is needed."""
    question = resolved.question
    if question is None:
        return None
    selection = resolved.job.selection.to_json()
    return replace(question, selection=_with_configs(resolved.job, selection))


@contextmanager
def capture(resolved: Resolved) -> Iterator[Captured]:
    """Capture a package's launches, or read them from the subject's archive.

    This is the one step that runs code of packages. Other subjects need no capture. The launches
    of an archive are unpacked until the context ends.
    """
    if resolved.job.subject.package is None:
        yield resolved.capture()
        return
    with capture_archive.open_archive(resolved.job.subject.captures_file) as archive:
        yield resolved.capture(archive)


def expand(job: Job, captured: Captured) -> Plan:
    """Return the plan of a job's cells, or of its shard.

    Raises:
        EmptySelection: If no cell is left.
    """
    plan = captured.expand()
    cells = _shard(plan.cells, job.shard)
    whole = None
    if job.shard is not None:
        whole = plan.cells
    is_whole = job.subject.package is not None and not job.selection.ops
    if not cells and is_whole and _has_no_kernels(plan):
        raise EmptySelection(
            f"{job.subject.package} contains no Triton kernels that it launches, and a capture of "
            "its calls recorded no kernel of its requirements"
        )
    if not cells and job.subject.package is not None:
        raise EmptySelection(
            f"{job.subject.package}: nothing that it launches matches the selection"
            f"{_coverage(plan)}"
        )
    if not cells:
        raise EmptySelection(
            f"nothing in {plan.name} matches the selection; `flacheck list matrices` shows what is "
            "in it"
        )
    selection = _with_configs(job, job.selection.to_json())
    if job.until is not None:
        selection["until"] = [job.until]
    return replace(plan, cells=cells, selection=selection, whole=whole, purpose=job.purpose)


def plan_job(job: Job) -> Plan:
    """Resolve, capture and expand a job; return its plan."""
    with capture(resolve(job)) as captured:
        return expand(job, captured)


def _with_configs(job: Job, selection: dict[str, list[str | int]]) -> dict[str, list[str | int]]:
    if job.subject.configs is not None:
        selection["configs"] = [job.subject.configs]
    return selection


def _has_no_kernels(plan: Plan) -> bool:
    """Return True for a captured package without launchable kernels."""
    return bool(plan.coverage) and not any(each["launchable"] for each in plan.coverage)


def _coverage(plan: Plan) -> str:
    """Return how many kernels were recorded, for an error about an empty selection."""
    text = ""
    for each in plan.coverage:
        text += (
            f"; {each['toolchain']}: {each['recorded']} of {each['launchable']} kernels recorded"
        )
        missed_kernels = [
            f"{one['kernel']} ({one['reason']})" for one in each["missed"][:_MOST_MISSED]
        ]
        if missed_kernels:
            text += f", not recorded: {'; '.join(missed_kernels)}"
        more = len(each["missed"]) - len(missed_kernels)
        if more:
            text += f"; and {more} more"
    return text


def _source(subject: Subject) -> str:
    """Return a file's path, which tells apart matrices and launches files of one name."""
    file, line = line_of(subject.matrix or DEFAULT_MATRIX)
    if not file.suffix:
        return str(file)
    if line is not None:
        return f"{file.absolute()}:{line}"
    return str(file.absolute())


def _shard(cells: Sequence[Cell], shard: str | None) -> Sequence[Cell]:
    """Return the part I of N (from 1), by key: every machine computes the same parts."""
    if shard is None:
        return cells
    match = _SHARD.fullmatch(shard)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {shard}: expected I/N with 1 ≤ I ≤ N, for example 2/8")
    # The first 32 bits of a key are as good as random.
    return [cell for cell in cells if int(cell.key[:8], 16) % count == index - 1]
