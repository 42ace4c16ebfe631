"""CELL on a command line → one cell, with what it takes to compile it again under any release.

CELL is a key or a unique prefix of it, looked up in the store; `FILE.jsonl:LINE`; a matrix; or
nothing but selection flags, which then search the store. What leaves several cells must leave
failing ones of one signature, or, where none fails, the one that compiles slowly beside the other
releases in the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.analysis.observed import BLOCK, observe, take_apart
from flacheck.analysis.slow import slow_compiles
from flacheck.errors import UsageError
from flacheck.inputs import corpus, launches, matrix, planning, replay
from flacheck.inputs.expand import Selection, named
from flacheck.inputs.matrix import Matrix
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Kernel, Record, Verdict, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.store import Store
from flacheck.store import cells as stored_cells
from flacheck.tables import targets
from flacheck.toolchains.base import Choice, Progress, silent

SCREENFUL = 16
_KEY = re.compile(r"[0-9a-f]{1,32}")
_LINE = re.compile(r"(.+\.jsonl):(\d+)")

Settle = Callable[[Plan], Iterable[Record]]


@dataclass(frozen=True)
class Chosen:
    """One cell. `record` is what the store knows of it; `packages` hold its kernel when that is
    imported; `warnings` are for the user's eyes.
    """

    cell: Cell
    record: Record | None = None
    packages: Mapping[str, Package] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def under(self, toolchain: str) -> Cell:
        """The same launch, options and target with another compiler."""
        return replace(self.cell, toolchain=toolchain)

    def plan(self, choices: Sequence[Choice], name: str) -> Plan:
        """The cell under each of these compilers, as the engine asks it; `name` is what the run is
        called.
        """
        return Plan(
            matrix=Matrix(name, name, ()),
            cells=[self.under(choice.identity) for choice in choices],
            choices={choice.identity: choice for choice in choices},
            packages=self.packages,
            forms={},
        )


def is_key(what: str | None) -> bool:
    """Whether a CELL is a key, or the beginning of one."""
    return what is not None and _KEY.fullmatch(what) is not None


def needs_store(what: str | None) -> bool:
    """Whether a CELL can only be found in a store that is there already."""
    return what is None or is_key(what)


def choose(
    what: str | None,
    selection: Selection,
    store: Store,
    settle: Settle,
    progress: Progress = silent,
    trust: bool = False,
) -> Chosen:
    """The one cell that CELL and the selection name.

    Cells of a file or matrix whose verdict is needed to choose among them are compiled by `settle`.
    Raises UsageError with the candidates when no cell or several are left, EmptySelection when
    nothing of a file is selected.
    """
    if what is None:
        return _rebuilt(
            _one_signature(_matching(store.latest(), selection), "the store", store),
            store,
            progress,
        )
    if is_key(what):
        return _rebuilt(_of_key(what, selection, store), store, progress)
    return _of_plan(what, _plan(what, selection, progress, trust), store, settle)


def _of_key(prefix: str, selection: Selection, store: Store) -> Record:
    found = store.find(prefix)
    if len(found) > 1:
        # A whole key needs no flags; a settings file may hold some.
        found = _matching(found, selection) or found
    if len(found) != 1:
        what = (
            f"several cells begin with {prefix}"
            if found
            else f"no cell in {store.path} begins with {prefix}"
        )
        raise _undecided(what, found or list(store.latest()))
    return found[0]


def _plan(what: str, selection: Selection, progress: Progress, trust: bool) -> Plan:
    if line := _LINE.fullmatch(what):
        return planning.plan(line[1], selection, progress=progress, trust=trust, line=int(line[2]))
    if not Path(what).suffix and what not in matrix.names():
        raise UsageError(
            f"{what!r} names no cell: give a key or the first 8 characters of one, FILE.jsonl:LINE, a matrix "
            f"({', '.join(matrix.names())} or a YAML file), or only flags such as --kernel and --triton"
        )
    return planning.plan(what, selection, progress=progress, trust=trust)


def _of_plan(what: str, plan: Plan, store: Store, settle: Settle) -> Chosen:
    """A plan's only cell, or the one among its failing cells."""
    cells = {cell.key: cell for cell in plan.cells}
    key = (
        next(iter(cells))
        if len(cells) == 1
        else _one_signature(list(settle(plan)), what, store).key
    )
    cell, record = cells[key], store.done([key]).get(key)
    needed = {
        spec: package for spec, package in plan.packages.items() if spec == cell.kernel.package
    }
    return Chosen(cell, record, needed if _is_imported(cell.kernel) else {}, plan.warnings)


# Among several


def _matching(records: Iterable[Record], selection: Selection) -> list[Record]:
    names = _toolchains(selection)
    wanted = [targets.find(name).name for name in selection.targets]
    return [record for record in records if _matches(record, selection, wanted, names)]


def _toolchains(selection: Selection) -> set[str]:
    resolver = planning.Resolver()
    return {name for spec in selection.toolchains for name in resolver(spec)}


def _matches(record: Record, selection: Selection, wanted: Sequence[str], names: set[str]) -> bool:
    asked: tuple[tuple[object, object], ...] = (
        (record.target, wanted),
        (record.dtype, selection.dtypes),
        (record.options.get("num_warps"), selection.num_warps),
        (record.options.get("num_stages"), selection.num_stages),
        (record.toolchain, names),
    )
    return any(named(glob, record.kernel) for glob in selection.kernels or ("*",)) and all(
        not values or value in values  # type: ignore[operator]
        for value, values in asked
    )


def _order(record: Record) -> tuple[bool, str]:
    """By key, but a compile before an autotuner's run that met the same failure in one of its
    configurations.
    """
    return bool(record.launch and record.launch.get("configs")), record.key


