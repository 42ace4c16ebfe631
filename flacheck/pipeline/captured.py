"""Planning a scan of a whole package: provide it, capture what it launches under each compiler, and
expand that.

A package looks at the Triton it is imported under, and at the card, so each toolchain and target is
captured apart; captures are kept in the cache, for the same package, compiler and card launch the
same.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from flacheck import rules
from flacheck.captures.capture_archive import Captures
from flacheck.captures.capture_job import (
    CaptureJob,
    CaptureResult,
    capture_package,
    prepare_captures,
    recipe_of,
)
from flacheck.captures.cards import card
from flacheck.captures.coverage import coverage
from flacheck.errors import ToolchainError
from flacheck.inputs import call_paths, launches, replay
from flacheck.inputs.expand import Selection, Source, expand
from flacheck.inputs.launches import RecordedLaunch
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import AskedCells, Attempt, Cell, Imported, Json, Kernel, Outcome, Question
from flacheck.packages import checkouts
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.pipeline.job import count_processors
from flacheck.pipeline.plan import Plan
from flacheck.source.modules import launchable
from flacheck.tables import targets
from flacheck.toolchains import Resolver, provide
from flacheck.toolchains.base import Choice, Toolchain

_LOG = logging.getLogger(__name__)

# What most of these packages are written for.
DEFAULT_TARGETS = ("sm90",)
# From here on an autotuner looks its keys up by name, and the stage that looks for faults finds
# none.
KEYS_BY_NAME = Version("3.2.0")
# Drives at a time: each holds a gigabyte or more.
_MOST_DRIVES = 4
# How packages name the module of one way of computing an operator.
FORMS = ("fused_recurrent", "fused_chunk", "chunk", "parallel")
# What of Triton a package asks for in vain while it is imported.
_LACKS = re.compile(
    r"No module named '?triton\.|cannot import name '\w+' from "
    r"(?:partially initialized module )?'?triton\b"
)
_REFUSAL = re.compile(r"\bTriton\b[^\n]*\d+\.\d+")


@dataclass(frozen=True)
class PackageCapture:
    """A package under one compiler on one target, and what came of calling all that it offers:
    None where there is no compiler to call it under."""

    package: Package
    choice: Choice
    target: str
    driven: CaptureResult | None


def announced(spec: str, selection: Selection) -> Question:
    """What a scan of the package is about to ask, before a capture decides its cells."""
    package, names, rows = _asked(spec, selection, Resolver())
    asked = tuple(AskedCells(name, target) for name in names for target, _ in rows)
    return Question(package.identity, asked=asked, source=_source(spec))


def captures(
    spec: str,
    selection: Selection,
    resolver: Resolver,
    travelling: Captures | None = None,
    with_tests: bool = False,
) -> list[PackageCapture]:
    """The package captured under every toolchain and on every target asked, or read from captures
    that travel."""
    package, names, rows = _asked(spec, selection, resolver)
    for target, row in rows:
        if not _is_fakeable(target):
            _LOG.warning(
                f"{target}: flacheck imitates NVIDIA cards only, so the launches of "
                f"{package.identity} are recorded on {row['gpu']} and compiled for {target}; on an "
                "AMD card the package may choose other kernels and settings"
            )
    places = [(resolver.choices[name], target, row) for name in names for target, row in rows]
    provided = [_provided(choice, target) for choice, target, _ in places]
    suite = None
    if with_tests:
        suite = checkouts.folder(spec)
    asked = [
        CaptureJob(package, toolchain, row, suite)
        for toolchain, (_, _, row) in zip(provided, places)
        if toolchain is not None
    ]
    # Side by side where they have to be made; captures that came with a file are there already.
    if asked and (travelling is None or travelling.file is None):
        prepare_captures(asked, min(count_processors(), _MOST_DRIVES))
    made = []
    for toolchain, (choice, target, row) in zip(provided, places):
        driven = None
        if toolchain is not None:
            driven = capture_package(package, toolchain, row, travelling, suite)
        made.append(PackageCapture(package, choice, target, driven))
    return made


def _asked(
    spec: str, selection: Selection, resolver: Resolver
) -> tuple[Package, list[str], list[tuple[str, Json]]]:
    """The package, the compilers' names, and each target with the card that it is captured on."""
    specs = selection.toolchains or ("installed",)
    names = list(dict.fromkeys(name for text in specs for name in resolver(text)))
    asked = list(selection.targets or DEFAULT_TARGETS)
    fakeable = [target for target in asked if _is_fakeable(target)]
    rows = []
    for target in asked:
        on = target
        if not _is_fakeable(target):
            on = next(iter(fakeable), DEFAULT_TARGETS[0])
        rows.append((targets.find(target).name, card(on)))
    return packages.provide_package(spec), names, rows


