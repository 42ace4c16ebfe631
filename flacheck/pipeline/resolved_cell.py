"""The resolution of CELL to one cell that can be compiled under any release.

CELL is a key or a unique prefix of it, looked up in the store; `FILE.jsonl:LINE`; a matrix; or
nothing but selection flags, which then search the store. If several cells are left, they must be
failing ones of one signature, or, where none fails, the only one that compiles slowly beside the
other releases in the store.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.engine.package_builds import provide_package
from flacheck.engine.provider import torch_folder
from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.analysis.observation import BLOCK, observe, take_apart
from flacheck.evidence.analysis.slow import slow_compiles
from flacheck.model import (
    Cell,
    Cut,
    Imported,
    Kernel,
    Purpose,
    Record,
    Stubbed,
    Unit,
    Unrecorded,
    Verdict,
    digest,
)
from flacheck.model.launch import FormError, check_options
from flacheck.pipeline import build_units, planning
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import records_of
from flacheck.source.packages import checkouts, source_trees
from flacheck.source.packages import package as packages
from flacheck.source.packages.package import Package
from flacheck.store import Store
from flacheck.subjects.inputs import corpus, matrix
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches.admission import Refused, check_source
from flacheck.subjects.inputs.subject import Subject, line_of
from flacheck.tables import targets
from flacheck.toolchains import Resolver
from flacheck.toolchains.base import Choice

_LOG = logging.getLogger(__name__)
# Candidates that an error lists: what fits on a screen.
_SCREENFUL = 16
_KEY = re.compile(r"[0-9a-f]{1,32}")


@dataclass(frozen=True)
class ResolvedCell:
    """One cell with everything that is needed to compile it again.

    Attributes:
        cell: The cell.
        record: Its stored record; None without one.
        packages: The package of an imported kernel.
        warnings: Messages for the user.
        trust: True if the user vouches for its source.
    """

    cell: Cell
    record: Record | None = None
    packages: Mapping[str, Package] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    trust: bool = False

    def under(self, toolchain: str) -> Cell:
        """Return the cell with another compiler."""
        return replace(self.cell, toolchain=toolchain)

    def plan(self, choices: Sequence[Choice], name: str, purpose: Purpose) -> Plan:
        """Return a plan of the cell under each of these compilers."""
        return Plan(
            name=name,
            cells=[self.under(choice.identity) for choice in choices],
            choices={choice.identity: choice for choice in choices},
            packages=self.packages,
            purpose=purpose,
            trust=self.trust,
        )


def rebuild_cell(record: Record, trust: bool = False) -> ResolvedCell:
    """Return a stored record's cell, ready to be compiled again.

    Raises:
        UsageError: If its source is not stored, or refused without `trust`.
    """
    return _rebuilt(record, trust)


def is_key(what: str | Subject | None) -> bool:
    """Return True for a key or the beginning of a key."""
    return isinstance(what, str) and _KEY.fullmatch(what) is not None


def needs_store(what: str | Subject | None) -> bool:
    """Return True if the cell can only be in an existing store."""
    return what is None or is_key(what)


def resolve_cell(
    what: str | Subject | None,
    selection: Selection,
    store: Store,
    purpose: Purpose,
    trust: bool = False,
    options: RunOptions | None = None,
) -> ResolvedCell:
    """Return the one cell that CELL and the selection name.

    If a file or matrix leaves several cells, they are compiled in a run, and the one that fails is
    taken.

    Args:
        what: A key, a file, a matrix, or a subject; None searches the store.
        selection: The selection.
        store: Where stored cells are, and where the run goes.
        purpose: The purpose of the run.
        trust: True if the user vouches for sources in files and stores.
        options: How the cells of the run are compiled.

    Raises:
        UsageError: With the candidates, if no cell or several are left.
        EmptySelection: If nothing of a file is selected.
    """
    if selection.ops and needs_store(what):
        raise EmptySelection(
            "--op selects by recorded call paths, which stored results do not hold: name what was "
            "recorded with --package NAME==VERSION or --matrix LAUNCHES.jsonl"
        )
    if what is None:
        record = _one_signature(_matching(store.latest(), selection), "the store", store)
        return _rebuilt(record, trust, store)
    if isinstance(what, str) and is_key(what):
        return _rebuilt(_record_by_key(what, selection, store), trust, store)
    if isinstance(what, Subject):
        plan, name = planning.plan_job(Job(what, selection)), what.name
    else:
        plan, name = _plan_of(what, selection, trust), what
    plan = replace(plan, purpose=purpose)
    cells = {cell.key: cell for cell in plan.cells}
    key = next(iter(cells))
    if len(cells) > 1:
        records = list(records_of(plan, store, options))
        try:
            key = _one_signature(records, name, store).key
        except UsageError:
            # Kernels that have changed since their capture may be why none is left.
            for message in plan.warnings:
                _LOG.warning(message)
            raise
    cell = cells[key]
    package_folders = {}
    if cell.kernel.is_of_package:
        package_folders = {
            s: package for s, package in plan.packages.items() if s == cell.kernel.package
        }
    return ResolvedCell(
        cell, store.latest_records([key]).get(key), package_folders, plan.warnings, plan.trust
    )


def _record_by_key(key: str, selection: Selection, store: Store) -> Record:
    """Return the stored record whose key begins with `key`; raise UsageError unless one is left."""
    records = store.find(key)
    if not records:
        message = f"no cell in {store.path} begins with {key}"
        raise _undecided(message, list(store.latest()))
    if len(records) > 1:
        # A whole key needs no flags; a settings file may hold some.
        records = _matching(records, selection) or records
    if len(records) > 1:
        raise _undecided(f"several cells begin with {key}", records)
    return records[0]


def _plan_of(what: str, selection: Selection, trust: bool) -> Plan:
    """Return the plan of the selected cells of a file or a matrix."""
    file, line = line_of(what)
    if line is None and not file.suffix and what not in matrix.names():
        raise UsageError(
            f"{what!r} names no cell: give a key or the first 8 characters of one, "
            f"FILE.jsonl:LINE, a matrix ({', '.join(matrix.names())} or a YAML file), or only "
            "flags such as --kernel and --triton"
        )
    return planning.plan_job(Job(Subject(what, trust=trust), selection))


def _matching(records: Iterable[Record], selection: Selection) -> list[Record]:
    resolver = Resolver()
    names = {name for spec in selection.toolchains for name in resolver(spec)}
    target_names = [spelling for name in selection.targets for spelling in targets.spellings(name)]
    return [record for record in records if _matches(record, selection, target_names, names)]


def _matches(record: Record, selection: Selection, asked: Sequence[str], names: set[str]) -> bool:
    if not selection.names(record.kernel):
        return False
    facts: tuple[tuple[Any, Iterable[Any]], ...] = (
        (record.target, asked),
        (record.dtype, selection.dtypes),
        (record.options.get("num_warps"), selection.num_warps),
        (record.options.get("num_stages"), selection.num_stages),
        (record.toolchain, names),
    )
    return all(not values or value in values for value, values in facts)


def _one_signature(records: Sequence[Record], where: str, store: Store) -> Record:
    """Return the first failing cell by key if all share a signature, else the only slow one."""
    failing = sorted((r for r in records if r.verdict is Verdict.FAILS), key=lambda r: r.key)
    # A compile before an autotuner's run that met the same failure in one of its configurations.
    failing.sort(key=lambda r: bool(r.launch and r.launch.configs))
    if not failing:
        # Those that compile, and take far longer than on the other releases in the store.
        known_slow = slow_compiles(list(observe(store.latest())))
        slow = [record for record in records if record.key in known_slow]
        if len(slow) == 1:
            return slow[0]
        raise _undecided(f"no cell of {where} that fails matches the selection", records)
    signatures = {record.signature: record for record in reversed(failing)}
    if len(signatures) > 1:
        what = f"{len(failing)} cells of {where} fail in {len(signatures)} ways; one of each"
        raise _undecided(what, list(signatures.values()))
    return failing[0]


def _undecided(what: str, candidates: Sequence[Record]) -> UsageError:
    """Return an error with at most a screenful of candidates, failing ones first."""
    if not candidates:
        return UsageError(
            f"{what}, and there is nothing to choose from: run `flacheck scan` first, or change "
            "the flags"
        )
    sorted_candidates = sorted(
        candidates, key=lambda r: (r.verdict is not Verdict.FAILS, r.kernel, r.key)
    )
    lines = [f"{what}; name one by its key:"]
    lines += [_listed(record) for record in sorted_candidates[:_SCREENFUL]]
    if len(sorted_candidates) > _SCREENFUL:
        lines.append(f"  and {len(sorted_candidates) - _SCREENFUL} more")
    return UsageError("\n".join(lines))


def _listed(record: Record) -> str:
    words = (
        record.key[:12],
        record.kernel,
        record.toolchain,
        record.target,
        record.code or record.verdict.value,
        record.dtype or "-",
        settings(record.cell),
    )
    return ("  " + "  ".join(words)).rstrip()


def settings(cell: Cell) -> str:
    """Return shape, block sizes and options of a cell in one line."""
    constants = take_apart(cell.launch, cell.shape).tuned_constants
    blocks = {name: value for name, value in constants.items() if BLOCK.fullmatch(name)}
    values = {**cell.shape, **blocks, **cell.options}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _rebuilt(record: Record, trust: bool, store: Store | None = None) -> ResolvedCell:
    """Return the cell with its kernel in the present version.

    The record of another version of the source is dropped. A store may come from someone else:
    without `trust` its sources are checked like those of a launches file.

    Raises:
        UsageError: If source or options are not admitted, or a package is not installed.
    """
    cell = record.cell
    origin = cell.kernel.origin
    if isinstance(origin, Unrecorded):
        raise UsageError(
            f"{record.key[:12]} ({record.kernel}) is stored without its source, and cannot be "
            "compiled again: run `flacheck scan` for it once more"
        )
    if not isinstance(origin, Unit):
        _check_options(cell)
    if isinstance(origin, Cut):
        if not trust:
            _check_source(cell, origin.source)
        return ResolvedCell(cell, record, trust=trust)
    package_folders = {}
    if isinstance(origin, Unit) and cell.kernel.package is not None:
        kernel, package = _current_unit(cell.kernel, cell.kernel.package, trust, store)
        package_folders = {package.identity: package}
    elif cell.kernel.is_of_package:
        kernel, package = _current_kernel(cell, trust)
        package_folders = {str(kernel.package): package}
    else:
        kernel = _corpus_kernel(cell.kernel.name)
    now = replace(cell, kernel=kernel)
    if kernel.digest == cell.kernel.digest:
        return ResolvedCell(now, record, package_folders, trust=trust)
    message = f"{kernel.name} has changed since {record.key[:12]} was compiled: taken as it is now"
    return ResolvedCell(now, None, package_folders, (message,), trust)


def _current_unit(
    kernel: Kernel, spec: str, trust: bool, store: Store | None
) -> tuple[Kernel, Package]:
    """Return a CUDA unit as its package or checkout has it now, and the package."""
    # The user named a release whose sources are here; a store alone may name any folder.
    may_run = trust or source_trees.has_sources(spec)
    if source_trees.is_checkout(spec):
        spec = _folder_of(kernel, store)
    elif not may_run:
        raise _not_installed(kernel)
    return build_units.current(kernel, spec, may_run)


def _current_kernel(cell: Cell, trust: bool) -> tuple[Kernel, Package]:
    """Return a package's kernel as it is installed now, and the package."""
    kernel, origin = cell.kernel, cell.kernel.origin
    package = _package_of(kernel, trust)
    if isinstance(origin, Imported):
        if not trust and origin.cut is not None:
            _check_source(cell, origin.cut)
        if origin.qualname and not torch_folder():
            # Without torch a kernel is loaded beside the stand-in.
            origin = Stubbed(origin.module, origin.qualname, origin.made_up)
    return replace(kernel, digest=_package_digest(kernel, package), origin=origin), package


