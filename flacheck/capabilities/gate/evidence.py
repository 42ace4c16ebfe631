"""What a gate goes by: how the questions of the store's scans stand, and the plan of a scan for
more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_version, split
from flacheck.analysis.standing import Standing, standings
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.errors import FlacheckError, UsageError
from flacheck.inputs.expand import Selection, named
from flacheck.inputs.subject import Subject
from flacheck.model import Question, Record, RequestedCells, RequestedPlace, digest
from flacheck.packages import checkouts
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.store import FILE, Store, questions

_LOG = logging.getLogger(__name__)

# The suffixes of files that hold a matrix or launches.
_FILES = (".yaml", ".yml", ".jsonl")


@dataclass(frozen=True)
class RecordFilter:
    """Which questions count, and which of their cells. `matrix` is a name or a file; a package
    comes before it. With `ops` only questions with the same ones count: which of the other cells
    came through them, no store knows."""

    matrix: str | None = None
    package: str | None = None
    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    compiler: GatedCompiler = TRITON

    @property
    def about(self) -> str:
        """What is asked, in a few words."""
        matrix = self.run_name and f"matrix {self.run_name}"
        whole = self.package or matrix or "every scan"
        operators = f"--op {', '.join(self.ops)}" if self.ops else ""
        narrowed = (", ".join(self.kernels), operators, ", ".join(self.targets))
        return " · ".join(filter(None, (whole, *narrowed)))

    @property
    def run_name(self) -> str | None:
        """The matrix as its runs are called: a file's by the file's name alone."""
        path = Path(self.matrix or "")
        if path.suffix in _FILES:
            return path.stem
        return self.matrix

    @property
    def is_of_file(self) -> bool:
        """Whether what is asked stands in a file that can be read now."""
        path = Path(self.matrix or "")
        return self.package is None and path.suffix in _FILES and path.is_file()

    @property
    def is_of_checkout(self) -> bool:
        """Whether what is asked is a package in a folder, whose version every edit changes."""
        return self.package is not None and checkouts.is_path(self.package)

    def is_about(self, question: Question) -> bool:
        """Whether a question is the one that is asked about, or a narrower one."""
        if self.is_of_checkout:
            return question.source == str(checkouts.folder(self.package or "").absolute())
        return question.about == (self.package or self.run_name)

    def names(self, kernel: str) -> bool:
        """Whether a kernel is asked about."""
        return not self.kernels or any(named(glob, kernel) for glob in self.kernels)

    def wants(self, record: Record) -> bool:
        """Whether a record is of the kernels and targets that are asked about."""
        if self.targets and record.target not in self.targets:
            return False
        return self.names(record.kernel)

    def is_whole(self, question: Question) -> bool:
        """Whether a question leaves out nothing but the kernels and operators that are left out
        here as well."""
        narrowed = set(question.selection) - {"targets", "toolchains"}
        same_kernels = tuple(question.selection.get("kernels", ())) == self.kernels
        if tuple(question.selection.get("ops", ())) != self.ops:
            return False
        narrowed.discard("ops")
        return not narrowed or (narrowed == {"kernels"} and same_kernels)

    def part_of(self, place: RequestedPlace) -> RequestedPlace | None:
        """What of a question is about these kernels and targets; None for nothing."""
        if self.targets and place.request.target not in self.targets:
            return None
        if not self.kernels or place.keys is None:
            return place
        keys = place.keys.of(self.names)
        if not keys.kernels:
            return None
        return replace(place, keys=keys)

    def of_only_question(self, standings: Sequence[Standing]) -> RecordFilter:
        """What a scan for more has to ask: the question that decides, where nothing was chosen.

        Raises UsageError where several decide; without any it is asked as it stands.
        """
        family = self.compiler.family
        own = [each for each in standings if split(each.toolchain)[0] == family]
        asked = {each.question.scope: each.question for each in own}
        if self.matrix or self.package or not asked:
            return self
        if len(asked) > 1:
            names = ", ".join(question.name for question in asked.values())
            raise UsageError(
                f"--scan: several questions decide ({names}); name one with --matrix or --package"
            )
        (question,) = asked.values()
        said = question.selection
        if set(said) - {"targets", "toolchains", "kernels", "ops"}:
            raise UsageError(
                f"--scan cannot ask {question.name} again; scan it with the same options"
            )
        narrowed = replace(
            self,
            kernels=self.kernels or tuple(said.get("kernels", ())),
            ops=self.ops or tuple(said.get("ops", ())),
            targets=self.targets or tuple(dict.fromkeys(each.target for each in own)),
        )
        # A package's question is known by its name, a checkout's by its folder.
        if not question.source and "==" in question.about:
            return replace(narrowed, package=question.about)
        if Path(question.source).is_dir():
            return replace(narrowed, package=question.source)
        return replace(narrowed, matrix=question.source or question.about)

    def plan(self, releases: Sequence[str], targets: tuple[str, ...] = ()) -> Plan:
        """What `flacheck scan` would compile for the same question under these releases alone, on
        other `targets` than those asked where any are given."""
        toolchains = tuple(map(self.compiler.toolchain, releases))
        selection = Selection(
            kernels=self.kernels,
            targets=targets or self.targets,
            toolchains=toolchains,
            ops=self.ops,
        )
        subject = Subject(self.matrix, self.package)
        return planning.plan_job(Job(subject, selection))


@dataclass(frozen=True)
class BaselineUse:
    """What a gate took from a baseline: how many places it was judged by, and where the baseline is
    about something else."""

    file: str
    places: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """How each question stands on every place, the current records of all of them, and what ever
    failed with a signature. Of the standings those in `baseline_standings` are from a baseline, which has no
    records; `accepts` says of a failing cell whether the baseline lets it pass."""

    standings: Sequence[Standing] = ()
    records: Sequence[Record] = ()
    failed_with: Callable[[str], Sequence[Record]] = lambda signature: ()
    baseline_standings: Sequence[Standing] = ()
    accepts: Callable[[ObservedCell], bool] = lambda cell: False
    baseline: BaselineUse | None = None


@contextmanager
def open_evidence(folder: Path, wanted: RecordFilter) -> Iterator[Evidence]:
    """The evidence of the store in a folder, for as long as the store is open."""
    # No store is made: without one nothing is known, which is an answer too.
    if not (folder / FILE).is_file():
        yield Evidence()
    else:
        with Store.open(folder, create=False) as store:
            yield of_store(store, wanted)


def of_store(store: Store, wanted: RecordFilter) -> Evidence:
    """How the questions stand that are asked about, by the store's current records."""
    in_force = questions.in_force(store)
    places = [part for place in _chosen(wanted, in_force) if (part := wanted.part_of(place))]
    if wanted.package and not (wanted.is_of_checkout or wanted.ops):
        places += _parts_of_package(store, wanted, in_force, places)
    answered = standings(places, store.current)
    keys = {key for place in places for key in place.possible_keys}
    records = [record for record in store.current(keys) if wanted.wants(record)]
    return Evidence(answered, records, store.failed_with)