def _is_fakeable(target: str) -> bool:
    return targets.find(target).backend == "cuda"


def _provided(choice: Choice, target: str) -> Toolchain | None:
    """The compiler to capture under, None where there is none or it does not know the target."""
    if choice.reason or choice.knows(target):
        return None
    try:
        return provide(choice)
    except ToolchainError:
        return None


def selected(capture: PackageCapture, selection: Selection) -> list[RecordedLaunch]:
    """The selected ones of a package's launches."""
    return call_paths.select_launches(_recorded(capture), selection, capture.package.identity)


def _recorded(capture: PackageCapture) -> Sequence[RecordedLaunch]:
    """All that a package launched; nothing without a compiler."""
    if capture.driven is None:
        return ()
    return launches.read(capture.driven.launches, ours=True).launches


def plan(
    spec: str,
    selection: Selection,
    configs: str,
    until: str | None,
    travelling: Captures | None = None,
    with_tests: bool = False,
) -> Plan:
    """PackageCapture a package under every toolchain and target asked, and expand what it launched.

    `configs`: `usual` compiles one configuration of each kernel and dtype, `own` every
    configuration of every distinct launch, `shared` one of each kernel and dtype that is the same
    under all compilers where that can be.
    """
    resolver = Resolver()
    cells: list[Cell] = []
    attempts: dict[str, Attempt] = {}
    covered: list[Json] = []
    made = captures(spec, selection, resolver, travelling, with_tests)
    chosen = zip(made, *_chosen(made, selection, configs))
    for capture, recorded, compiled in chosen:
        tried = _tried(capture, selection)
        attempts.update({cell.key: attempt for cell, attempt in tried.items() if attempt})
        cells += tried
        if capture.driven and not capture.driven.import_error:
            cells += _launched(capture, recorded, compiled, selection, configs, until)
            package = capture.package
            kernels = _launchable(package)
            found = coverage(kernels, capture.driven.kernels, capture.driven.report)
            identity = {"package": package.identity, "toolchain": capture.choice.identity}
            covered.append({**identity, **found.to_json()})
    package = made[0].package
    if not cells:
        # Only now: under some of the releases an operator may well launch nothing.
        launched = (entry for capture in made for entry in _recorded(capture))
        call_paths.check_ops(selection.ops, launched, package.identity)
    forms = {}
    for cell in cells:
        form = form_of(cell.kernel)
        if form:
            forms[cell.kernel.package, cell.kernel.name] = form
    return Plan(
        name=package.identity,
        source=_source(spec),
        cells=cells,
        choices=resolver.choices,
        packages={package.identity: package},
        forms=forms,
        warnings=tuple(dict.fromkeys(resolver.warnings)),
        attempts=attempts,
        coverage=tuple(covered),
        trust=True,
    )


def _launchable(package: Package) -> dict[str, tuple[str, ...]]:
    """The kernels that the package launches; of a recipe's, those below what it names."""
    said = recipe_of(package.name).get("coverage")
    prefixes = [str(said)] if said else package.modules
    return {k: by for prefix in prefixes for k, by in launchable(package.path, prefix).items()}


def _source(spec: str) -> str:
    """A checkout by its folder: every edit changes its version, and asks the same of the new
    state."""
    if checkouts.is_path(spec):
        return str(checkouts.folder(spec).absolute())
    return ""


def form_of(kernel: Kernel) -> tuple[str, str] | None:
    """The operator and form of a package's kernel, where its module says them:
    `fla.ops.gla.fused_recurrent`."""
    operator, _, last = kernel.name.partition(":")[0].rpartition(".")
    for form in FORMS:
        if last.startswith(form):
            return operator, form
    return None


