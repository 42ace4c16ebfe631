"""The evidence of a gate: how the questions of the store's scans stand, and plans of more scans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.errors import FlacheckError, UsageError
from flacheck.evidence.analysis.judgement import judge
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_version, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standings
from flacheck.evidence.published.evidence import OwnRecords, PublishedEvidence
from flacheck.model import Question, Record, RequestedCells, RequestedPlace, digest
from flacheck.model.wire import JsonStruct, Natural
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.source.packages import checkouts
from flacheck.store import FILE, Store, questions
from flacheck.subjects.inputs import call_paths
from flacheck.subjects.inputs.expand import Selection, matches_kernel
from flacheck.subjects.inputs.subject import Subject

_LOG = logging.getLogger(__name__)

# The suffixes of files that hold a matrix or launches.
_FILES = (".yaml", ".yml", ".jsonl")


@dataclass(frozen=True)
class RecordFilter:
    """The questions that count, and the cells of them that count.

    `matrix` is a name or a file; `package` takes precedence over it. With `ops` questions with
    equal operators count, and of questions about a whole package the public entry points that
    match.
    """

    matrix: str | None = None
    package: str | None = None
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    compiler: GatedCompiler = TRITON

    @property
    def about(self) -> str:
        """The subject and its restrictions, in a few words."""
        matrix = self.run_name and f"matrix {self.run_name}"
        parts = [self.package or matrix or "every scan"]
        if self.kernels:
            parts.append(", ".join(self.kernels))
        if self.ops:
            parts.append(f"--op {', '.join(self.ops)}")
        if self.targets:
            parts.append(", ".join(self.targets))
        return " · ".join(parts)

    @property
    def run_name(self) -> str | None:
        """The matrix as its runs name it: for a file, the file's name without its suffix."""
        path = Path(self.matrix or "")
        if path.suffix in _FILES:
            return path.stem
        return self.matrix

    @property
    def is_of_file(self) -> bool:
        """True if the subject is a file that exists now."""
        path = Path(self.matrix or "")
        return self.package is None and path.suffix in _FILES and path.is_file()

    @property
    def is_of_checkout(self) -> bool:
        """True if the subject is a package in a folder; every edit changes its version."""
        return self.package is not None and checkouts.is_path(self.package)

    def is_about(self, question: Question) -> bool:
        """Return True if a question has this subject, even if it is narrower."""
        if self.is_of_checkout:
            return question.source == str(checkouts.folder(self.package or "").absolute())
        return question.about == (self.package or self.run_name)

    def names(self, kernel: str) -> bool:
        """Return True if a kernel is selected."""
        return not self.kernels or matches_kernel(self.kernels, kernel)

    def selects(self, record: Record) -> bool:
        """Return True if a record's kernel and target are selected."""
        if self.targets and record.target not in self.targets:
            return False
        return self.names(record.kernel)

    def is_whole(self, question: Question) -> bool:
        """Return True if a question leaves out only kernels and operators that this filter does."""
        restrictions = set(question.selection) - {"targets", "toolchains", "configs"}
        same_kernels = tuple(question.selection.get("kernels", ())) == self.kernels
        if tuple(question.selection.get("ops", ())) != self.ops:
            return False
        restrictions.discard("ops")
        return not restrictions or (restrictions == {"kernels"} and same_kernels)

    def part_of(self, place: RequestedPlace) -> RequestedPlace | None:
        """Return the selected part of a question on one place; None if it is empty."""
        if self.targets and place.request.target not in self.targets:
            return None
        if not self.kernels or place.keys is None:
            return place
        keys = place.keys.of(self.names)
        if not keys.kernels:
            return None
        return replace(place, keys=keys)

    def of_only_question(self, standings: Sequence[Standing]) -> RecordFilter:
        """Return the filter of the only question that decides, or this one if none does.

        A filter with a matrix or a package is returned as it is.

        Raises:
            UsageError: If several questions decide, or the question cannot be scanned again.
        """
        family = self.compiler.family
        own_standings = [each for each in standings if split(each.toolchain)[0] == family]
        by_scope = {each.question.scope: each.question for each in own_standings}
        if self.matrix or self.package or not by_scope:
            return self
        if len(by_scope) > 1:
            names = ", ".join(question.name for question in by_scope.values())
            raise UsageError(
                f"--scan: several questions decide ({names}); name one with --matrix or --package"
            )
        (question,) = by_scope.values()
        selection = question.selection
        if set(selection) - {"targets", "toolchains", "kernels", "ops"}:
            raise UsageError(
                f"--scan cannot ask {question.name} again; scan it with the same options"
            )
        own_targets = dict.fromkeys(each.target for each in own_standings)
        narrow_filter = replace(
            self,
            kernels=self.kernels or tuple(selection.get("kernels", ())),
            ops=self.ops or tuple(selection.get("ops", ())),
            targets=self.targets or tuple(own_targets),
        )
        return narrow_filter._about(question)

    def _about(self, question: Question) -> RecordFilter:
        """Return the filter for the package, the checkout's folder or the matrix of a question."""
        if not question.source and "==" in question.about:
            return replace(self, package=question.about)
        if Path(question.source).is_dir():
            return replace(self, package=question.source)
        return replace(self, matrix=question.source or question.about)

    def plan(self, releases: Sequence[str], targets: tuple[str, ...] = ()) -> Plan:
        """Return the plan of `flacheck scan` for this subject under these releases alone.

        `targets` replace the filter's own.
        """
        selection = Selection(
            kernels=self.kernels,
            targets=targets or self.targets,
            toolchains=tuple(map(self.compiler.toolchain, releases)),
            ops=self.ops,
        )
        subject = Subject(self.matrix, self.package)
        return planning.plan_job(Job(subject, selection))


