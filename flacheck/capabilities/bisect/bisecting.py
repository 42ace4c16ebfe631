"""The bisection of a cell: its compiles under the releases that locate its changes."""

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from flacheck import toolchains
from flacheck.capabilities.bisect import history
from flacheck.capabilities.bisect.history import Bisection, Find
from flacheck.engine.loop import Loop
from flacheck.errors import FlacheckError, UsageError
from flacheck.evidence.analysis import ordered_search as search
from flacheck.evidence.analysis.order import by_version, split
from flacheck.evidence.analysis.ordered_search import SearchAnswer, boundary
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.pipeline.events import Event, RecordSettled, RunFinished, RunStarted
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.resolved_cell import ResolvedCell
from flacheck.pipeline.run import open_run
from flacheck.store import Store
from flacheck.toolchains import torch_pins
from flacheck.toolchains.base import Choice, Resolution

_ANSWERS = {Verdict.FAILS: SearchAnswer.YES, Verdict.COMPILES: SearchAnswer.NO}
# The stages that a worker can repeat under another release.
_REPEATABLE_STAGES = ("compile", "autotune", "trial", "keys")


def bisect_cell(
    resolved_cell: ResolvedCell,
    choices: Sequence[Choice],
    find: Find,
    store: Store,
    options: RunOptions,
    every: bool = False,
) -> Generator[Event, None, Bisection]:
    """Compile a cell under releases until its changes are known; return history and changes.

    The records stay in the store for the next bisection or scan.

    Args:
        resolved_cell: The cell.
        choices: The releases, oldest first.
        find: The kind of change.
        store: Where the records go.
        options: How the cell is compiled.
        every: Compile the cell under every release, whatever the changes are.

    Raises:
        UsageError: If no compiler can show the cell's failure, or `find` starts from a compiler
            that is not among `choices`.
    """
    _check(resolved_cell.cell, choices, find)
    all_choices = choices
    choices = _supporting(resolved_cell.cell, all_choices)
    cells = [resolved_cell.under(choice.identity) for choice in choices]
    records: dict[int, Record] = {}
    turn: tuple[int, int] | None = None
    plan = resolved_cell.plan(choices, f"bisect {resolved_cell.cell.key[:8]}", Purpose.BISECT)
    with open_run(plan, store, options) as active:
        yield RunStarted(active.id, len(cells))
        if find is Find.CHANGE or every:
            own = _position(resolved_cell.cell, choices)
            yield from _all_changes(cells, own, every, active.loop, records)
        if find is not Find.CHANGE:
            turn = yield from _search(resolved_cell.cell, cells, find, active.loop, records)
        active.finish()
    yield RunFinished(active.id, complete=True)
    bisection = _bisection(resolved_cell.cell, find, records, turn, len(choices))
    if choices[0] is all_choices[0]:
        return bisection
    return replace(bisection, supported_from=choices[0].identity)


def _supporting(cell: Cell, choices: Sequence[Choice]) -> Sequence[Choice]:
    """Return the releases from the first that supports the cell's GPU on, and the cell's own.

    A release without the GPU gives no verdict that could be compared. If fewer than two are left,
    all are returned: their reasons are the answer.
    """
    for position, choice in enumerate(choices):
        if cell.target not in choice.unsupported or choice.identity == cell.toolchain:
            if len(choices) - position > 1:
                return choices[position:]
            break
    return choices


def _check(cell: Cell, choices: Sequence[Choice], find: Find) -> None:
    if cell.stage not in _REPEATABLE_STAGES:
        what = f"{cell.kernel.name} is a package's {cell.stage}, which only its capture shows"
        command = f"flacheck scan --package {cell.kernel.package} --triton SPEC"
        raise UsageError(f"{what}: `{command}` compares releases")
    if find is not Find.CHANGE and cell.toolchain not in [choice.identity for choice in choices]:
        raise UsageError(
            f"--find {find.value} starts from the cell's own compiler, and "
            f"{cell.toolchain} cannot be had by that name: give its path with --triton, or "
            "use --find change"
        )


def _position(cell: Cell, choices: Sequence[Choice]) -> int:
    """Return the position of the cell's own release; 0 if no release has its name."""
    identities = [choice.identity for choice in choices]
    if cell.toolchain in identities:
        return identities.index(cell.toolchain)
    return 0