def _tried(capture: PackageCapture, selection: Selection) -> dict[Cell, Attempt | None]:
    """Cells that the capture itself has tried: the import of the package, of its modules, and calls
    that the package refuses. An import without an attempt is yet to be tried.

    A module that cannot be imported is only the release's failure when a rule knows it: others want
    what is not installed, or clash with a library. What an operator raised is the driver's own
    affair, unless it speaks of the release. The others stand in the coverage.
    """
    driven = capture.driven
    if driven is None:
        return {_import_cell(capture): None}
    if driven.import_error:
        return {_import_cell(capture): _import_attempt(driven.import_error)}
    tried: dict[Cell, Attempt | None] = {}
    if not _is_fakeable(capture.target):
        # What the package refuses, it refuses on the card that it was called on.
        return tried
    for module, said in driven.report["modules"].items():
        known = any(finding.code != rules.UNCLASSIFIED for finding in rules.read(said))
        # The package's users meet this before anything else; a module deeper down may be meant
        # for other releases only.
        lacks = module in capture.package.modules and _LACKS.search(said)
        if known or lacks:
            tried[_import_cell(capture, module)] = _import_attempt(said)
    for name, entry in driven.report["operators"].items():
        refusals = [said for said in entry["failures"].values() if _REFUSAL.search(said)]
        if refusals:
            cell = replace(_import_cell(capture, name), stage="call")
            tried[cell] = replace(_import_attempt(refusals[0]), stage="call")
    return {cell: attempt for cell, attempt in tried.items() if _names(selection, cell.kernel.name)}


def _names(selection: Selection, tried: str) -> bool:
    """Whether a module or function that was tried belongs to what is selected."""
    if selection.ops and not call_paths.matches(selection.ops, tried.replace(":", ".")):
        return False
    return selection.names(tried)


def _import_cell(capture: PackageCapture, module: str | None = None) -> Cell:
    """The import of a package, or of a module of it, which is all that can be asked when it
    fails."""
    package = capture.package
    module = module or package.modules[0]
    name = module if ":" in module else f"{module}:__init__"
    kernel = Kernel(name, package.identity, package.digest, Imported(module))
    return Cell(kernel, capture.choice.identity, capture.target, None, stage="import")


def _import_attempt(traceback: str) -> Attempt:
    last = [line for line in traceback.splitlines() if line.strip()][-1]
    kind = last.partition(":")[0].rpartition(".")[2]
    return Attempt(Outcome.RAISED, stage="import", log=traceback, exception=(kind,))


def _chosen(
    made: Sequence[PackageCapture], selection: Selection, configs: str
) -> tuple[list[list[RecordedLaunch]], list[list[RecordedLaunch]]]:
    """The selected launches of each capture, and those among them that are compiled."""
    recorded = [selected(capture, selection) for capture in made]
    if configs == "usual":
        return recorded, [launches.one_each(entries) for entries in recorded]
    if configs != "shared":
        return recorded, recorded
    compiled = [list[RecordedLaunch]() for _ in made]
    for target in {capture.target for capture in made}:
        places = [place for place, capture in enumerate(made) if capture.target == target]
        same = launches.shared([recorded[place] for place in places])
        for place, entries in zip(places, same):
            compiled[place] = entries
    return recorded, compiled


def _launched(
    capture: PackageCapture,
    recorded: Sequence[RecordedLaunch],
    compiled: Sequence[RecordedLaunch],
    selection: Selection,
    configs: str,
    until: str | None,
) -> Iterator[Cell]:
    """The cells of what a capture recorded; for old releases the autotuner runs as well."""
    assert capture.driven is not None
    package = capture.package
    provided = {package.identity: package}
    if not _is_fakeable(capture.target):
        # Imported for this target a package is another one than the one that was recorded.
        provided = {}
    compiling = replay.sources(compiled, provided, or_cut=True)
    stages: list[tuple[str, Sequence[Source]]] = [("compile", compiling)]
    if provided and Version(capture.choice.version) < KEYS_BY_NAME:
        tuned = [entry for entry in recorded if len(entry.launch.configs) > 1]
        stages.append(("autotune", replay.decorated_sources(launches.one_each(tuned), provided)))
    # The kernels, toolchain and target are chosen by now.
    chosen = replace(selection, kernels=(), ops=(), targets=(), toolchains=())
    for stage, sources in stages:
        axes: Mapping[str, tuple[Any, ...]] = {
            "target": (capture.target,),
            "toolchain": (capture.choice.identity,),
            "stage": (stage,),
            "configs": (configs,),
        }
        matrix = Matrix(package.identity, str(capture.driven.launches), (Block(axes),))
        if sources:
            yield from expand(matrix, sources, chosen, lambda spec: (spec,), until)