def _check_source(cell: Cell, source: str) -> None:
    """Raise UsageError for a stored source that a launches file may not hold either."""
    try:
        check_source(source)
    except Refused as error:
        raise UsageError(
            f"the stored cell {cell.key[:12]} is refused: {error}; --trust compiles it all the same"
        ) from error


def _check_options(cell: Cell) -> None:
    """Raise UsageError for a stored option that no scan stores: it could name a file."""
    configs: Sequence[Mapping[str, Any]] = ()
    if cell.launch:
        configs = cell.launch.configs
    try:
        check_options(dict(cell.options))
        for config in configs:
            check_options({name: value for name, value in config.items() if name != "kwargs"})
    except FormError as error:
        raise UsageError(f"the stored cell {cell.key[:12]} is refused: {error}") from error


def _package_of(kernel: Kernel, trust: bool) -> Package:
    """Return the package of a stored kernel.

    Raises:
        UsageError: If only the store vouches for the package or for the module.
    """
    spec = str(kernel.package)
    if trust:
        return provide_package(spec)
    package = packages.installed_package(spec)
    if package is None:
        raise _not_installed(kernel)
    module = getattr(kernel.origin, "module", "")
    top = Path(package.path) / module.partition(".")[0]
    if not top.is_dir() and not top.with_suffix(".py").is_file():
        raise UsageError(
            f"the stored kernel {kernel.name} is refused: {module} is no module of {spec}; --trust "
            "imports it all the same"
        )
    return package


