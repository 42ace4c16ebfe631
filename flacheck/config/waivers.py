"""Waivers: failures that a project knows of and lives with, for a reason and for a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, Protocol

from flacheck.errors import UsageError
from flacheck.model import Json

_KEYS = ("signature", "kernel", "reason", "expires")


class Failing(Protocol):
    """What a waiver looks at of a failing cell."""

    @property
    def kernel(self) -> str: ...

    @property
    def signature(self) -> str | None: ...


@dataclass(frozen=True)
class Waiver:
    """Failures of this signature, of kernels that match this glob, or of both, are let pass until
    `expires` (that day included). A glob matches the whole name or its last part.
    """

    reason: str
    signature: str | None = None
    kernel: str | None = None
    expires: date | None = None

    def covers(self, cell: Failing) -> bool:
        """Whether this failing cell is meant, whatever the date."""
        return (self.signature is None or cell.signature == self.signature) and self.names(
            cell.kernel
        )

    def names(self, kernel: str) -> bool:
        """Whether a kernel is one that the waiver speaks of."""
        last = kernel.rpartition(":")[2].rpartition(".")[2]
        return self.kernel is None or any(fnmatchcase(name, self.kernel) for name in (kernel, last))

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and self.expires < today

    @property
    def about(self) -> str:
        """What it waives, in a few words."""
        return " and ".join(filter(None, (self.signature, self.kernel and f"kernel {self.kernel}")))

    def to_json(self) -> Json:
        ends = self.expires.isoformat() if self.expires else None
        return {
            "signature": self.signature,
            "kernel": self.kernel,
            "reason": self.reason,
            "expires": ends,
        }


def read(entries: Any, file: str) -> tuple[Waiver, ...]:
    """The waivers in `[[tool.flacheck.waivers]]`; a UsageError with the file and the entry for a
    malformed one.
    """
    if not isinstance(entries, list):
        raise UsageError(f"{file}: waivers are tables: write [[tool.flacheck.waivers]] above each")
    return tuple(
        _waiver(entry, f"{file}: waiver {number}") for number, entry in enumerate(entries, 1)
    )


def in_force(waivers: Iterable[Waiver], today: date) -> tuple[Waiver, ...]:
    """Those whose time is not over."""
    return tuple(waiver for waiver in waivers if not waiver.expired(today))


def waived(waivers: Sequence[Waiver], cell: Failing) -> bool:
    """Whether any of the waivers covers a failing cell."""
    return any(waiver.covers(cell) for waiver in waivers)


def _waiver(entry: Any, where: str) -> Waiver:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is no table; write [[tool.flacheck.waivers]] above it")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; allowed are {', '.join(_KEYS)}")
    for key in ("signature", "kernel", "reason"):
        if key in entry and not (isinstance(entry[key], str) and entry[key].strip()):
            raise UsageError(f"{where}: {key} must be a text that is not empty")
    if "reason" not in entry:
        raise UsageError(f"{where}: a reason is wanted: why may this fail?")
    if "signature" not in entry and "kernel" not in entry:
        raise UsageError(
            f'{where}: name what is waived: signature = "FC302:…" or kernel = "chunk_*"'
        )
    return Waiver(
        entry["reason"],
        entry.get("signature"),
        entry.get("kernel"),
        _day(entry.get("expires"), where),
    )


def _day(value: Any, where: str) -> date | None:
    """A TOML date, a date-time's day, or a text that says the same."""
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise UsageError(
            f"{where}: expires = {value!r} is no date; write it as 2027-03-31"
        ) from None
