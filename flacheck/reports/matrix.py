"""Kernel × release as tables that fit the page: too many releases become several tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from flacheck.analysis import Grid, Square
from flacheck.analysis.grid import KernelOf, Row
from flacheck.analysis.order import kernel_name, short
from flacheck.reports.wording import is_perfect, square_lines, target_name

GAP = 2
# Above so many kernels, those without anything to say share one line.
ROWS = 12


def blocks(grid: Grid, width: int) -> Iterator[RenderableType]:
    """For each target its tables."""
    for target, kernels in grid.targets.items():
        asked = grid.asked_on(target)
        rows, perfect = _worth_showing(kernels, asked)
        names = min(max(map(len, _names(rows)), default=8), width // 2)
        for toolchains in _fitting(asked, rows, width - names):
            yield _block(target, toolchains, rows, names)
            yield Text("")
        if perfect:
            yield Text(
                f"and {perfect} kernels of which every cell compiles on every release\n",
                style="dim",
            )


def _worth_showing(
    kernels: Mapping[KernelOf, Row], toolchains: Sequence[str]
) -> tuple[Mapping[KernelOf, Row], int]:
    if len(kernels) <= ROWS:
        return kernels, 0
    rest = {kernel: row for kernel, row in kernels.items() if not is_perfect(row, toolchains)}
    return rest, len(kernels) - len(rest)


def _names(rows: Mapping[KernelOf, Row]) -> Iterator[str]:
    for package, kernel in rows:
        yield f"  {kernel_name(kernel)}"
        yield package or ""


def _fitting(
    toolchains: Sequence[str], rows: Mapping[KernelOf, Row], width: int
) -> Iterator[list[str]]:
    """The releases in as few groups as fit beside the names; at least one each."""
    block: list[str] = []
    room = width
    for toolchain in toolchains:
        needed = GAP + _column_width(toolchain, rows)
        if block and needed > room:
            yield block
            block, room = [], width
        block.append(toolchain)
        room -= needed
    if block:
        yield block


def _column_width(toolchain: str, rows: Mapping[KernelOf, Row]) -> int:
    lines = (line for row in rows.values() for line in square_lines(row.get(toolchain)))
    return max(len(short(toolchain)), *map(len, lines), 1)


def _block(
    target: str, toolchains: Sequence[str], rows: Mapping[KernelOf, Row], names: int
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column(target_name(target), width=names, overflow="fold")
    for toolchain in toolchains:
        table.add_column(short(toolchain), no_wrap=True, min_width=_column_width(toolchain, rows))
    last = None
    for (package, kernel), row in rows.items():
        if package and package != last:
            table.add_row(Text(package, style="dim"))
        last = package
        table.add_row(
            Text(_folded(kernel_name(kernel), names)),
            *(_square(row.get(toolchain)) for toolchain in toolchains),
        )
    return table


def _folded(name: str, width: int) -> str:
    """A long name on several lines, broken after its underscores where that is possible."""
    lines = ["  "]
    for part in re.findall(r".[^_.]*[_.]?", name):
        if len(lines[-1] + part) > width and lines[-1].strip():
            lines.append("    ")
        lines[-1] += part
    return "\n".join(lines)


def _square(square: Square | None) -> Text:
    return Text("\n".join(square_lines(square)), style=_style(square))


def _style(square: Square | None) -> str:
    if square is None or not square.asked:
        return "dim"
    if square.blocking:
        return "red"
    return "green" if square.perfect else "yellow"