def _chosen(wanted: RecordFilter, in_force: Sequence[RequestedPlace]) -> Sequence[RequestedPlace]:
    """The questions that are asked about. Without a matrix or package it is every one; of those the
    whole question counts, and a narrower one answers an unknown part of it."""
    if wanted.package is None and wanted.run_name is None:
        if wanted.ops:
            return [place for place in in_force if wanted.is_whole(place.question)]
        return in_force
    mine = [place for place in in_force if wanted.is_about(place.question)]
    compilers = {split(place.request.toolchain)[0] for place in mine}
    if wanted.is_of_file and wanted.compiler.family in compilers:
        try:
            return _of_file(wanted, mine)
        except FlacheckError as error:
            # The scan needed more than the gate is told, `--trust` for example.
            _LOG.warning(f"{wanted.matrix}: judged as it was scanned, for it says now: {error}")
    whole = [place for place in mine if wanted.is_whole(place.question)]
    if wanted.ops:
        return whole
    asked = {place.request.place for place in whole}
    return [*whole, *(_as_part(place) for place in mine if place.request.place not in asked)]


def _of_file(wanted: RecordFilter, mine: Sequence[RequestedPlace]) -> list[RequestedPlace]:
    """What a file asks now, wherever it was ever scanned: the scan may have asked only a part of
    it, or the file may have changed since."""
    family = wanted.compiler.family
    asked = {each.request.place for each in mine if split(each.request.toolchain)[0] == family}
    releases = sorted({split(toolchain)[1] for toolchain, _ in asked}, key=by_version)
    targets = tuple({target: None for _, target in asked})
    question, sets = wanted.plan(releases, wanted.targets or targets).asks()
    return [
        RequestedPlace(question, each, sets[each.place])
        for each in question.asked
        if each.place in asked
    ]


def _as_part(place: RequestedPlace) -> RequestedPlace:
    """A narrower question as evidence on the whole one, of which it answers an unknown part."""
    note = place.note
    if place.question.narrowing:
        note = f"only {place.question.narrowing} of {place.question.about} was scanned"
    whole = Question(place.question.about, source=place.question.source)
    return RequestedPlace(
        whole, RequestedCells(*place.request.place), None, place.possible_keys, note
    )


def _parts_of_package(
    store: Store,
    wanted: RecordFilter,
    in_force: Sequence[RequestedPlace],
    places: Sequence[RequestedPlace],
) -> Iterator[RequestedPlace]:
    """Where the package itself was never asked about: its records from scans of matrices. They can
    speak against a release, and make none good."""
    asked = {place.request.place for place in places}
    keys = {key for place in in_force for key in place.possible_keys}
    answered: dict[tuple[str, str], list[str]] = {}
    for record in store.current(keys):
        place = record.toolchain, record.target
        if record.package == wanted.package and place not in asked and wanted.wants(record):
            answered.setdefault(place, []).append(record.key)
    question = Question(wanted.package or "")
    note = "only a part of the package was scanned"
    for place, there in answered.items():
        yield RequestedPlace(question, RequestedCells(*place), None, tuple(there), note)


def cell_identity(record: Record) -> str:
    """What stays of a cell when its kernel's source is edited: the new record replaces the old."""
    launch = record.launch and record.launch.to_json()
    asked = [record.kernel, record.package, record.toolchain, record.target, launch]
    # Only kept while the gate runs, so a short digest is enough.
    return digest([*asked, dict(record.options)], 16)
