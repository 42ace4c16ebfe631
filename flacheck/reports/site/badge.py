"""A package's badge: how many kernels of its newest version the newest Triton release compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flacheck.evidence.analysis.order import by_version
from flacheck.reports.site.grid import Shown

# Widths in a badge: a letter of 11 px Verdana, and the space around a text.
_LETTER, _SPACE = 6.6, 12
_COLORS = {
    "all": "#1a7f37",
    "nearly": "#2da44e",
    "most": "#9a6700",
    "few": "#cf222e",
    "advised": "#9a6700",
}


def badge_of(places: Sequence[Shown]) -> dict[str, Any]:
    """Return the parts of a badge: of several GPUs the one with the most failing kernels counts."""
    newest = max((each.place.about for each in places), key=by_version)
    own = [each for each in places if each.place.about == newest]
    last = max((each.place.toolchain for each in own), key=by_version)
    on_last = [each for each in own if each.place.toolchain == last]
    worst = max(on_last, key=lambda each: (len(each.deciding), len(each.place.failing_kernels)))
    label = f"Triton {worst.release}"
    version = newest.partition("==")[2]
    text = f"{version} {worst.share} kernels".strip()
    return {
        "label": label,
        "text": text,
        "color": _COLORS[worst.tone],
        "left": round(len(label) * _LETTER + _SPACE),
        "right": round(len(text) * _LETTER + _SPACE),
    }
