"""The bisection of a CUDA C++ unit over the commits of its checkout, under one toolkit."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from flacheck.capabilities.bisect import history
from flacheck.capabilities.bisect.history import Bisection, Change, Entry, Find
from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.analysis import ordered_search
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.model.cell import CellPart
from flacheck.pipeline import configured_builds, planning
from flacheck.pipeline.events import Event, Progress, RecordSettled
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.source.packages.commits import Commit, CommitRange, read_range
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains.scratch import temporary_folder

# Units that an error lists.
_MOST_UNITS = 16
_OTHER_ARGUMENTS = "its build compiles this unit with other macros"


@dataclass(frozen=True)
class _SourcesAtCommit:
    """The plan of the selected unit at one commit, or the `reason` of its absence."""

    plan: Plan | None
    reason: str = ""


def bisect_commits(
    folder: str,
    commits: str,
    selection: Selection,
    find: Find,
    store: Store,
    options: RunOptions,
    until: str | None = None,
    every: bool = False,
) -> Generator[Event, None, Bisection]:
    """Compile one unit at the commits that locate its changes; return history and changes.

    Args:
        folder: The folder of the checkout, in a git repository.
        commits: `A..B`: A, and the commits up to B that change the folder.
        selection: Leaves one unit, one GPU and one toolkit.
        find: The kind of change.
        store: Where the records go.
        options: How the unit is compiled.
        until: The last compiler stage to run; None runs all.
        every: Compile the unit at every commit.

    Raises:
        UsageError: If the range is malformed, or the folder leaves other than one cell.
    """
    path = Path(folder).expanduser().resolve()
    if not path.is_dir() or not configured_builds.describes(path):
        raise UsageError(
            f"--package {folder}: --commits takes the folder of a checkout whose build names CUDA "
            "C++ units (setup.py, compile_commands.json, build.ninja, CMakeLists.txt or Makefile)"
        )
    span = read_range(path, commits)
    with temporary_folder() as scratch:
        walk = _CommitWalk(span, Path(scratch), selection, until)
        yield from walk.follow(store, options, every)
    return walk.bisection(find)


class _CommitWalk:
    """The compiles at commits, by position in the range."""

    def __init__(
        self, span: CommitRange, scratch: Path, selection: Selection, until: str | None
    ) -> None:
        self._span = span
        self._scratch = scratch
        self._selection = selection
        self._until = until
        self._cell: Cell | None = None
        self._records: dict[int, Record] = {}
        self._reasons: dict[int, str] = {}

    def follow(
        self, store: Store, options: RunOptions, every: bool
    ) -> Generator[Event, None, None]:
        """Compile at the positions that the search yields, or at all of them."""
        count = len(self._span.commits)
        positions_to_try = ordered_search.turning_points(count, 0)
        positions = next(positions_to_try)
        if every:
            positions = list(range(count))
        while True:
            for position in positions:
                yield from self._compile_at(position, store, options)
            try:
                positions = positions_to_try.send(self._states())
            except StopIteration:
                return

    def _compile_at(
        self, position: int, store: Store, options: RunOptions
    ) -> Generator[Event, None, None]:
        commit = self._span.commits[position]
        yield Progress(f"commit {commit.id[:12]} {commit.title}", is_step=True)
        sources = self._sources_at(commit)
        if sources.plan is None:
            self._reasons[position] = sources.reason
            return
        for event in run_plan(sources.plan, store, options):
            if isinstance(event, RecordSettled):
                self._records[position] = event.record
            yield event

    def _sources_at(self, commit: Commit) -> _SourcesAtCommit:
        """Return the plan of the unit at a commit, whose build may lack the unit."""
        root = self._span.extract(commit, self._scratch)
        job = Job(Subject(package=str(root)), self._selection, until=self._until)
        try:
            plan = planning.plan_job(job)
        except (UsageError, EmptySelection) as error:
            return _SourcesAtCommit(None, str(error).replace(str(root), root.name))
        if self._cell is None:
            self._cell = _only(plan.cells)
        cells = [each for each in plan.cells if _is_same(each, self._cell)]
        if not cells:
            return _SourcesAtCommit(None, _OTHER_ARGUMENTS)
        # A question about the folder would outlive it: it is removed at the end.
        plan = replace(plan, cells=cells[:1], purpose=Purpose.BISECT)
        return _SourcesAtCommit(plan)

    def _states(self) -> dict[int, ordered_search.State]:
        """Return the state of each position; None without a verdict."""
        states: dict[int, ordered_search.State] = dict.fromkeys(self._reasons)
        for position, entry in self._entries().items():
            states[position] = entry.state
        return states

    def _entries(self) -> Mapping[int, Entry]:
        """Return an entry for each position that was tried, oldest first."""
        positions = sorted(self._records)
        entries = history.entries([self._records[position] for position in positions])
        by_position = dict(zip(positions, entries))
        if self._cell is not None:
            for position, reason in self._reasons.items():
                by_position[position] = Entry(
                    self._cell.toolchain, Verdict.UNKNOWN, None, None, reason, seconds=0.0
                )
        in_order = {}
        for position in sorted(by_position):
            commit = self._span.commits[position]
            entry = by_position[position]
            in_order[position] = structs.replace(entry, commit=commit.id, title=commit.title)
        return in_order

    def bisection(self, find: Find) -> Bisection:
        """Return the history of the commits that were tried and the changes in it."""
        if self._cell is None:
            raise UsageError(next(iter(self._reasons.values())))
        positions = self._entries()
        entries = list(positions.values())
        changes = []
        for before, after in ordered_search.changes([entry.state for entry in entries]):
            change = history.change(entries, before, after, _without_torch)
            if _matches(change, find):
                changes.append(change)
        lines = {}
        for position, record in self._records.items():
            lines[self._span.commits[position].id] = record.message.partition("\n")[0]
        return Bisection(
            self._cell,
            find,
            tuple(entries),
            tuple(changes),
            len(self._span.commits),
            lines=lines,
        )


def _only(cells: Sequence[Cell]) -> Cell:
    """Return the one cell of the selection; raise UsageError with the units if there are more."""
    if len(cells) == 1:
        return cells[0]
    names = list(dict.fromkeys(f"{cell.kernel.name} {cell.target}" for cell in cells))
    choice = ", ".join(names[:_MOST_UNITS])
    if len(names) > _MOST_UNITS:
        choice += f" and {len(names) - _MOST_UNITS} more"
    raise UsageError(
        f"--commits compiles one unit for one GPU, and {len(cells)} cells are left: choose with "
        f"--kernel, --target and --toolchain among {choice}"
    )


def _is_same(cell: Cell, other: Cell) -> bool:
    """Return True for the same unit with the same arguments, in the sources of any commit."""
    without: tuple[CellPart, ...] = ("package",)
    return cell.identity(without) == other.identity(without)


def _without_torch(toolchain: str) -> Sequence[str]:
    return ()


def _matches(change: Change, find: Find) -> bool:
    return find is Find.CHANGE or change.kind.value == find.value
