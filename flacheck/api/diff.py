"""`flacheck.diff`: what changes between two releases, or two sets of stored results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import (
    one_package,
    run_options,
    selection_of,
    subject_of,
)
from flacheck.api.options.commands import DiffOptions
from flacheck.api.options.declaration import takes
from flacheck.api.results import library_or_none
from flacheck.capabilities.diff import comparison_plan, sides
from flacheck.capabilities.diff.comparing import compare, compare_published
from flacheck.capabilities.diff.published_sides import PublishedSides, published_sides
from flacheck.capabilities.diff.result import Comparison
from flacheck.capabilities.diff.sides import Side
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.measured.comparison import CardComparison, stored_measurements
from flacheck.evidence.measured.comparison import compare as compare_on_cards
from flacheck.evidence.published.evidence import judged_evidence
from flacheck.evidence.published.library import ResultsFolder
from flacheck.model import Record
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.store import FILE, Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables.settings import settings, waivers
from flacheck.tables.settings.waivers import Waiver

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(DiffOptions)
def diff(
    from_: str,
    to: str,
    *,
    chosen: bool = True,
    on_event: OnEvent | None = None,
    **options: Unpack[DiffOptions],
) -> Comparison:
    """Compare two releases, or two sets of stored results; compile what has no stored result.

    Published results of the package take the place of compiles; records of the store come first.
    Without `package` and `matrix` the subject is that of a stored side, else the matrix `quick`.

    Args:
        from_: `torch==2.9.*`, `triton==3.5.1`, `installed`, `newest`, `run:ID`, a launches file or
            a run's JSON; or a package, `NAME==VERSION`, where `to` is another release of it.
        to: The same, for the other side.
        **options: The options of `flacheck diff`.
        chosen: False if `package` and `matrix` are defaults that a stored side replaces.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If the sides cannot be compared.
        EmptySelection: If nothing is left to compare.
    """
    handle = on_event or ignore
    selection, run = selection_of(options), run_options(options)
    folder = Path(options["store"])
    before = sides.read(from_, folder, selection.toolchains)
    after = sides.read(to, folder, selection.toolchains)
    for note in (*before.notes, *after.notes):
        handle(Progress(note))
    matrix, package = options["matrix"], one_package(options["package"], "diff")
    subject = subject_of(matrix, package, options["trust"], options["configs"])
    valid = waivers.in_force(settings.waivers(Path.cwd()), date.today())

    def is_waived(record: Record) -> bool:
        return waivers.are_waived(valid, record)

    is_chosen = chosen and bool(matrix or package)
    # Published results would answer about any two packages.
    comparison_plan.check_packages(before, after, is_chosen)
    library = None if options["no_published"] else library_or_none(options["results"])
    failures_of = _Failures(folder, library, selection, valid)
    if not (options["no_published"] or options["fresh"]):
        published = _by_published(before, after, subject, selection, library, folder)
        if isinstance(published, PublishedSides):
            compared = compare_published(published, is_waived, failures_of)
            return with_measurements(compared, folder, library)
        if published:
            handle(Progress(f"not answered by published results: {published}"))
    plan = comparison_plan.plan_comparison(before, after, subject, is_chosen, selection)
    for warning in plan.warnings:
        handle(Progress(warning))
    if plan.plan is None:
        # Two stored results are compared without a store.
        return drain(compare(plan, None, is_waived, run), on_event)
    with Store.open(folder) as open_store:
        compared = drain(compare(plan, open_store, is_waived, run, failures_of), on_event)
    return with_measurements(compared, folder, library)


def with_measurements(
    result: Comparison, folder: Path, library: ResultsFolder | None = None
) -> Comparison:
    """Return the comparison with the measurements of both releases, if there are any.

    The user's own one on a GPU takes the place of a published one.
    """
    before, after = result.before.toolchain, result.after.toolchain
    if before is None or after is None or before == after:
        return result
    by_card: dict[str, CardComparison] = {}
    if library is not None:
        for entry in library.entries(result.about, accepts=lambda each: each.toolchain == after):
            for published in library.header(entry).measured:
                if published.before == before and entry.target in result.targets:
                    by_card[published.card] = published
    if (folder / FILE).is_file():
        with Store.open(folder, create=False) as store:
            documents = stored_measurements(store)
        about = result.about
        if about.endswith(".jsonl"):
            about = Path(about).stem
        for own in compare_on_cards(documents, before, after, about):
            by_card[own.card] = own
    return replace(result, measured=tuple(by_card.values()))


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
