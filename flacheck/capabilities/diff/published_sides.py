"""A comparison by published results: nothing is captured and nothing is compiled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flacheck.capabilities.diff.comparison_plan import ComparisonPlan, one_each
from flacheck.capabilities.diff.package_view import PublishedCapture
from flacheck.capabilities.diff.sides import ReleaseSide, Side
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.published.answers import (
    PublishedPart,
    PublishedSource,
    places_of,
    source,
    widest_configs,
)
from flacheck.evidence.published.library import ResultsFolder
from flacheck.evidence.published.packing import PublishedPlace
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.model.coverage import PackageCoverage
from flacheck.pipeline.package_launches import DEFAULT_TARGETS
from flacheck.pipeline.plan import Plan
from flacheck.source.packages import checkouts
from flacheck.source.packages import package as packages
from flacheck.store import Store
from flacheck.subjects.inputs import matrix
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables import targets

# Parts of a selection that change cells, or need the call paths of a capture.
_UNPUBLISHED = ("ops", "num_warps", "num_stages", "defines", "options_given")


@dataclass(frozen=True)
class PublishedSides:
    """Both sides of a comparison by published results.

    Attributes:
        plan: The comparison.
        records: The records of its cells, and of other configurations of their launches.
        alternatives: The cells of those other configurations, by the cell of the same launch.
        source: Where the records are from.
        fallbacks: The published fallbacks of failing cells.
        library: The results, for other releases.
        places: The answers that the records are from.
    """

    plan: ComparisonPlan
    records: Mapping[str, Record]
    alternatives: Mapping[str, list[Cell]]
    source: PublishedSource
    fallbacks: tuple[Fallback, ...] = ()
    library: ResultsFolder | None = field(default=None, compare=False)
    places: tuple[PublishedPlace, ...] = ()

    def verdicts(self, toolchain: str) -> Mapping[str, Verdict]:
        """Return the verdicts of the same question under another release, by key."""
        assert self.library is not None
        questions = []
        for place in self.places:
            questions.append((place.header.about, toolchain, place.header.target))
        other = places_of(self.library, list(dict.fromkeys(questions)), self.configs)
        verdicts = {}
        for place in other.places:
            for record in place.records:
                verdicts[record.key] = record.verdict
        return verdicts

    @property
    def configs(self) -> str:
        """The configurations of the results."""
        return self.places[0].header.configs


def published_sides(
    before: Side,
    after: Side,
    subject: Subject,
    selection: Selection,
    library: ResultsFolder,
    store: Store | None,
) -> PublishedSides | str:
    """Return the comparison by published results, or the reason for none.

    The reason is empty if nothing is published about the subject, or if the store holds every cell.
    """
    if not isinstance(before, ReleaseSide) or not isinstance(after, ReleaseSide):
        return ""
    questions = _questions(before, after, subject, selection)
    if not questions:
        return ""
    configs = subject.configs or widest_configs(library, questions)
    part = places_of(library, questions, configs)
    if not part.places:
        return part.missing
    for name in _UNPUBLISHED:
        if getattr(selection, name):
            option = name.replace("_given", "").replace("_", "-")
            return f"a selection by {option} compiles here; without it, they answer"
    return _sides(before, after, part, configs, selection, library, store)


def _questions(
    before: ReleaseSide, after: ReleaseSide, subject: Subject, selection: Selection
) -> list[tuple[str, str, str]]:
    """Return the (package or matrix, toolchain, target) of both sides; none for other subjects."""
    questions = []
    on = [targets.find(name).name for name in selection.targets or DEFAULT_TARGETS]
    for side in (before, after):
        about = side.package or subject.package
        if side.launches:
            return []
        if about is not None and not checkouts.is_path(about):
            name, version = packages.parse(about)
            about = f"{name}=={version}"
        elif about is None and subject.matrix in matrix.names():
            about = subject.matrix
        else:
            return []
        for target in on:
            questions.append((about, side.choice.identity, target))
    return list(dict.fromkeys(questions))


def _sides(
    before: ReleaseSide,
    after: ReleaseSide,
    part: PublishedPart,
    configs: str,
    selection: Selection,
    library: ResultsFolder,
    store: Store | None,
) -> PublishedSides | str:
    records: dict[str, Record] = {}
    alternatives: dict[str, list[Cell]] = {}
    forms: dict[tuple[str | None, str], tuple[str, str]] = {}
    for place in part.places:
        by_key = {record.key: record for record in place.records}
        records.update(by_key)
        alternatives.update(_alternatives(place, by_key))
        forms.update(place.forms)
    if any(place.header.package is None for place in part.places):
        # A matrix chooses its configurations itself.
        configs = "own"
    cells = _compared_cells(part, selection, configs)
    own_records: dict[str, Record] = {}
    if store is not None:
        own_records = store.latest_records(records)
    own_cells = sum(cell.key in own_records for cell in cells)
    if cells and own_cells == len(cells):
        return ""
    plan = Plan(
        name=" and ".join(dict.fromkeys(place.header.about for place in part.places)),
        cells=cells,
        choices={side.choice.identity: side.choice for side in (before, after)},
        forms=forms,
        coverage=_coverage(part.places),
        purpose=Purpose.DIFF,
    )
    answers = list({place.request.place: place for place in part.places}.values())
    captures = tuple(PublishedCapture(place) for place in part.places if place.header.package)
    return PublishedSides(
        ComparisonPlan(before, after, plan.name, plan, captures, configs),
        {**records, **own_records},
        alternatives,
        source((place.header for place in answers), own_cells),
        tuple(_fallbacks(part.places)),
        library,
        part.places,
    )


def _fallbacks(places: Iterable[PublishedPlace]) -> Iterator[Fallback]:
    for place in places:
        for each in place.header.fallbacks:
            yield Fallback.from_reported(each, place.header.package)


def _alternatives(place: PublishedPlace, by_key: Mapping[str, Record]) -> dict[str, list[Cell]]:
    """Return the other configurations with a record of each launch that fails."""
    alternatives = {}
    for key, others in place.keys.alternatives.items():
        if key in by_key and by_key[key].verdict is Verdict.FAILS:
            alternatives[key] = [by_key[other].cell for other in others if other in by_key]
    return alternatives


def _compared_cells(part: PublishedPart, selection: Selection, configs: str) -> list[Cell]:
    """Return the selected cells, of the usual ones one of each launch unless `configs` is "own"."""
    cells: dict[str, Cell] = {}
    for place in part.places:
        by_key = {record.key: record for record in place.records}
        for key in place.keys.kernels:
            if key in by_key and _selects(selection, by_key[key]):
                cells[key] = by_key[key].cell
    if configs == "own":
        return list(cells.values())
    usual_keys = frozenset[str]().union(*(place.usual_keys for place in part.places))
    usual_cells = [cell for key, cell in cells.items() if key in usual_keys]
    other_cells = [cell for key, cell in cells.items() if key not in usual_keys]
    return [*one_each(usual_cells, by_size=True), *other_cells]


def _selects(selection: Selection, record: Record) -> bool:
    if selection.dtypes and record.dtype not in selection.dtypes:
        return False
    return selection.names(record.kernel)


def _coverage(places: Sequence[PublishedPlace]) -> tuple[PackageCoverage, ...]:
    """Return the coverage of each package under each compiler, as a plan has it."""
    coverage: dict[tuple[str, str], PackageCoverage] = {}
    for place in places:
        for each in place.coverage:
            coverage[place.header.about, place.header.toolchain] = each
    return tuple(coverage.values())
