"""Planning a scan of a whole package: provide it, capture what it launches under each compiler, and
expand that.

A package looks at the Triton it is imported under, and at the card, so each toolchain and target is
captured apart; captures are kept in the cache, for the same package, compiler and card launch the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck import rules
from flacheck.capture.cards import card
from flacheck.capture.coverage import coverage
from flacheck.capture.drive import Driven, drive, recipe_of
from flacheck.errors import EmptySelection, ToolchainError
from flacheck.inputs import launches, planning, replay
from flacheck.inputs.expand import Selection, Source, expand, named
from flacheck.inputs.matrix import Block, Matrix
from flacheck.inputs.planning import Plan
from flacheck.model import Attempt, Cell, Json, Kernel, Outcome
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.source.modules import launchable
from flacheck.toolchains import provide
from flacheck.toolchains.base import Choice, Progress, silent

DEFAULT_TARGETS = ("sm90",)
# From here on an autotuner looks its keys up by name, and the stage that looks for faults finds
# none.
KEYS_BY_NAME = Version("3.2.0")
# How packages name the module of one way of computing an operator.
FORMS = ("fused_recurrent", "fused_chunk", "chunk", "parallel")
_REFUSAL = re.compile(r"\bTriton\b[^\n]*\d+\.\d+")


@dataclass(frozen=True)
class _Part:
    """What one capture contributes."""

    cells: list[Cell]
    attempts: Mapping[str, Attempt]
    coverage: Json | None = None


def plan(
    spec: str,
    selection: Selection,
    until: str | None = None,
    shard: str | None = None,
    progress: Progress = silent,
    configs: str = "usual",
) -> Plan:
    """Capture a package under every toolchain and target asked, and expand what it launched.

    `configs`: `usual` compiles one configuration of each kernel and dtype, `own` every
    configuration of every distinct launch.
    """
    resolver = planning.Resolver()
    names = list(
        dict.fromkeys(
            name for text in selection.toolchains or ("installed",) for name in resolver(text)
        )
    )
    package = packages.provide_package(spec, progress)
    parts = [
        part
        for name in names
        for target in selection.targets or DEFAULT_TARGETS
        for part in _parts(
            package, resolver.choices[name], target, selection, until, configs, progress
        )
    ]
    cells = planning.sharded([cell for part in parts for cell in part.cells], shard)
    if not cells:
        raise EmptySelection(f"{spec}: nothing that it launches matches the selection")
    return Plan(
        matrix=Matrix(package.identity, spec, ()),
        cells=cells,
        choices=resolver.choices,
        packages={package.identity: package},
        forms=dict(form for part in parts for cell in part.cells for form in form_of(cell.kernel)),
        warnings=tuple(dict.fromkeys(resolver.warnings)),
        attempts={key: attempt for part in parts for key, attempt in part.attempts.items()},
        coverage=tuple(part.coverage for part in parts if part.coverage),
    )


def form_of(kernel: Kernel) -> Iterator[tuple[tuple[str | None, str], tuple[str, str]]]:
    """The operator and form of a package's kernel, where its module says them:
    `fla.ops.gla.fused_recurrent`.
    """
    operator, _, last = kernel.name.partition(":")[0].rpartition(".")
    form = next((form for form in FORMS if last.startswith(form)), None)
    if form:
        yield (kernel.package, kernel.name), (operator, form)


def _parts(
    package: Package,
    choice: Choice,
    target: str,
    selection: Selection,
    until: str | None,
    configs: str,
    progress: Progress,
) -> Iterator[_Part]:
    if choice.reason or choice.knows(card(target)["name"]):
        yield _Part([_import_cell(package, choice, target)], {})
        return
    try:
        toolchain = provide(choice, progress)
    except ToolchainError:
        yield _Part([_import_cell(package, choice, target)], {})
        return
    driven = drive(package, toolchain, card(target), progress)
    if driven.import_error:
        cell = _import_cell(package, choice, target)
        yield _Part([cell], {cell.key: _import_attempt(driven.import_error)})
        return
    attempts = _attempts(package, choice, target, driven.report)
    attempts = {
        cell: attempt
        for cell, attempt in attempts.items()
        if _selected(cell.kernel.name, selection)
    }
    cells = [*attempts, *_cells(package, choice, target, driven, selection, until, configs)]
    known = {cell.key: attempt for cell, attempt in attempts.items()}
    yield _Part(cells, known, _coverage(package, choice, driven))


def _attempts(
    package: Package, choice: Choice, target: str, report: Mapping[str, Any]
) -> dict[Cell, Attempt]:
    """What the drive itself met: modules that the release does not even import, operators that
    refuse it.

    A module that cannot be imported is only the release's failure when a rule knows it: others want
    what is not installed, or clash with a library. What an operator raised is the driver's own
    affair, unless it speaks of the release. The others stand in the coverage.
    """
    found = {}
    for module, said in report["modules"].items():
        if any(finding.code != rules.UNCLASSIFIED for finding in rules.read(said)):
            found[_import_cell(package, choice, target, module)] = _import_attempt(said)
    for name, entry in report["operators"].items():
        refusals = [said for said in entry["failures"].values() if _REFUSAL.search(said)]
        if refusals:
            cell = replace(_import_cell(package, choice, target, name), stage="call")
            found[cell] = replace(_import_attempt(refusals[0]), stage="call")
    return found


def _import_cell(package: Package, choice: Choice, target: str, module: str | None = None) -> Cell:
    """The import of a package, or of a module of it, which is all that can be asked when it fails."""
    name = module or package.modules[0]
    kernel = Kernel(
        name if ":" in name else f"{name}:__init__",
        package.identity,
        package.digest,
        {"import": name},
    )
    return Cell(kernel, choice.identity, card(target)["name"], None, stage="import")


def _import_attempt(traceback: str) -> Attempt:
    last = [line for line in traceback.splitlines() if line.strip()][-1]
    kind = last.partition(":")[0].rpartition(".")[2]
    return Attempt(Outcome.RAISED, stage="import", log=traceback, exception=(kind,))


def _cells(
    package: Package,
    choice: Choice,
    target: str,
    driven: Driven,
    selection: Selection,
    until: str | None,
    configs: str,
) -> Iterator[Cell]:
    everything = launches.read(driven.launches, ours=True).launches
    recorded = [entry for entry in everything if _selected(entry.kernel, selection)]
    compiled = launches.one_each(recorded) if configs == "usual" else recorded
    stages: list[tuple[str, Sequence[Source]]] = [
        ("compile", replay.sources(compiled, {package.identity: package}))
    ]
    if Version(choice.version) < KEYS_BY_NAME:
        tuned = [entry for entry in recorded if len(entry.launch.configs) > 1]
        stages.append(
            ("autotune", replay.decorated(launches.one_each(tuned), {package.identity: package}))
        )
    for stage, sources in stages:
        axes = {
            "target": (target,),
            "triton": (choice.identity,),
            "stage": (stage,),
            "configs": (configs,),
        }
        matrix = Matrix(package.identity, str(driven.launches), (Block(axes),))
        chosen = Selection((), (), selection.dtypes, selection.num_warps, selection.num_stages)
        if sources:
            yield from expand(matrix, sources, chosen, lambda spec: (spec,), until)


def _selected(kernel: str, selection: Selection) -> bool:
    return any(named(glob, kernel) for glob in selection.kernels or ("*",))


def _coverage(package: Package, choice: Choice, driven: Driven) -> Json:
    prefix = str(recipe_of(package.name).get("coverage", package.modules[0]))
    found = coverage(launchable(package.path, prefix), driven.kernels, driven.report)
    return {"package": package.identity, "toolchain": choice.identity, **found.to_json()}
