"""`flacheck.diff`: what changes between two releases, or two sets of stored results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    one_package,
    run_options,
    selection_of,
    subject_of,
)
from flacheck.api.results import library_or_none
from flacheck.capabilities.diff import comparison_plan, sides
from flacheck.capabilities.diff.comparing import compare, compare_published
from flacheck.capabilities.diff.published_sides import PublishedSides, published_sides
from flacheck.capabilities.diff.result import Comparison
from flacheck.capabilities.diff.sides import Side
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.published.evidence import judged_evidence
from flacheck.evidence.published.library import ResultsFolder
from flacheck.model import Record
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.store import FILE, Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables.settings import settings, waivers
from flacheck.tables.settings.waivers import Waiver


def diff(
    from_: str,
    to: str,
    *,
    package: Texts | PathLike | None = None,
    matrix: PathLike | None = None,
    configs: str | None = None,
    kernel: Several = (),
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    num_warps: Several = (),
    num_stages: Several = (),
    define: Texts = (),
    options: Texts = (),
    triton: Texts = (),
    jobs: int = 0,
    executor: str = "local",
    cache_from: PathLike | None = None,
    cache_to: PathLike | None = None,
    timeout: str | float = "auto",
    memory: int = 8192,
    fresh: bool = False,
    trust: bool = False,
    no_published: bool = False,
    results: PathLike | None = None,
    store: PathLike = STORE,
    chosen: bool = True,
    on_event: OnEvent | None = None,
) -> Comparison:
    """Compare two releases, or two sets of stored results; compile what has no stored result.

    Published results of the package take the place of compiles; records of the store come first.

    Args:
        from_: `torch==2.9.*`, `triton==3.5.1`, `installed`, `newest`, `run:ID`, a launches file or
            a run's JSON; or a package, `NAME==VERSION`, where `to` is another release of it.
        to: The same, for the other side.
        package, matrix: What to compare; the default is the stored side's own, else `quick`.
        configs: `usual` for one configuration of each usual launch, `edges` for those and a
            few extreme ones, `own` for all; None for `own` up to 1,000 configurations on a
            toolchain and target, else `edges`.
        kernel, op, target, dtype, num_warps, num_stages: The selection, one value or several.
        define, options: Macros and compiler options, each `NAME=VALUE`.
        triton: The release of a stored side that holds several, or under which two releases of a
            package are compiled.
        jobs, executor, timeout, memory, fresh: How the cells are compiled, as for `scan`.
        cache_from, cache_to: Shared caches of results, as for `scan`.
        trust: Install and import the packages that a launches file names.
        no_published: Compile also what published results answer; `fresh` does.
        results: A folder or URL of published results instead of flacheck's own.
        store: The folder of the store.
        chosen: False if `package` and `matrix` are defaults that a stored side replaces.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If the sides cannot be compared.
        EmptySelection: If nothing is left to compare.
    """
    handle = on_event or ignore
    selection = selection_of(
        kernel=kernel,
        op=op,
        target=target,
        dtype=dtype,
        num_warps=num_warps,
        num_stages=num_stages,
        triton=triton,
        define=define,
        options=options,
    )
    run = run_options(
        timeout=timeout,
        jobs=jobs,
        executor=executor,
        memory=memory,
        fresh=fresh,
        cache_from=cache_from,
        cache_to=cache_to,
    )
    folder = Path(store)
    before = sides.read(from_, folder, selection.toolchains)
    after = sides.read(to, folder, selection.toolchains)
    for note in (*sides.notes(before), *sides.notes(after)):
        handle(Progress(note))
    subject = subject_of(matrix, one_package(package, "diff"), trust, configs)
    valid = waivers.in_force(settings.waivers(Path.cwd()), date.today())

    def is_waived(record: Record) -> bool:
        return waivers.are_waived(valid, record)

    is_chosen = chosen and bool(matrix or package)
    # Published results would answer about any two packages.
    comparison_plan.check_packages(before, after, is_chosen)
    library = None if no_published else library_or_none(results)
    failures_of = _Failures(folder, library, selection, valid)
    if not (no_published or fresh):
        published = _by_published(before, after, subject, selection, library, folder)
        if isinstance(published, PublishedSides):
            return compare_published(published, is_waived, failures_of)
        if published:
            handle(Progress(f"not answered by published results: {published}"))
    plan = comparison_plan.plan_comparison(before, after, subject, is_chosen, selection)
    for warning in plan.warnings:
        handle(Progress(warning))
    if plan.plan is None:
        # Two stored results are compared without a store.
        return drain(compare(plan, None, is_waived, run), on_event)
    with Store.open(folder) as open_store:
        return drain(compare(plan, open_store, is_waived, run, failures_of), on_event)


class _Failures:
    """A lookup of failures by all evidence: stored scans and published results."""

    def __init__(
        self,
        folder: Path,
        library: ResultsFolder | None,
        selection: Selection,
        valid_waivers: Sequence[Waiver],
    ) -> None:
        self._folder = folder
        self._library = library
        self._selection = selection
        self._waivers = valid_waivers
        self._judged: dict[tuple[str, tuple[str, ...]], list[Standing]] = {}

    def __call__(self, about: str, toolchain: str, on: Sequence[str]) -> list[ObservedCell]:
        """Return the failures of the selected kernels under a compiler on some GPUs."""
        question = (about, tuple(on))
        if question not in self._judged:
            self._judged[question] = self._judge(about, on)
        cells: list[ObservedCell] = []
        for standing in self._judged[question]:
            if standing.toolchain == toolchain:
                cells += filter(self._selects, standing.failing)
        return cells

    def _judge(self, about: str, on: Sequence[str]) -> list[Standing]:
        # The operators of a published cell are unknown.
        if self._selection.ops:
            return []
        if not (self._folder / FILE).is_file():
            return judged_evidence(about, on, None, self._library)
        with Store.open(self._folder, create=False) as store:
            return judged_evidence(about, on, store, self._library)

    def _selects(self, cell: ObservedCell) -> bool:
        if self._selection.dtypes and cell.dtype not in (None, *self._selection.dtypes):
            return False
        return self._selection.names(cell.kernel) and not waivers.are_waived(self._waivers, cell)


def _by_published(
    before: Side,
    after: Side,
    subject: Subject,
    selection: Selection,
    library: ResultsFolder | None,
    folder: Path,
) -> PublishedSides | str:
    """Return the comparison by published results, or the reason for none; "" without results."""
    if library is None:
        return ""
    if not (folder / FILE).is_file():
        return published_sides(before, after, subject, selection, library, None)
    with Store.open(folder, create=False) as store:
        return published_sides(before, after, subject, selection, library, store)
