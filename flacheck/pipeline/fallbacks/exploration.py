"""The search through the candidates of one failing cell.

Pure: it requests cells and receives their records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from flacheck.model import Cell, Record, Verdict
from flacheck.pipeline.fallbacks.candidates import Candidate, Space

# Candidates of one failing cell; a scan can have hundreds of failing cells.
BUDGET = 48
# Compiles under way at once over all explorations: enough to keep workers busy, few enough to waste
# none.
LANES = 8
TIMED_OUT = "FC901"
# Returns the record of each cell by key; a cell is never compiled twice.
Oracle = Callable[[Sequence[Cell]], Mapping[str, Record]]


@dataclass(frozen=True)
class Patience:
    """The number of nearest candidates, then of smallest candidates, to try before giving up.

    If all of these fail exactly as the cell itself, its failure does not depend on the settings.
    """

    near: int = 8
    corners: int = 5


# For a failure that other cells have shown to be independent of the settings.
BRIEF = Patience(2, 1)


@dataclass
class CandidateTrial:
    """A candidate with its progress over the places where it has to compile."""

    candidate: Candidate
    cells: Sequence[Cell]
    corner: bool = False
    compile_count: int = 0
    has_failed: bool = False

    @property
    def is_settled(self) -> bool:
        return self.has_failed or self.compile_count == len(self.cells)

    @property
    def waiting(self) -> Sequence[Cell]:
        """The next cells to compile: the failing place first, where candidates fail most often."""
        if self.compile_count:
            return self.cells[self.compile_count :]
        return self.cells[:1]


class Exploration:
    """The nearest candidate that compiles at every place, within a budget of candidates.

    It ends early when its patience does. A smallest candidate that compiles is the answer only if
    the budget has found no nearer one. If a candidate times out, no candidate is tried that gives a
    thread at least as much work.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        signature: str | None,
        space: Space,
        budget: int = BUDGET,
        patience: Patience = Patience(),
    ) -> None:
        self.cells, self.signature, self._space = cells, signature, space
        near = islice(space.nearest_first(), budget)
        first = list(islice(near, patience.near))
        corners = [corner for corner in space.corners() if corner not in first]
        corners = corners[: min(patience.corners, budget - len(first))]
        phases = [
            self._trial(first),
            self._trial(corners, corner=True),
            self._trial(self._skip_corners(near)),
        ]
        self._phases = iter(phases)
        self._phase: Iterator[CandidateTrial] = iter(())
        self._budget_left = budget
        self._trials: list[CandidateTrial] = []
        self._signatures: set[str | None] = set()
        self._slow: list[Candidate] = []
        self._is_exhausted = False
        self.compile_count = 0

    def _trial(
        self, candidates: Iterable[Candidate], corner: bool = False
    ) -> Iterator[CandidateTrial]:
        for candidate in candidates:
            cells = [candidate.of(cell) for cell in self.cells]
            yield CandidateTrial(candidate, cells, corner)

    @property
    def hopeless(self) -> bool:
        """True if every candidate so far failed with the cell's own signature."""
        for trial in self._trials:
            if not trial.has_failed:
                return False
        return self._signatures == {self.signature}

    @property
    def answer(self) -> Candidate | None:
        """The nearest candidate that compiles everywhere, among those so far."""
        good = []
        for trial in self._trials:
            if trial.is_settled and not trial.has_failed:
                good.append(trial.candidate)
        return min(good, key=self._space.rank, default=None)

    @property
    def is_done(self) -> bool:
        if self._has_winner():
            return True
        return self._is_exhausted and not self._open()

    def next_cells(self, width: int) -> list[Cell]:
        """Return the cells to compile next, of up to `width` candidates at once."""
        # One wave follows another, because a wave's records decide if there is a next one.
        if not self._open() and not self._has_winner():
            wave = self._next_trials(min(width, self._budget_left))
            self._budget_left -= len(wave)
            self._is_exhausted = not wave
            self._trials += wave
        cells: list[Cell] = []
        if self.is_done:
            return cells
        for trial in self._open():
            cells += trial.waiting
        return cells

    def learn(self, records: Mapping[str, Record]) -> None:
        """Evaluate the records of the cells that `next_cells` returned."""
        for trial in self._open():
            for cell in list(trial.waiting):
                self.compile_count += 1
                record = records.get(cell.key)
                if compiles_fully(record):
                    trial.compile_count += 1
                    continue
                trial.has_failed = True
                self._signatures.add(getattr(record, "signature", None))
                if record and record.code == TIMED_OUT:
                    self._slow.append(trial.candidate)

    def _next_trials(self, width: int) -> list[CandidateTrial]:
        """Return the next trials of this phase, or of a later one.

        The last phase starts only if the trials so far leave hope.
        """
        while True:
            trials = list(islice(filter(self._may_end, self._phase), width))
            if trials:
                return trials
            phase = next(self._phases, None)
            had_corners = any(trial.corner for trial in self._trials)
            if phase is None or (had_corners and self.hopeless):
                return []
            self._phase = phase

    def _may_end(self, trial: CandidateTrial) -> bool:
        """Return False for a trial at least as heavy as a candidate that timed out."""
        return not any(self._space.is_as_heavy(trial.candidate, slow) for slow in self._slow)

    def _skip_corners(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield the candidates not yet tried as corners; make the others ordinary trials."""
        for candidate in candidates:
            corner = self._trial_of(candidate)
            if corner is None:
                yield candidate
            else:
                corner.corner = False

    def _trial_of(self, candidate: Candidate) -> CandidateTrial | None:
        for trial in self._trials:
            if trial.candidate == candidate:
                return trial
        return None

    def _open(self) -> list[CandidateTrial]:
        return [trial for trial in self._trials if not trial.is_settled]

    def _has_winner(self) -> bool:
        """Return True if a candidate other than a corner compiles, and no trial is open."""
        if self._open():
            return False
        return any(not trial.has_failed and not trial.corner for trial in self._trials)


def compiles_fully(record: Record | None) -> bool:
    """Return True if a record shows that its cell compiles to the last stage."""
    return record is not None and record.verdict is Verdict.COMPILES and record.reason is None


def explore(explorations: Sequence[Exploration], oracle: Oracle) -> None:
    """Run explorations to their ends, all at once, so that workers stay busy and warm."""
    while True:
        active = [exploration for exploration in explorations if not exploration.is_done]
        if not active:
            return
        width = max(1, LANES // len(active))
        cells: dict[str, Cell] = {}
        for exploration in active:
            for cell in exploration.next_cells(width):
                cells[cell.key] = cell
        records: Mapping[str, Record] = {}
        if cells:
            records = oracle(list(cells.values()))
        for exploration in active:
            exploration.learn(records)