def _all_changes(
    cells: Sequence[Cell], own: int, every: bool, loop: Loop, records: dict[int, Record]
) -> Generator[Event, None, None]:
    """Compile the cell under the releases that locate its changes, or under every release.

    Fills `records` by position in `cells`.
    """
    positions = {cell.key: position for position, cell in enumerate(cells)}
    search_positions = search.turning_points(len(cells), own)
    next_positions = next(search_positions)
    if every:
        next_positions = list(range(len(cells)))
    while True:
        for record in loop.records([cells[position] for position in next_positions]):
            records[positions[record.key]] = record
            yield RecordSettled(record)
        try:
            next_positions = search_positions.send(_states(records))
        except StopIteration:
            return


def _states(records: Mapping[int, Record]) -> dict[int, search.State]:
    """Return the state of each compiled position; a compile is slow beside the others."""
    in_order = sorted(records)
    entries = history.entries([records[position] for position in in_order])
    return {position: entry.state for position, entry in zip(in_order, entries)}


def _search(
    cell: Cell, cells: Sequence[Cell], find: Find, loop: Loop, records: dict[int, Record]
) -> Generator[Event, None, tuple[int, int] | None]:
    """Search from the cell's own release towards the change, with as few compiles as possible.

    Fills `records` by position in `cells`. Returns the positions on both sides of the change.
    """

    def compile_at(position: int) -> Record:
        (records[position],) = loop.records([cells[position]])
        return records[position]

    own = [each.toolchain for each in cells].index(cell.toolchain)
    if own not in records:
        yield RecordSettled(compile_at(own))
    # The change to a failure is before a failing cell, the change to a success after it; for a cell
    # that compiles it is the reverse.
    fails = records[own].verdict is Verdict.FAILS
    path = list(range(own, len(cells)))
    if fails == (find is Find.FAIL):
        path = list(range(own, -1, -1))
    # The search counts positions along the path, from the cell's own release.
    steps = boundary(len(path))
    step = next(steps)
    while True:
        if path[step] not in records:
            yield RecordSettled(compile_at(path[step]))
        answer = _ANSWERS.get(records[path[step]].verdict, SearchAnswer.UNKNOWN)
        try:
            step = steps.send(answer)
        except StopIteration as end:
            if end.value is None:
                return None
            before, after = sorted(path[step] for step in end.value)
            return before, after


def _bisection(
    cell: Cell, find: Find, records: Mapping[int, Record], turn: tuple[int, int] | None, of: int
) -> Bisection:
    """Return the history of the compiled positions and the changes in it."""
    positions = sorted(records)
    compiled = [records[position] for position in positions]
    entries = history.entries(compiled)
    turns = []
    if find is Find.CHANGE:
        turns = search.changes([entry.state for entry in entries])
    elif turn:
        before, after = turn
        turns = [(positions.index(before), positions.index(after))]
    changes = tuple(history.change(entries, *each, torch_pins.torch_for) for each in turns)
    return Bisection(
        cell,
        find,
        tuple(entries),
        changes,
        of,
        tuple(torch_pins.pins()),
        history.decisive_lines(compiled),
    )


def releases(cell: Cell, specs: Sequence[str], chose: bool = False) -> Resolution:
    """Return the releases to examine, oldest first, the cell's own among them.

    They are those of `specs`, or all of the cell's compiler with a wheel for this Python.

    Args:
        cell: The cell.
        specs: The specifications of releases.
        chose: True if the specifications selected the cell: a single release among them is then the
            cell's own.

    Raises:
        UsageError: If there are fewer than two releases.
    """
    resolution = toolchains.resolve(specs)
    if not specs or (chose and len(resolution.choices) == 1):
        resolution = toolchains.FAMILIES[split(cell.toolchain)[0]].versions()
    choices = list(resolution.choices)
    if not any(choice.identity == cell.toolchain for choice in choices):
        # A build that was given by its path cannot be resolved by its identity.
        with contextlib.suppress(FlacheckError):
            choices += toolchains.resolve([cell.toolchain]).choices
    if len(choices) < 2:
        names = ", ".join(choice.identity for choice in choices) or "no release"
        raise UsageError(f"only {names} is selected: --triton must leave at least two releases")
    # By version, because 3.10 comes after 3.9.
    choices.sort(key=lambda choice: by_version(choice.identity))
    return Resolution(tuple(choices), resolution.warnings)
