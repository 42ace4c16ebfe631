"""Durations as people write them: 90, 90s, 15m, 1h, 30d."""

import math
import re

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)
EXAMPLES = "90, 90s, 15m, 1h or 2d"


def parse(text: str) -> float | None:
    """Return a duration in seconds; None for a text that is not a positive duration."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > 0 and math.isfinite(seconds):
        return seconds
    return None


def rounded(seconds: float) -> str:
    """Return a duration for people: 40 s, 12 min or 3 h."""
    if seconds < _SECONDS["m"]:
        return f"{seconds:.0f} s"
    if seconds < 2 * _SECONDS["h"]:
        return f"{seconds / _SECONDS['m']:.0f} min"
    return f"{seconds / _SECONDS['h']:.0f} h"
