"""A cell's records over the releases, as a history and its changes. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import to_builtins

from flacheck.analysis.order import split
from flacheck.analysis.slow import SECONDS, TIMES
from flacheck.model import Cell, Json, Record, Verdict

TorchFor = Callable[[str], Sequence[str]]


class Find(str, Enum):
    """Which changes are looked for: what made the cell fail, what mended it, or every one."""

    FAIL = "fail"
    PASS = "pass"
    CHANGE = "change"


class Kind(str, Enum):
    """What a release does after a change; CAUSE: it fails with another signature."""

    FAIL = "fail"
    PASS = "pass"
    CAUSE = "cause"
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True)
class Entry:
    """One release's answer. `slow` is how many times the seconds of the fastest release it took,
    where a compile took long enough to be called slow; `line` the decisive line of a failure."""

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
        return self.verdict in (Verdict.COMPILES, Verdict.FAILS)

    @property
    def fails(self) -> bool:
        return self.verdict is Verdict.FAILS

    @property
    def state(self) -> tuple[Verdict, str | None, bool] | None:
        """What must differ for a change; None for a release that gave no verdict."""
        if not self.has_verdict:
            return None
        return self.verdict, self.signature, self.slow is not None

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        # For people only: JSON has the signature.
        del plain["line"]
        return plain


@dataclass(frozen=True)
class Change:
    """Two releases with unlike outcomes, with the torch releases that require each; those `between`
    gave no verdict."""

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
    """The releases that were asked (of `of` there were), oldest first, and the changes sought."""

    cell: Cell
    find: Find
    history: tuple[Entry, ...]
    changes: tuple[Change, ...]
    of: int
    # All torch releases with a known requirement, oldest first.
    torches: tuple[str, ...] = ()

    def to_json(self) -> Json:
        cell = self.cell
        described = {
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
            "cell": described,
            "find": self.find.value,
            "history": [entry.to_json() for entry in self.history],
            "changes": [change.to_json() for change in self.changes],
        }


def entries(records: Sequence[Record]) -> list[Entry]:
    """One entry a record, in their order."""
    compiled = [record.seconds for record in records if record.verdict is Verdict.COMPILES]
    # The fastest, not the median: of three releases two may be the slow ones.
    fastest = min(compiled, default=0.0)
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
    """The change between two entries that gave a verdict."""
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
    # Two entries of one state are no change, so two failures have unlike signatures.
    if old.fails and new.fails:
        return Kind.CAUSE
    if new.fails:
        return Kind.FAIL
    if old.fails:
        return Kind.PASS
    if new.slow:
        return Kind.SLOW
    return Kind.FAST