class BaselineUse(JsonStruct, frozen=True):
    """The number of places that a gate judged by a baseline, for lack of records.

    `notes` describe where the baseline is of another flacheck, package or capture.
    """

    file: str
    places: Natural = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The standing of each question on every place, with the current records.

    Attributes:
        standings: The standings.
        records: The current records of their cells.
        failed_with: Returns every record, also replaced ones, that failed with a signature.
        baseline_standings: The standings that come from a baseline, which has no records.
        accepts: True for failing cells that the baseline accepts.
        baseline: The use of the baseline; None without one.
        beside: Standings that only add failures to the others.
        published: The published results among the standings.
        own_records: Returns the stored records of keys; None without a store.
    """

    standings: Sequence[Standing] = ()
    records: Sequence[Record] = ()
    failed_with: Callable[[str], Sequence[Record]] = lambda signature: ()
    baseline_standings: Sequence[Standing] = ()
    accepts: Callable[[ObservedCell], bool] = lambda cell: False
    baseline: BaselineUse | None = None
    beside: Sequence[Standing] = ()
    published: PublishedEvidence = field(default_factory=PublishedEvidence)
    own_records: OwnRecords | None = None

    def judged(self) -> Evidence:
        """Return the evidence with one standing for each subject, release and GPU."""
        return replace(self, standings=judge(self.standings, self.beside))


@contextmanager
def open_evidence(folder: Path, record_filter: RecordFilter) -> Iterator[Evidence]:
    """Yield the evidence of the store in a folder while the store is open."""
    # A missing store is not created: without one the evidence is empty.
    if not (folder / FILE).is_file():
        yield Evidence()
    else:
        with Store.open(folder, create=False) as store:
            yield of_store(store, record_filter)


def of_store(store: Store, record_filter: RecordFilter) -> Evidence:
    """Return the standings of the selected questions, by the store's current records."""
    in_force = questions.in_force(store)
    places = []
    for place in _select_places(record_filter, in_force):
        part = record_filter.part_of(place)
        if part:
            places.append(part)
    if record_filter.package and not (record_filter.is_of_checkout or record_filter.ops):
        places += _parts_of_package(store, record_filter, in_force, places)
    further = questions.further_records(store)
    current_standings = standings(places, store.current, further)
    if record_filter.ops:
        by_operator = _standings_by_operator(store, record_filter, in_force, places)
        for place, standing in list(by_operator):
            places.append(place)
            current_standings.append(standing)
    keys: set[str] = set()
    for place in places:
        keys.update(place.possible_keys)
    records = [record for record in store.current(keys) if record_filter.selects(record)]
    return Evidence(current_standings, records, store.failed_with, own_records=store.latest_records)


def _standings_by_operator(
    store: Store,
    record_filter: RecordFilter,
    in_force: Sequence[RequestedPlace],
    covered: Sequence[RequestedPlace],
) -> Iterator[tuple[RequestedPlace, Standing]]:
    """Yield the selected operators of questions about all operators, on places without others."""
    covered_places = {(place.question.about, place.request.place) for place in covered}
    whole_filter = replace(record_filter, ops=())
    places = []
    for place in _select_places(whole_filter, in_force):
        part = whole_filter.part_of(place)
        is_covered = (place.question.about, place.request.place) in covered_places
        if part and part.keys and not is_covered and not place.question.selection.get("ops"):
            places.append(part)
    further = questions.further_records(store)
    for place, standing in zip(places, standings(places, store.current, further)):
        own_standing = standing.of_operators(partial(call_paths.matches, record_filter.ops))
        if own_standing is not None:
            yield place, own_standing


