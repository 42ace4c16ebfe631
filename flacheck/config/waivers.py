"""Waivers: failures that a project knows of and lives with, for a reason and for a time."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol

import msgspec

from flacheck.errors import UsageError

# A reason of blanks would read as if there were one.
NotBlank = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Waivable(Protocol):
    """What a waiver asks of a failing cell: its kernel, its signature, and the one that an older
    flacheck gave it."""

    @property
    def kernel(self) -> str: ...

    @property
    def signature(self) -> str | None: ...

    @property
    def formerly(self) -> str | None: ...


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Failures of this signature, of kernels that match this glob, or of both, are let pass until
    `expires` (that day included). A glob matches the whole name or its last part."""

    signature: NotBlank | None = None
    kernel: NotBlank | None = None
    reason: NotBlank
    expires: date | None = None

    def covers(self, failing: Waivable) -> bool:
        """Whether a failing cell is meant, whatever the date."""
        signatures = (None, failing.signature, failing.formerly)
        return self.signature in signatures and self.names(failing.kernel)

    def names(self, kernel: str) -> bool:
        """Whether a kernel is one that the waiver speaks of."""
        if self.kernel is None:
            return True
        last_part = kernel.rpartition(":")[2].rpartition(".")[2]
        return fnmatchcase(kernel, self.kernel) or fnmatchcase(last_part, self.kernel)

    def has_expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and self.expires < today

    @property
    def about(self) -> str:
        """What it waives, in a few words."""
        return " and ".join(filter(None, (self.signature, self.kernel and f"kernel {self.kernel}")))


def from_toml(entries: Any, where: Callable[..., str]) -> tuple[Waiver, ...]:
    """The waivers in `[[tool.flacheck.waivers]]`; UsageError with file and line for a bad one.
    `where` says them for an entry by its index, from 0, and for all without one."""
    if not isinstance(entries, list):
        raise UsageError(f"{where()}: waivers must be tables: write [[tool.flacheck.waivers]]")
    return tuple(_waiver(entry, place, where) for place, entry in enumerate(entries))


def in_force(waivers: Iterable[Waiver], today: date) -> tuple[Waiver, ...]:
    """Those whose time is not over."""
    return tuple(waiver for waiver in waivers if not waiver.has_expired(today))


def are_waived(waivers: Iterable[Waiver], failing: Waivable) -> bool:
    """Whether any of the waivers covers a failing cell."""
    return any(waiver.covers(failing) for waiver in waivers)


def _waiver(entry: Any, place: int, where: Callable[..., str]) -> Waiver:
    # TOML knows dates with a time; the time of the last day is of no use here.
    if isinstance(entry, dict) and isinstance(entry.get("expires"), datetime):
        entry = {**entry, "expires": entry["expires"].date()}
    try:
        waiver = msgspec.convert(entry, Waiver)
    except msgspec.ValidationError as error:
        raise UsageError(
            f'{where(place)}: waiver {place + 1}: {error}; write kernel = "chunk_*" or '
            'signature = "FC302:…", a reason, and expires = 2027-03-31 where the waiver is to end'
        ) from None
    if waiver.signature is None and waiver.kernel is None:
        named = 'signature = "FC302:…" or kernel = "chunk_*"'
        raise UsageError(f"{where(place)}: waiver {place + 1}: name what is waived: {named}")
    return waiver
