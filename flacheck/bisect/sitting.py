"""A cell under each release that a bisection asks, through the scan's own engine and store."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flacheck import toolchains
from flacheck.analysis.order import by_version, split
from flacheck.bisect import history, search
from flacheck.bisect.history import Bisection, Find
from flacheck.bisect.search import Answer, boundary
from flacheck.engine.loop import Loop
from flacheck.engine.session import Session
from flacheck.errors import FlacheckError, UsageError
from flacheck.inputs.cell import Chosen
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.store import Store
from flacheck.toolchains import torch_pins
from flacheck.toolchains.base import Choice, Resolution

_ANSWERS = {Verdict.FAILS: Answer.YES, Verdict.COMPILES: Answer.NO}
# Stages that a worker can repeat under another release; a capture's own failures are not.
_COMPILED = ("compile", "autotune", "trial", "keys")


@dataclass
class Bisecting:
    """One bisection; `records` compiles what it needs, `found` says what came of it. `choices` are
    the releases to look at, oldest first. The next bisection, or scan, finds the records stored."""

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
            what = f"{cell.kernel.name} is a package's {cell.stage}, which only its capture shows"
            command = f"flacheck scan --package {cell.kernel.package} --triton SPEC"
            raise UsageError(f"{what}: `{command}` compares releases")
        if self.find is not Find.CHANGE and cell.toolchain not in names:
            raise UsageError(
                f"--find {self.find.value} starts from the cell's own compiler, and "
                f"{cell.toolchain} cannot be had by that name: give its path with --triton, or "
                "use --find change"
            )
        self._cells = [self.chosen.under(name) for name in names]

    def records(self) -> Iterator[Record]:
        """The cell's record under each release that is asked, as it is settled."""
        name = f"bisect {self.chosen.cell.key[:8]}"
        plan = self.chosen.plan(self.choices, name, Purpose.BISECT)
        session = Session(plan, self.store, self.timeout, self.jobs, self.memory_mb, self.fresh)
        places = {cell.key: place for place, cell in enumerate(self._cells)}
        with session.workers() as loop:
            if self.find is not Find.CHANGE:
                yield from self._search(loop)
            else:
                for record in loop.records(self._cells):
                    self._asked[places[record.key]] = record
                    yield record
        session.finish()

    def _search(self, loop: Loop) -> Iterator[Record]:
        """From the cell's own release towards the change, asking as few as the search can."""
        own = [cell.toolchain for cell in self._cells].index(self.chosen.cell.toolchain)
        yield self._ask(own, loop)
        # What broke a failing cell lies before it, what mended it after; for one that compiles it
        # is the reverse.
        fails = self._asked[own].verdict is Verdict.FAILS
        path = list(range(own, len(self.choices)))
        if fails == (self.find is Find.FAIL):
            path = list(range(own, -1, -1))
        # From here on places are counted along the path, the cell's own release first.
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

    def found(self) -> Bisection:
        """History and changes of what was asked."""
        places = sorted(self._asked)
        told = history.entries([self._asked[place] for place in places])
        turns = []
        if self.find is Find.CHANGE:
            turns = search.changes([entry.state for entry in told])
        elif self._turn:
            before, after = self._turn
            turns = [(places.index(before), places.index(after))]
        changes = tuple(history.change(told, *turn, torch_pins.torch_for) for turn in turns)
        return Bisection(self.chosen.cell, self.find, tuple(told), changes, len(self.choices))


def releases(cell: Cell, specs: Sequence[str], chose: bool = False) -> Resolution:
    """The releases to look at, oldest first: those asked for, or all of the cell's compiler with a
    wheel for this Python; with the cell's own. UsageError when there are not two to compare.

    `chose`: the specifications took part in choosing the cell, so a single release among them is
    the cell's own and says nothing of where to look.
    """
    resolution = toolchains.resolve(specs)
    if not specs or (chose and len(resolution.choices) == 1):
        resolution = toolchains.FAMILIES[split(cell.toolchain)[0]].versions()
    choices = list(resolution.choices)
    if not any(choice.identity == cell.toolchain for choice in choices):
        # A build that only its path leads to has no name to be resolved by.
        with contextlib.suppress(FlacheckError):
            choices += toolchains.resolve([cell.toolchain]).choices
    if len(choices) < 2:
        names = ", ".join(choice.identity for choice in choices) or "no release"
        raise UsageError(
            f"only {names} is to be looked at: --triton must leave two releases or more"
        )
    # By version and not by text: 3.10 comes after 3.9.
    choices.sort(key=lambda choice: by_version(choice.identity))
    return Resolution(tuple(choices), resolution.warnings)