def _select_places(
    record_filter: RecordFilter, in_force: Sequence[RequestedPlace]
) -> Sequence[RequestedPlace]:
    """Return the questions that count, all of them without a matrix or package.

    Of a subject the whole question counts; a narrower one covers an unknown part of it.
    """
    if record_filter.package is None and record_filter.run_name is None:
        if record_filter.ops:
            return [place for place in in_force if record_filter.is_whole(place.question)]
        return in_force
    own_places = [place for place in in_force if record_filter.is_about(place.question)]
    compilers = {split(place.request.toolchain)[0] for place in own_places}
    if record_filter.is_of_file and record_filter.compiler.family in compilers:
        try:
            return _of_file(record_filter, own_places)
        except FlacheckError as error:
            # The scan had options that the gate does not have, `--trust` for example.
            why = f"judged as it was scanned, because it cannot be read now: {error}"
            _LOG.warning(f"{record_filter.matrix}: {why}")
    whole = [place for place in own_places if record_filter.is_whole(place.question)]
    if record_filter.ops:
        return whole
    return _with_parts(whole, own_places)


def _with_parts(
    whole: Sequence[RequestedPlace], own_places: Sequence[RequestedPlace]
) -> list[RequestedPlace]:
    """Return the whole questions, and narrower ones on other places as unknown parts."""
    whole_places = {place.request.place for place in whole}
    selection = list(whole)
    for place in own_places:
        if place.request.place not in whole_places:
            selection.append(_as_part(place))
    return selection


def _of_file(
    record_filter: RecordFilter, own_places: Sequence[RequestedPlace]
) -> list[RequestedPlace]:
    """Return the file's current question on every place where it was ever scanned.

    The scan may have covered only a part of the file, or the file may have changed since.
    """
    family = record_filter.compiler.family
    places = {place.request.place for place in own_places}
    places = {place for place in places if split(place[0])[0] == family}
    releases = sorted({split(toolchain)[1] for toolchain, _ in places}, key=by_version)
    targets = tuple(sorted({target for _, target in places}))
    plan = record_filter.plan(releases, record_filter.targets or targets)
    question, key_sets = plan.asks()
    current_places = []
    for cells in question.asked:
        if cells.place in places:
            current_places.append(RequestedPlace(question, cells, key_sets[cells.place]))
    return current_places


def _as_part(place: RequestedPlace) -> RequestedPlace:
    """Return a narrower question as an unknown part of the whole question."""
    note = place.note
    if place.question.narrowing:
        note = f"only {place.question.narrowing} of {place.question.about} was scanned"
    whole = Question(place.question.about, source=place.question.source)
    return RequestedPlace(
        whole, RequestedCells(*place.request.place), None, place.possible_keys, note
    )


def _parts_of_package(
    store: Store,
    record_filter: RecordFilter,
    in_force: Sequence[RequestedPlace],
    places: Sequence[RequestedPlace],
) -> Iterator[RequestedPlace]:
    """Yield the package's records of matrix scans, on places without a scan of the package.

    Such parts can show that a release is bad, but not that it is good.
    """
    scanned_places = {place.request.place for place in places}
    keys: set[str] = set()
    for place in in_force:
        keys.update(place.possible_keys)
    keys_by_place: dict[tuple[str, str], list[str]] = {}
    for record in store.current(keys):
        if record.package != record_filter.package or not record_filter.selects(record):
            continue
        record_place = record.toolchain, record.target
        if record_place not in scanned_places:
            keys_by_place.setdefault(record_place, []).append(record.key)
    question = Question(record_filter.package or "")
    note = "only a part of the package was scanned"
    for record_place, record_keys in keys_by_place.items():
        cells = RequestedCells(*record_place)
        yield RequestedPlace(question, cells, None, tuple(record_keys), note)


def cell_identity(record: Record) -> str:
    """Return a key of the cell that stays when its kernel's source is edited."""
    # The key lives as long as the gate runs, so a short digest is enough.
    return digest(record.cell.identity(without=["stage"]), 16)
