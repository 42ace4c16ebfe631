"""The history of a cell over releases, and the changes in it, without any I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Meta

from flacheck.evidence.analysis.order import split
from flacheck.evidence.analysis.slow import SECONDS, TIMES
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.model.launch import LaunchJson
from flacheck.model.wire import CellKey, Code, JsonStruct, Seconds, ToolchainName

TorchFor = Callable[[str], Sequence[str]]


class Find(str, Enum):
    """The changes to find: to a failure, to a success, or all."""

    FAIL = "fail"
    PASS = "pass"
    CHANGE = "change"


class Kind(str, Enum):
    """The kind of a change; CAUSE is a failure with another signature."""

    FAIL = "fail"
    PASS = "pass"
    CAUSE = "cause"
    SLOW = "slow"
    FAST = "fast"


class Entry(JsonStruct, frozen=True):
    """The result of one release.

    `reason` says why there is no verdict; `slow` is the multiple of the fastest release's seconds,
    for compiles that are long enough to be slow.
    """

    toolchain: ToolchainName
    verdict: Verdict
    signature: str | None
    code: Code | None
    reason: str | None
    seconds: Seconds
    slow: float | None = None

    @property
    def has_verdict(self) -> bool:
        """True if the cell compiles or fails."""
        return self.verdict in (Verdict.COMPILES, Verdict.FAILS)

    @property
    def fails(self) -> bool:
        """True if the cell fails."""
        return self.verdict is Verdict.FAILS

    @property
    def state(self) -> tuple[Verdict, str | None, bool] | None:
        """The state that a change differs in; None without a verdict."""
        if not self.has_verdict:
            return None
        return self.verdict, self.signature, self.slow is not None


@dataclass(frozen=True)
class Change:
    """Two releases with different states, each with the torch releases that require it.

    The releases `between` lack a verdict.
    """

    before: Entry
    after: Entry
    kind: Kind
    torch_before: tuple[str, ...]
    torch_after: tuple[str, ...]
    between: tuple[str, ...] = ()


class ReleasePair(JsonStruct, frozen=True):
    """Two releases with different states, each with the torch releases that require it.

    The releases `between` gave no verdict.
    """

    before: ToolchainName
    after: ToolchainName
    kind: Kind
    torch_before: tuple[str, ...]
    torch_after: tuple[str, ...]
    between: tuple[ToolchainName, ...]


class BisectedCell(JsonStruct, frozen=True):
    """The cell that is compiled under each release."""

    key: CellKey
    kernel: str
    package: str | None
    toolchain: ToolchainName
    target: str
    dtype: str | None
    stage: Literal["compile", "autotune"]
    widened: bool
    shape: Mapping[str, int]
    options: Mapping[str, Any]
    launch: LaunchJson | None


class BisectDocument(JsonStruct, frozen=True):
    """A cell over the releases of its compiler, oldest first, and the changes that `find` names.

    The history holds only the releases that the search compiled.
    """

    schema: Literal["flacheck.bisect/1"]
    cell: BisectedCell
    find: Find
    history: Annotated[tuple[Entry, ...], Meta(min_length=1)]
    changes: tuple[ReleasePair, ...]


@dataclass(frozen=True)
class Bisection:
    """The examined releases, oldest first, and the changes; `of` is the number of all releases.

    `supported_from` is the first release that supports the cell's GPU if older ones were left out.
    `lines` holds the decisive line of each failure by toolchain, `torches` all torch
    releases with a known requirement, oldest first.
    """

    cell: Cell
    find: Find
    history: tuple[Entry, ...]
    changes: tuple[Change, ...]
    of: int
    torches: tuple[str, ...] = ()
    lines: Mapping[str, str] = field(default_factory=dict)
    supported_from: str = ""

    def to_json(self) -> Json:
        """Return the document flacheck.bisect/1."""
        cell = self.cell
        stage: Literal["compile", "autotune"] = "compile"
        if cell.stage == "autotune":
            stage = "autotune"
        launch = None
        if cell.launch is not None:
            launch = cell.launch.to_json()
        subject = BisectedCell.from_value(
            cell,
            kernel=cell.kernel.name,
            package=cell.kernel.package,
            stage=stage,
            widened=cell.is_widened,
            launch=launch,
        )
        changes = []
        for each in self.changes:
            torch = (each.torch_before, each.torch_after)
            releases = (each.before.toolchain, each.after.toolchain)
            changes.append(ReleasePair(*releases, each.kind, *torch, each.between))
        document = BisectDocument(
            "flacheck.bisect/1", subject, self.find, self.history, tuple(changes)
        )
        return document.to_json()


def decisive_lines(records: Sequence[Record]) -> dict[str, str]:
    """Return the first decisive line of each record by toolchain."""
    return {record.toolchain: record.message.partition("\n")[0] for record in records}


def entries(records: Sequence[Record]) -> list[Entry]:
    """Return an entry for each record, in their order."""
    times = [record.compile_seconds for record in records if record.verdict is Verdict.COMPILES]
    # The fastest, because two of three releases may be slow, and then the median is slow.
    fastest = min(times, default=0.0)
    history = []
    for record in records:
        seconds, slow = record.compile_seconds, None
        if record.verdict is Verdict.COMPILES and seconds >= max(SECONDS, TIMES * fastest):
            slow = round(seconds / fastest, 1)
        cause = (record.signature, record.code, record.reason)
        history.append(Entry(record.toolchain, record.verdict, *cause, seconds, slow))
    return history


def change(history: Sequence[Entry], before: int, after: int, torch_for: TorchFor) -> Change:
    """Return the change between two entries with a verdict."""
    old, new = history[before], history[after]
    return Change(
        before=old,
        after=new,
        kind=_kind(old, new),
        torch_before=tuple(torch_for(split(old.toolchain)[1])),
        torch_after=tuple(torch_for(split(new.toolchain)[1])),
        between=tuple(entry.toolchain for entry in history[before + 1 : after]),
    )


def _kind(old: Entry, new: Entry) -> Kind:
    # The states differ, so two failures have different signatures.
    if old.fails and new.fails:
        return Kind.CAUSE
    if new.fails:
        return Kind.FAIL
    if old.fails:
        return Kind.PASS
    if new.slow:
        return Kind.SLOW
    return Kind.FAST