def _one_signature(records: Sequence[Record], where: str, store: Store) -> Record:
    """The first by key of failing cells that share a signature; where none fails, the only slow
    one.
    """
    failing = sorted((record for record in records if record.verdict is Verdict.FAILS), key=_order)
    if not failing and len(slow := _slow(records, store)) == 1:
        return slow[0]
    signatures = {record.signature: record for record in reversed(failing)}
    if not failing:
        raise _undecided(f"no cell of {where} that fails matches the selection", records)
    if len(signatures) > 1:
        what = f"{len(failing)} cells of {where} fail in {len(signatures)} ways; one of each"
        raise _undecided(what, list(signatures.values()))
    return failing[0]


def _slow(records: Sequence[Record], store: Store) -> list[Record]:
    """Those that compile, and take far longer than on the other releases in the store."""
    found = slow_compiles(list(observe(store.latest())))
    return [record for record in records if record.key in found]


def _undecided(what: str, candidates: Sequence[Record]) -> UsageError:
    """At most a screenful of candidates, the failing ones first."""
    ordered = sorted(
        candidates,
        key=lambda record: (record.verdict is not Verdict.FAILS, record.kernel, record.key),
    )
    shown = [_listed(record) for record in ordered[:SCREENFUL]]
    more = [f"  and {len(ordered) - SCREENFUL} more"] if len(ordered) > SCREENFUL else []
    if not shown:
        return UsageError(
            f"{what}, and there is nothing to choose from: `flacheck scan` first, or other flags"
        )
    return UsageError("\n".join([f"{what}; name one by its key:", *shown, *more]))


def _listed(record: Record) -> str:
    outcome = record.code or record.verdict.value
    said = settings(record.launch, record.shape, record.options)
    words = (
        record.key[:12],
        record.kernel,
        record.toolchain,
        record.target,
        outcome,
        record.dtype or "-",
        said,
    )
    return ("  " + "  ".join(words)).rstrip()


def settings(
    launch: Mapping[str, Any] | None, shape: Mapping[str, int], options: Mapping[str, Any]
) -> str:
    """Shape, block sizes and options of a cell in one line: what tells the cells of one kernel
    apart.
    """
    tuned = take_apart(launch, shape).tuned
    blocks = {name: value for name, value in tuned.items() if BLOCK.fullmatch(name)}
    return " ".join(f"{name}={value}" for name, value in {**shape, **blocks, **options}.items())


# From a record to what can be compiled


def _rebuilt(record: Record, store: Store, progress: Progress) -> Chosen:
    cell = store.cell(record) or _of_older(record, progress)
    if "corpus" in cell.kernel.origin:
        return _renewed(cell, record, _corpus_kernel(cell.kernel.name), {})
    if not _is_imported(cell.kernel):
        # A store may have come from elsewhere, so its sources are believed no more than those of a
        # launches file.
        launches.admitted(str(cell.kernel.origin.get("source", "")))
        return Chosen(cell, record)
    spec = str(cell.kernel.package)
    package = packages.provide_package(spec, progress)
    kernel = replace(
        cell.kernel,
        digest=_package_digest(cell.kernel, package),
        origin=_loadable(cell.kernel.origin),
    )
    return _renewed(cell, record, kernel, {spec: package})


def _is_imported(kernel: Kernel) -> bool:
    return "module" in kernel.origin or "import" in kernel.origin


def _loadable(origin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where there is no torch to import a kernel beside, it is loaded beside the stand-in."""
    if "import" not in origin or "qualname" not in origin or replay.torch_folder():
        return origin
    return {
        "module": origin["import"],
        **{name: value for name, value in origin.items() if name != "import"},
    }


def _package_digest(kernel: Kernel, package: Package) -> str:
    """A package's kernel stands for itself in that package, the import of a module for the whole
    package.
    """
    return digest([package.digest, kernel.name]) if "qualname" in kernel.origin else package.digest


def _renewed(cell: Cell, record: Record, kernel: Kernel, provided: Mapping[str, Package]) -> Chosen:
    """The cell with its kernel as it is now; what was stored of another source is not known of this
    one.
    """
    cell, before = replace(cell, kernel=kernel), cell.kernel.digest
    if kernel.digest == before:
        return Chosen(cell, record, provided)
    warning = f"{kernel.name} is no longer what it was when {record.key[:12]} was compiled: taken as it is now"
    return Chosen(cell, None, provided, (warning,))


def _corpus_kernel(name: str) -> Kernel:
    found = corpus.load().get(name)
    if found is None:
        raise UsageError(f"{name} is no kernel of ours any more; see `flacheck list kernels`")
    return found.kernel


def _of_older(record: Record, progress: Progress) -> Cell:
    """The cell of a record that was stored without one, when what can be said of its kernel leads
    to its key.
    """
    for stage, until in (("compile", None), ("autotune", None), ("compile", record.stage)):
        for kernel in _guessed(record, progress):
            cell = stored_cells.of_record(record, kernel, stage, until)
            if cell.key == record.key:
                return cell
    raise UsageError(
        f"{record.key[:12]} ({record.kernel}) was stored by an older flacheck, without its source, and cannot be built "
        "again from what there is now: scan it once more"
    )


def _guessed(record: Record, progress: Progress) -> Iterable[Kernel]:
    if record.how == "corpus":
        yield _corpus_kernel(record.kernel)
    elif record.how == "stub" and record.package:
        package = packages.provide_package(record.package, progress)
        module, _, qualname = record.kernel.partition(":")
        kernel = Kernel(record.kernel, record.package, "", {"module": module, "qualname": qualname})
        yield replace(kernel, digest=_package_digest(kernel, package))
