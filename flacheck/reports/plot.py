"""The geometry of a plot: lines over two logarithmic axes, for the SVG of a page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flacheck.reports.document import Plot

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 540, 28, 310
# A tick every so many powers of two would crowd beyond this number.
_MOST_TICKS = 9
_LINE_HEIGHT = 15


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from the pixel `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)


def drawing(plot: Plot) -> dict[str, Any]:
    """Return pixels and texts of a plot: its frame, ticks and lines with their labels."""
    points = [point for _, line in plot.lines for point in line]
    across = Axis(min(p[0] for p in points), max(p[0] for p in points), _LEFT, _RIGHT)
    floor = _power_of_ten(min(p[1] for p in points), math.floor)
    ceiling = _power_of_ten(max(p[3] for p in points), math.ceil)
    up = Axis(floor, max(ceiling, 10 * floor), _BOTTOM, _TOP)
    figure: dict[str, Any] = {"width": _WIDTH, "height": _HEIGHT}
    figure |= {"left": _LEFT, "right": _RIGHT, "top": _TOP, "bottom": _BOTTOM}
    figure["x_ticks"] = _ticks(across, _thinned(sorted({p[0] for p in points})))
    decades = round(math.log10(up.high / up.low))
    figure["y_ticks"] = _ticks(up, _thinned([up.low * 10**n for n in range(decades + 1)]))
    figure["lines"] = _lines(plot, across, up)
    return figure


def _power_of_ten(value: float, toward: Any) -> float:
    power: float = 10.0 ** toward(math.log10(value))
    return power


def _thinned(values: list[float]) -> list[float]:
    step = math.ceil(len(values) / _MOST_TICKS)
    return values[::step]


def _ticks(axis: Axis, values: Iterable[float]) -> list[dict[str, Any]]:
    return [{"at": axis.place(value), "text": f"{value:,g}"} for value in values]


def _lines(plot: Plot, across: Axis, up: Axis) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for label, points in plot.lines:
        marks: list[dict[str, Any]] = []
        for x, low, y, high in points:
            mark: dict[str, Any] = {"x": across.place(x), "y": up.place(y)}
            mark |= {"low": up.place(low), "high": up.place(high)}
            mark["text"] = f"{x:,g}, {y:.4g} ({low:.4g} to {high:.4g})"
            marks.append(mark)
        text = " ".join(f"{mark['x']},{mark['y']}" for mark in marks)
        lines.append({"label": label, "points": text, "marks": marks})
    # Labels at the ends of the lines, moved apart where these meet.
    lowest = -math.inf
    for line in sorted(lines, key=lambda line: line["marks"][-1]["y"]):
        line["label_y"] = max(line["marks"][-1]["y"] + 4, lowest + _LINE_HEIGHT)
        lowest = line["label_y"]
    return lines
