"""Environment markers, as they hold for this Python on Linux."""

from __future__ import annotations

import re
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

from flacheck.errors import UsageError

# Triton exists for Linux only, so a pin is looked at as it holds there.
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def holds(marker: Any, where: str) -> bool:
    """Whether a marker (a text, or none) is true without an extra; a UsageError that begins with
    `where` for what is no marker, or compares what cannot be compared.
    """
    try:
        return not marker or _true(Marker(marker), "")
    except (InvalidMarker, TypeError):
        raise UsageError(f"{where}: {marker!r} is no environment marker") from None
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise UsageError(f"{where}: the marker {marker!r} cannot be evaluated: {error}") from None


def may_hold(marker: Any, where: str) -> bool:
    """The same for a lock, which writes extras and groups that may be chosen into its markers; what
    is newer than packaging's grammar may hold.
    """
    extras = {"", *_EXTRA.findall(marker)} if isinstance(marker, str) else {""}
    try:
        return not marker or any(_true(Marker(marker), extra) for extra in extras)
    except InvalidMarker:
        return True
    except (TypeError, UndefinedComparison, UndefinedEnvironmentName, ValueError):
        raise UsageError(f"{where}: {marker!r} is no environment marker") from None


def _true(marker: Marker, extra: str) -> bool:
    return marker.evaluate({**_LINUX, "extra": extra})