def _not_installed(kernel: Kernel) -> UsageError:
    return UsageError(
        f"the stored kernel {kernel.name} is of {kernel.package}, which is not installed here: "
        f"--trust installs it, and so does a scan with --package {kernel.package}"
    )


def _folder_of(kernel: Kernel, store: Store | None) -> str:
    """Return the folder of a unit's checkout, from the stored questions about it.

    The package index is not used, because a package of that name there may be another one.
    """
    runs = store.runs() if store is not None else ()
    for run in runs:
        question = run.question
        if question is None or question.about != kernel.package:
            continue
        if checkouts.is_path(question.source) and Path(question.source).is_dir():
            return question.source
    raise UsageError(
        f"{kernel.name} is of the checkout {kernel.package}, whose folder is not known here: name "
        "it with --package DIR, and the unit with --kernel"
    )


def _package_digest(kernel: Kernel, package: Package) -> str:
    """Return the digest of a package's kernel; the import of a module has the package's digest."""
    if isinstance(kernel.origin, Imported) and kernel.origin.qualname is None:
        return package.digest
    return digest([package.digest, kernel.name])


def _corpus_kernel(name: str) -> Kernel:
    source = corpus.load().get(name)
    if source is None:
        raise UsageError(f"{name} was removed from flacheck; see `flacheck list kernels`")
    return source.kernel
