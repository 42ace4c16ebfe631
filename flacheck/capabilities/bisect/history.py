"""The history of a cell over releases, and the changes in it, without any I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import to_builtins

from flacheck.analysis.order import split
from flacheck.analysis.slow import SECONDS, TIMES
from flacheck.model import Cell, Json, Record, Verdict

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


@dataclass(frozen=True)
class Entry:
    """The result of one release.

    `slow` is the multiple of the fastest release's seconds, for compiles that are long enough to be
    slow; `line` is the decisive line of a failure.
    """

    toolchain: str
    verdict: Verdict
    signature: str | None
    code: str | None
    reason: str | None
    seconds: float
    slow: float | None = None
    line: str = ""

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

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        # The line is for people; JSON has the signature.
        del plain["line"]
        return plain


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

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return {**plain, "before": self.before.toolchain, "after": self.after.toolchain}


@dataclass(frozen=True)
class Bisection:
    """The examined releases, oldest first, and the changes; `of` is the number of all releases."""

    cell: Cell
    find: Find
    history: tuple[Entry, ...]
    changes: tuple[Change, ...]
    of: int
    # All torch releases with a known requirement, oldest first.
    torches: tuple[str, ...] = ()

    def to_json(self) -> Json:
        cell = self.cell
        cell_json = {
            "key": cell.key,
            "kernel": cell.kernel.name,
            "package": cell.kernel.package,
            "toolchain": cell.toolchain,
            "target": cell.target,
            "dtype": cell.dtype,
            "stage": cell.stage,
            "widened": cell.is_widened,
            "shape": dict(cell.shape),
            "options": dict(cell.options),
            "launch": cell.launch and cell.launch.to_json(),
        }
        return {
            "schema": "flacheck.bisect/1",
            "cell": cell_json,
            "find": self.find.value,
            "history": [entry.to_json() for entry in self.history],
            "changes": [change.to_json() for change in self.changes],
        }


def entries(records: Sequence[Record]) -> list[Entry]:
    """Return an entry for each record, in their order."""
    times = [record.seconds for record in records if record.verdict is Verdict.COMPILES]
    # The fastest, because two of three releases may be slow, and then the median is slow.
    fastest = min(times, default=0.0)
    history = []
    for record in records:
        seconds, slow = record.seconds, None
        if record.verdict is Verdict.COMPILES and seconds >= max(SECONDS, TIMES * fastest):
            slow = round(seconds / fastest, 1)
        cause = (record.signature, record.code, record.reason)
        line = record.message.partition("\n")[0]
        history.append(Entry(record.toolchain, record.verdict, *cause, seconds, slow, line))
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
