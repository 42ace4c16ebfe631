"""The process's use of package indexes: --offline, --refresh, and hosts that did not answer."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from flacheck.toolchains import index_pages, index_sources
from flacheck.toolchains.index_sources import DEFAULT_INDEX, Sources, is_remote

_DAY = 86_400.0
# Limits of an installer whose user has set none: a dead host must not hold up a scan for minutes.
_PATIENCE = {
    "PIP_RETRIES": "1",
    "PIP_DEFAULT_TIMEOUT": "15",
    "UV_HTTP_RETRIES": "1",
    "UV_HTTP_TIMEOUT": "30",
}
# With one of these, uv's own index holds.
_INDEX_OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_CONFIG", "UV_CONFIG_FILE")


@dataclass
class _State:
    """The settings of the whole process.

    `refreshed_at` is the time from which on listings count under --refresh. `unreachable` maps a
    source to the reason why its host does not answer; `sources` is read once.
    """

    is_offline: bool = False
    refreshed_at: float | None = None
    unreachable: dict[str, str] = field(default_factory=dict)
    sources: Sources | None = None
    has_tried: bool = False


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
    """Forget which hosts did not answer, and the sources that were read."""
    _STATE.unreachable.clear()
    _STATE.sources = None
    _STATE.has_tried = False


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
    return time.time() - listed_at < _DAY


def sources(pip: Sequence[str]) -> Sources:
    """Return the user's sources; `pip` is the start of pip's command line."""
    if _STATE.sources is None:
        _STATE.sources = index_sources.read(pip)
    return _STATE.sources


def note_unreachable(place: str, reason: str) -> None:
    """Remember a source whose host does not answer: each further try would wait for it again."""
    _STATE.unreachable[place] = reason


def why_unreachable(place: str) -> str | None:
    """Return why a source's host did not answer; None if it answered or was not tried."""
    return _STATE.unreachable.get(place)


def try_all(pip: Sequence[str]) -> None:
    """Try to connect to every index once in this process."""
    if _STATE.has_tried or _STATE.is_offline:
        return
    _STATE.has_tried = True
    known = sources(pip)
    for place in known.indexes:
        if is_remote(place) and place not in _STATE.unreachable:
            reason = index_pages.why_no_connection(place, known)
            if reason:
                note_unreachable(place, reason)


def has_no_index() -> bool:
    """Return True with --offline, or if no host of an index answers."""
    if _STATE.is_offline:
        return True
    if _STATE.sources is None or not _STATE.unreachable:
        return False
    remote = filter(is_remote, _STATE.sources.all)
    return all(place in _STATE.unreachable for place in remote)


def has_dead_index() -> bool:
    """Return True if the host of some index did not answer."""
    return bool(_STATE.unreachable)


def has_local_source(pip: Sequence[str]) -> bool:
    """Return True if an index or a folder of wheels is on this machine."""
    return not all(map(is_remote, sources(pip).all))


def limits(pip: Sequence[str]) -> Mapping[str, str]:
    """Return variables that keep an installer from waiting for hosts that do not answer.

    Others give uv the index, the proxy and the certificates of pip's configuration, which uv does
    not read: both then read the place that was listed.
    """
    variables = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    known = sources(pip)
    if os.environ.keys().isdisjoint(_INDEX_OF_UV):
        variables |= _settings_for_uv(known)
    if not has_no_index() and not has_dead_index():
        return variables
    dead = list(_STATE.unreachable)
    if has_no_index():
        dead = list(filter(is_remote, known.all))
    live = known.without(dead)
    # pip ignores empty variables and would use its configuration file.
    variables["PIP_FIND_LINKS"] = " ".join(live.links) or os.devnull
    if live.indexes:
        variables["PIP_INDEX_URL"] = live.indexes[0]
        variables["PIP_EXTRA_INDEX_URL"] = " ".join(live.indexes[1:]) or live.indexes[0]
    else:
        variables["PIP_NO_INDEX"] = "1"
    return variables


def _settings_for_uv(known: Sources) -> dict[str, str]:
    """Return variables of uv with pip's index, proxy and certificates."""
    settings: dict[str, str | None] = {
        "HTTP_PROXY": known.proxy,
        "HTTPS_PROXY": known.proxy,
        "SSL_CLIENT_CERT": known.client_certificate,
    }
    if not known.indexes:
        settings["UV_NO_INDEX"] = "1"
        settings["UV_FIND_LINKS"] = ",".join(known.links)
    elif known.indexes[0] != DEFAULT_INDEX:
        settings["UV_DEFAULT_INDEX"] = known.indexes[0]
    if known.certificates and os.path.isfile(known.certificates):
        settings["SSL_CERT_FILE"] = known.certificates
    variables = {}
    for name, value in settings.items():
        if value and not {name, name.lower()} & os.environ.keys():
            variables[name] = value
    return variables
