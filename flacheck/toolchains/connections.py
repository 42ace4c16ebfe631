"""The process's use of package indexes: --offline, --refresh, and an index that did not answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

DAY = 86_400.0


@dataclass
class _State:
    """The settings of the whole process.

    `refreshed_at` is the time before which listings are too old under --refresh. `is_unreachable`
    is true after an installer could not reach any index.
    """

    is_offline: bool = False
    refreshed_at: float | None = None
    is_unreachable: bool = False


_STATE = _State()


@contextmanager
def of_indexes(*, offline: bool = False, refresh: bool = False) -> Iterator[None]:
    """Read no package index within the block (`offline`), or read all listings anew (`refresh`)."""
    before = (_STATE.is_offline, _STATE.refreshed_at)
    _STATE.is_offline = offline
    _STATE.refreshed_at = time.time() if refresh else None
    try:
        yield
    finally:
        _STATE.is_offline, _STATE.refreshed_at = before


def forget() -> None:
    """Forget that no index answered."""
    _STATE.is_unreachable = False


def is_offline() -> bool:
    """Return True with --offline."""
    return _STATE.is_offline


def is_refreshing() -> bool:
    """Return True with --refresh."""
    return _STATE.refreshed_at is not None


def is_current(listed_at: float) -> bool:
    """Return True if a listing of that time needs no other look-up."""
    if _STATE.refreshed_at is not None:
        return listed_at >= _STATE.refreshed_at
    return time.time() - listed_at < DAY


def note_unreachable() -> None:
    """Remember that no index answers: each further try would wait for it again."""
    _STATE.is_unreachable = True


def has_no_index() -> bool:
    """Return True with --offline, or if no index answered."""
    return _STATE.is_offline or _STATE.is_unreachable
