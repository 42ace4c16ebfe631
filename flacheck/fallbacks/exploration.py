"""One failing cell's way through its candidates. Pure: it asks for cells and is told of records."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from flacheck.fallbacks.candidates import Candidate, Space
from flacheck.model import Cell, Record, Verdict

# Candidates of one failing cell; a scan can have hundreds of failing cells.
BUDGET = 48
# Compiles under way at once over all explorations: enough to keep workers busy, few enough to waste
# none.
LANES = 8
TIMED_OUT = "FC901"
# Says what came of each cell, by key; the same cell is never compiled twice.
Oracle = Callable[[Sequence[Cell]], Mapping[str, Record]]


@dataclass(frozen=True)
class Patience:
    """So many of the nearest candidates, then so many of the smallest there are: where all of them
    fail exactly as the cell itself does, its failure is none of the settings' doing."""

    near: int = 8
    corners: int = 5


# For a failure that others have shown to be none of the settings' doing.
BRIEF = Patience(2, 1)


@dataclass
class CandidateTrial:
    """A candidate on its way over the places where it has to compile."""

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
        """One place first: where the cell fails a candidate most often fails too."""
        if self.compile_count:
            return self.cells[self.compile_count :]
        return self.cells[:1]


class Exploration:
    """The nearest candidate that compiles at every place, within a budget of candidates.

    It ends early when its patience does. A smallest candidate that compiles is the answer only
    where nothing nearer was found within the budget. What gives a thread as much to do as a
    candidate that did not end in time is not tried.
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
        corners = [each for each in space.corners() if each not in first]
        corners = corners[: min(patience.corners, budget - len(first))]
        phases = [
            self._trial(first),
            self._trial(corners, corner=True),
            self._trial(self._untried(near)),
        ]
        self._phases = iter(phases)
        self._phase: Iterator[CandidateTrial] = iter(())
        self._left = budget
        self._trials: list[CandidateTrial] = []
        self._signatures: set[str | None] = set()
        self._slow: list[Candidate] = []
        self._exhausted = False
        self.asked = 0

    def _trial(
        self, candidates: Iterable[Candidate], corner: bool = False
    ) -> Iterator[CandidateTrial]:
        return (
            CandidateTrial(each, [each.of(cell) for cell in self.cells], corner)
            for each in candidates
        )

    @property
    def hopeless(self) -> bool:
        """Whether everything that was tried failed with the cell's own signature."""
        return all(trial.has_failed for trial in self._trials) and self._signatures == {
            self.signature
        }

    @property
    def answer(self) -> Candidate | None:
        """The nearest that compiles everywhere, among those tried."""
        good = [
            trial.candidate for trial in self._trials if trial.is_settled and not trial.has_failed
        ]
        return min(good, key=self._space.rank, default=None)

    @property
    def is_done(self) -> bool:
        return self._won() or (self._exhausted and all(trial.is_settled for trial in self._trials))

    def next_cells(self, width: int) -> list[Cell]:
        """What to compile next, of up to `width` candidates at once."""
        # Drawn one wave after another, for what a wave meets decides whether there is a next.
        if not self._open() and not self._won():
            drawn = self._draw(min(width, self._left))
            self._left -= len(drawn)
            self._exhausted = not drawn
            self._trials += drawn
        if self.is_done:
            return []
        return [cell for trial in self._open() for cell in trial.waiting]

    def learn(self, records: Mapping[str, Record]) -> None:
        """What came of the cells that were wanted."""
        for trial in self._open():
            for cell in list(trial.waiting):
                self.asked += 1
                record = records.get(cell.key)
                if compiles_fully(record):
                    trial.compile_count += 1
                    continue
                trial.has_failed = True
                self._signatures.add(getattr(record, "signature", None))
                if record and record.code == TIMED_OUT:
                    self._slow.append(trial.candidate)

    def _draw(self, width: int) -> list[CandidateTrial]:
        """The next of this phase, or of the one after it; the last is for those that still hope."""
        while not (drawn := list(islice(filter(self._may_end, self._phase), width))):
            phase = next(self._phases, None)
            tried_all = any(trial.corner for trial in self._trials)
            if phase is None or (tried_all and self.hopeless):
                return []
            self._phase = phase
        return drawn

    def _may_end(self, trial: CandidateTrial) -> bool:
        return not any(self._space.is_no_lighter(trial.candidate, slow) for slow in self._slow)

    def _untried(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Those that were not tried as a corner; what was is now one like the others."""
        for candidate in candidates:
            corner = next((trial for trial in self._trials if trial.candidate == candidate), None)
            if corner is None:
                yield candidate
            else:
                corner.corner = False

    def _open(self) -> list[CandidateTrial]:
        return [trial for trial in self._trials if not trial.is_settled]

    def _won(self) -> bool:
        """A candidate that is no corner compiles, and none before it is open."""
        return not self._open() and any(
            not trial.has_failed and not trial.corner for trial in self._trials
        )


def compiles_fully(record: Record | None) -> bool:
    """Whether a cell is known to compile to its last stage."""
    return record is not None and record.verdict is Verdict.COMPILES and record.reason is None


def explore(ways: Sequence[Exploration], oracle: Oracle) -> None:
    """Follow explorations to their ends, all at once, so that workers stay busy and warm."""
    while active := [way for way in ways if not way.is_done]:
        width = max(1, LANES // len(active))
        wanted = {cell.key: cell for way in active for cell in way.next_cells(width)}
        records: Mapping[str, Record] = {}
        if wanted:
            records = oracle(list(wanted.values()))
        for way in active:
            way.learn(records)
