"""The report for an issue or a pull request: GitHub's Markdown, details folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.analysis import Grid, Square, grid
from flacheck.analysis.grid import KernelOf, Row
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.order import kernel_name, short, some
from flacheck.model import Verdict
from flacheck.reports.base import Page, RunView
from flacheck.reports.wording import (
    LEGEND,
    Advice,
    advice,
    by_code,
    counts,
    is_perfect,
    next_commands,
    reasons,
    slow,
    square_lines,
    target_name,
    title_of,
    where,
)
from flacheck.rules import RULES

# GitHub takes 65,536 characters in an issue; a run of any size stays well below.
SHOWN = 20
ROWS = 60


def render(view: RunView, page: Page) -> Iterator[str]:
    """Section after section."""
    run = view.run
    yield f"## flacheck: {run.get('matrix') or 'run'}\n\n{counts(view.summary)}.\n"
    yield from _known_good(view)
    yield from _matrix(grid(view.records()))
    yield from _failures(view)
    yield from _fallbacks(view)
    yield from _slow(view)
    yield from _reasons(view)
    about = f"flacheck {run.get('flacheck')}, Python {run.get('python')}, {run.get('platform')}"
    yield f"\nRun `{run.get('id')}` of {run.get('started')}: {about}. Next: `{next_commands(view)[0]}`\n"


def _known_good(view: RunView) -> Iterator[str]:
    yield "\n### Known good\n\n"
    if not view.summary.known_good:
        yield "No release: each has a failure, or a cell that was not compiled to its end, on every target.\n"
        return
    rows = [
        [g.triton, ", ".join(g.torch) or "–", ", ".join(g.targets), str(g.cells)]
        for g in view.summary.known_good
    ]
    yield from _table(["Triton", "torch", "targets", "cells"], rows)
    for pin in view.summary.specifiers:
        yield f"\nFor {pin.target} pin {' and '.join(f'`{name}`' for name in (pin.triton, pin.torch) if name)}.\n"


def _matrix(made: Grid) -> Iterator[str]:
    for target, kernels in made.targets.items():
        toolchains = made.asked_on(target)
        imperfect = {
            kernel: row for kernel, row in kernels.items() if not is_perfect(row, toolchains)
        }
        shown = dict(list(imperfect.items())[:ROWS])
        yield f"\n### {target_name(target)}\n\n"
        rows = [[_kernel(kernel), *_squares(row, toolchains)] for kernel, row in shown.items()]
        if rows:
            yield from _table(["kernel", *map(short, toolchains)], rows)
        if len(imperfect) > len(shown):
            yield f"\n{len(imperfect) - len(shown)} more kernels with something to say are left out here.\n"
        if len(kernels) > len(imperfect):
            yield f"\nEvery cell of {len(kernels) - len(imperfect)} kernels compiles on every release.\n"
    yield f"\n<sub>{LEGEND}</sub>\n"


def _kernel(kernel: KernelOf) -> str:
    package, name = kernel
    return f"`{kernel_name(name)}`" + (f" <sub>{package}</sub>" if package else "")


def _squares(row: Row, toolchains: Sequence[str]) -> Iterator[str]:
    for toolchain in toolchains:
        square: Square | None = row.get(toolchain)
        text = " ".join(square_lines(square))
        yield f"**{text}**" if square and square.blocking else text


def _failures(view: RunView) -> Iterator[str]:
    if view.summary.by_signature:
        yield "\n### Failures\n"
    for code, groups in by_code(view.summary.by_signature).items():
        title = " ".join(filter(None, (f"**{code}**", title_of(view, code))))
        yield f"\n{title}\n\n"
        for group in groups[:SHOWN]:
            yield from _signature(group)
        rule = RULES.get(code)
        if rule:
            yield f"\n<details><summary>cause and remedy</summary>\n\n{rule.cause}\n\n{rule.remedy}\n\n</details>\n"


def _signature(group: SignatureGroup) -> Iterator[str]:
    fence = "`" * (3 if "```" not in group.line else 8)
    yield f"- {group.count} × {where(group.toolchains, group.targets, group.kernels)}\n"
    yield f"  {fence}text\n  {group.line or 'nothing was said'}\n  {fence}\n"


def _fallbacks(view: RunView) -> Iterator[str]:
    found = advice(view.summary.fallbacks)
    if not found:
        return
    yield "\n### Fallbacks\n\n"
    rows = [_advice(entry) for entry in found[:SHOWN]]
    yield from _table(["kernel", "failing", "Triton", "target", "use instead, nearest first"], rows)
    if len(found) > SHOWN:
        yield f"\nand {len(found) - SHOWN} more.\n"


def _advice(entry: Advice) -> list[str]:
    places = ", ".join(map(short, entry.toolchains)), ", ".join(entry.targets)
    return [
        f"`{kernel_name(entry.kernel)}`",
        "<br>".join(some(entry.failing, 3)),
        *places,
        _uses(entry.uses),
    ]


def _uses(uses: Sequence[str]) -> str:
    return "<br>".join(f"`{use}`" for use in uses[:3])


def _slow(view: RunView) -> Iterator[str]:
    found = list(slow(view))
    if found:
        yield "\n### Slow compiles (FC921)\n\n"
    for line in some([f"{said}: {_plain(cell)}" for said, cell in found], SHOWN):
        yield f"- {line}\n"


def _reasons(view: RunView) -> Iterator[str]:
    for heading, verdict in (("Unknown", Verdict.UNKNOWN), ("Skipped", Verdict.SKIPPED)):
        found = reasons(view, verdict)
        if found:
            yield f"\n### {heading}\n\n"
        for reason in found[:SHOWN]:
            places = f"{', '.join(map(short, reason.toolchains))} · {', '.join(reason.targets)}"
            yield f"- {reason.count} × {_plain(reason.text)} ({places})\n"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (headers, ["---"] * len(headers), *rows):
        yield "| " + " | ".join(_plain(cell) for cell in row) + " |\n"


def _plain(text: str) -> str:
    """Text that cannot end its cell or its line."""
    return text.replace("|", "\\|").replace("\r", " ").replace("\n", " ")
