"""A cell's records over the releases, as a history and its changes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flacheck.analysis.order import split
from flacheck.analysis.slow import SECONDS, TIMES
from flacheck.bisect import search
from flacheck.model import Cell, Json, Record, Verdict

TorchFor = Callable[[str], Sequence[str]]


class Find(str, Enum):
    """What is looked for: the change that made the cell fail, the one that mended it, or every one."""

    FAIL = "fail"
    PASS = "pass"
    CHANGE = "change"


class Kind(str, Enum):
    """What a change is: it fails now, compiles now, fails otherwise, or compiles many times slower
    or faster.
    """

    FAIL = "fail"
    PASS = "pass"
    CAUSE = "cause"
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True)
class Entry:
    """One release's answer. `line` is the decisive line of a failure; `slow` how many times the
    seconds of the fastest release it took, where a compile took long enough to be called slow.
    """

    toolchain: str
    verdict: Verdict
    signature: str | None
    code: str | None
    reason: str | None
    line: str
    seconds: float
    slow: float | None = None

    @property
    def known(self) -> bool:
        return self.verdict in (Verdict.COMPILES, Verdict.FAILS)

    @property
    def fails(self) -> bool:
        return self.verdict is Verdict.FAILS

    @property
    def state(self) -> tuple[Verdict, str | None, bool] | None:
        """What must differ for a change; None for a release that gave no verdict."""
        return (self.verdict, self.signature, self.slow is not None) if self.known else None

    def to_json(self) -> Json:
        names = ("toolchain", "signature", "code", "reason", "seconds", "slow")
        return {**{name: getattr(self, name) for name in names}, "verdict": self.verdict.value}


@dataclass(frozen=True)
class Change:
    """Two releases with unlike outcomes and no verdict between them (`between` gave none), and the
    torch releases that require each.
    """

    before: Entry
    after: Entry
    kind: Kind
    torch_before: tuple[str, ...]
    torch_after: tuple[str, ...]
    between: tuple[str, ...] = ()

    def to_json(self) -> Json:
        ends: Json = {
            "before": self.before.toolchain,
            "after": self.after.toolchain,
            "kind": self.kind.value,
        }
        lists = {
            "torch_before": self.torch_before,
            "torch_after": self.torch_after,
            "between": self.between,
        }
        return {**ends, **{name: list(values) for name, values in lists.items()}}


@dataclass(frozen=True)
class Bisection:
    """What came of it: the releases that were asked, oldest first, and the changes that were looked
    for. `of` is how many releases there were to ask.
    """

    cell: Cell
    find: Find
    history: tuple[Entry, ...]
    changes: tuple[Change, ...]
    of: int

    def to_json(self) -> Json:
        lists = {"history": self.history, "changes": self.changes}
        return {
            "schema": "flacheck.bisect/1",
            "cell": _described(self.cell),
            "find": self.find.value,
            **{name: [entry.to_json() for entry in entries] for name, entries in lists.items()},  # type: ignore[attr-defined]
        }


def _described(cell: Cell) -> Json:
    named: Mapping[str, Any] = {"kernel": cell.kernel.name, "package": cell.kernel.package}
    same = ("key", "toolchain", "target", "dtype", "stage", "widened")
    launch = cell.launch.to_json() if cell.launch else None
    mappings = {"shape": dict(cell.shape), "options": dict(cell.options), "launch": launch}
    return {**named, **{name: getattr(cell, name) for name in same}, **mappings}


def entries(records: Sequence[Record]) -> list[Entry]:
    """One entry a record, in their order."""
    fastest = min(
        (record.seconds for record in records if record.verdict is Verdict.COMPILES), default=0.0
    )
    return [_entry(record, fastest) for record in records]


def _entry(record: Record, fastest: float) -> Entry:
    compiles = record.verdict is Verdict.COMPILES
    slow = compiles and record.seconds >= max(SECONDS, TIMES * fastest)
    return Entry(
        toolchain=record.toolchain,
        verdict=record.verdict,
        signature=record.signature,
        code=record.code,
        reason=record.reason,
        line=record.message.partition("\n")[0],
        seconds=record.seconds,
        slow=round(record.seconds / fastest, 1) if slow else None,
    )


def changes(history: Sequence[Entry], torch_for: TorchFor) -> list[Change]:
    """Every change in a whole history."""
    return [
        change(history, before, after, torch_for)
        for before, after in search.changes([e.state for e in history])
    ]


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
    if old.verdict is not new.verdict:
        return Kind.FAIL if new.fails else Kind.PASS
    if new.fails:
        return Kind.CAUSE
    return Kind.SLOW if new.slow else Kind.FAST
