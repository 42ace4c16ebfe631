"""A bisection as one sitting: the cell under each release that is asked, through the scan's own
engine and store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from flacheck.bisect import history
from flacheck.bisect.history import Bisection, Find
from flacheck.bisect.search import Answer, boundary
from flacheck.engine.loop import Loop
from flacheck.engine.session import Session
from flacheck.errors import UsageError
from flacheck.inputs.cell import Chosen
from flacheck.model import Purpose, Record, Verdict
from flacheck.store import Store
from flacheck.toolchains import torch_pins as pins
from flacheck.toolchains.base import Choice

_ANSWERS = {Verdict.FAILS: Answer.YES, Verdict.COMPILES: Answer.NO}
_COMPILED = ("compile", "autotune")


@dataclass
class Bisecting:
    """One bisection; `records` compiles what it needs, `found` says what came of it.

    `choices` are the releases to look at, oldest first. Records are stored like a scan's, so the
    next bisection, or scan, of the same cell finds them.
    """

    chosen: Chosen
    choices: Sequence[Choice]
    find: Find
    store: Store
    timeout: float | None
    jobs: int
    memory_mb: int
    fresh: bool = False
    _asked: dict[int, Record] = field(default_factory=dict, init=False)
    _turn: tuple[int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        cell, names = self.chosen.cell, [choice.identity for choice in self.choices]
        if cell.stage not in _COMPILED:
            raise UsageError(
                f"{cell.kernel.name} is a package's {cell.stage}, which only its capture shows: "
                f"`flacheck scan --package {cell.kernel.package} --triton SPEC` compares releases"
            )
        if self.find is not Find.CHANGE and cell.toolchain not in names:
            raise UsageError(
                f"--find {self.find.value} starts from the cell's own compiler, and {cell.toolchain} cannot be had by "
                "that name: give its path with --triton, or --find change"
            )
        self._cells = {place: self.chosen.under(name) for place, name in enumerate(names)}

    def records(self, progress: Callable[[str], None]) -> Iterator[Record]:
        """The cell's record under each release that is asked, as it is settled."""
        name = f"bisect {self.chosen.cell.key[:8]}"
        plan = self.chosen.plan(self.choices, name, Purpose.BISECT)
        session = Session(plan, self.store, self.timeout, self.jobs, self.memory_mb, self.fresh)
        with session.workers(progress) as loop:
            if self.find is Find.CHANGE:
                yield from self._all(loop)
            else:
                yield from self._search(loop)
        session.finish()

    def _all(self, loop: Loop) -> Iterator[Record]:
        places = {cell.key: place for place, cell in self._cells.items()}
        for record in loop.records(list(self._cells.values())):
            self._asked[places[record.key]] = record
            yield record

    def _search(self, loop: Loop) -> Iterator[Record]:
        """From the cell's own release towards where the change must be, asking as few as the search
        can.
        """
        own = next(
            place
            for place, cell in self._cells.items()
            if cell.toolchain == self.chosen.cell.toolchain
        )
        yield self._ask(own, loop)
        path = self._path(own)
        asking = boundary(len(path))
        place = next(asking)
        while True:
            if path[place] not in self._asked:
                yield self._ask(path[place], loop)
            try:
                place = asking.send(_ANSWERS.get(self._asked[path[place]].verdict, Answer.UNKNOWN))
            except StopIteration as end:
                self._turn = end.value and tuple(sorted(path[place] for place in end.value))
                return

    def _ask(self, place: int, loop: Loop) -> Record:
        (self._asked[place],) = loop.records([self._cells[place]])
        return self._asked[place]

    def _path(self, own: int) -> list[int]:
        """What broke a failing cell lies before it, what mended it after; for one that compiles it
        is the reverse.
        """
        fails = self._asked[own].verdict is Verdict.FAILS
        older = fails == (self.find is Find.FAIL)
        return list(range(own, -1, -1)) if older else list(range(own, len(self.choices)))

    def found(self) -> Bisection:
        """History and changes of what was asked."""
        places = sorted(self._asked)
        told = history.entries([self._asked[place] for place in places])
        if self.find is Find.CHANGE:
            changes = history.changes(told, pins.torch_for)
        else:
            ends = [[places.index(place) for place in self._turn]] if self._turn else []
            changes = [
                history.change(told, before, after, pins.torch_for) for before, after in ends
            ]
        return Bisection(
            self.chosen.cell, self.find, tuple(told), tuple(changes), len(self.choices)
        )
