"""Waivers: failures that a project accepts, with a reason and until a date."""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol

import msgspec

from flacheck.errors import UsageError

# A blank reason would look as if there were one.
NotBlank = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Waivable(Protocol):
    """The fields of a failing cell that a waiver compares."""

    @property
    def kernel(self) -> str: ...

    @property
    def signature(self) -> str | None: ...


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that lets failures pass until `expires`, that day included.

    It covers failures of this signature, of kernels that match this glob, or of both. A glob
    matches the whole name or its last part.
    """

    signature: NotBlank | None = None
    kernel: NotBlank | None = None
    reason: NotBlank
    expires: date | None = None

    def covers(self, failing: Waivable) -> bool:
        """Return True if the waiver covers a failing cell, whatever the date."""
        return self.signature in (None, failing.signature) and self.names(failing.kernel)

    def names(self, kernel: str) -> bool:
        """Return True if the waiver's glob matches a kernel."""
        if self.kernel is None:
            return True
        last_part = kernel.rpartition(":")[2].rpartition(".")[2]
        return fnmatchcase(kernel, self.kernel) or fnmatchcase(last_part, self.kernel)

    def has_expired(self, today: date) -> bool:
        """Return True if the waiver's last day is over."""
        return self.expires is not None and self.expires < today

    @property
    def about(self) -> str:
        """The signature and kernel that it waives."""
        return " and ".join(filter(None, (self.signature, self.kernel and f"kernel {self.kernel}")))


def from_toml(entries: Any, where: Callable[..., str]) -> tuple[Waiver, ...]:
    """Return the waivers in `[[tool.flacheck.waivers]]`.

    `where` returns file and line for an entry by its index, from 0, and for all without one. Raises
    UsageError for a malformed entry, with file and line.
    """
    if not isinstance(entries, list):
        raise UsageError(f"{where()}: waivers must be tables: write [[tool.flacheck.waivers]]")
    return tuple(_parse_waiver(entry, place, where) for place, entry in enumerate(entries))


def in_force(waivers: Iterable[Waiver], today: date) -> tuple[Waiver, ...]:
    """Return the waivers that have not expired."""
    return tuple(waiver for waiver in waivers if not waiver.has_expired(today))


def are_waived(waivers: Iterable[Waiver], failing: Waivable) -> bool:
    """Return True if any of the waivers covers a failing cell."""
    return any(waiver.covers(failing) for waiver in waivers)


def _parse_waiver(entry: Any, place: int, where: Callable[..., str]) -> Waiver:
    # TOML has dates with a time; the time of the last day is not used here.
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
        examples = 'signature = "FC302:…" or kernel = "chunk_*"'
        raise UsageError(f"{where(place)}: waiver {place + 1}: name what is waived: {examples}")
    return waiver
