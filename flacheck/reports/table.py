"""The report for a terminal: a matrix at a glance, then what fails and why, and what to do about
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from flacheck.analysis import grid
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import grouped
from flacheck.analysis.order import kernel_name, short, some
from flacheck.model import Verdict
from flacheck.reports.base import Page, RunView
from flacheck.reports.drawing import heading as _heading
from flacheck.reports.drawing import labelled as _labelled
from flacheck.reports.drawing import table as _table
from flacheck.reports.drawing import text_of as _text
from flacheck.reports.matrix import blocks
from flacheck.reports.wording import (
    LEGEND,
    advice,
    by_code,
    counts,
    next_commands,
    reached,
    reasons,
    slow,
    where,
)
from flacheck.rules import RULES

SHOWN = 20
USES = 3


def render(view: RunView, page: Page) -> Iterator[str]:
    """Section after section; each is text for a page of that width."""
    between = ""
    for section in _sections(view, page):
        text = _text(section, page).rstrip("\n")
        if text:
            yield between + text + "\n"
            between = "\n"


def _sections(view: RunView, page: Page) -> Iterator[Iterable[RenderableType]]:
    yield _head(view)
    yield blocks(grid(view.records()), page.width)
    yield [Text(LEGEND, style="dim")]
    yield _failures(view)
    yield _listed("Autotuner faults are reached", reached(view))
    yield _slow(view)
    yield _reasons(view)
    yield _fallbacks(view)
    yield _known_good(view)
    yield [_heading("Next"), *(Text(f"  {command}") for command in next_commands(view))]


def _head(view: RunView) -> Iterator[RenderableType]:
    run = view.run
    about = (
        f"flacheck {run.get('flacheck')}",
        run.get("matrix"),
        run.get("id"),
        f"Python {run.get('python')}",
    )
    yield Text(" · ".join(str(part) for part in about if part), style="dim")
    yield Text(
        counts(view.summary), style="bold red" if view.summary.tally.blocking else "bold green"
    )


def _failures(view: RunView) -> Iterator[RenderableType]:
    if view.summary.by_signature:
        yield _heading("Failures")
    for code, groups in by_code(view.summary.by_signature).items():
        rule = RULES.get(code)
        cells = sum(group.count for group in groups)
        tolerated = all(group.tolerated == group.count for group in groups)
        head = Text.assemble(
            (code, "yellow" if tolerated else "bold red"), f" {rule.title if rule else ''}".rstrip()
        )
        yield head.append(
            f" · {cells} cell{'s' * (cells != 1)}{', tolerated' * tolerated}", style="dim"
        )
        for group in groups[:SHOWN]:
            yield from _signature(group, alone=len(groups) == 1)
        if rule:
            yield _labelled("cause", rule.cause)
            yield _labelled("remedy", rule.remedy)


def _signature(group: SignatureGroup, alone: bool) -> Iterator[RenderableType]:
    yield Padding(Text(group.line or "nothing was said"), (0, 0, 0, 2))
    place = where(group.toolchains, group.targets, group.kernels)
    yield Padding(Text(place if alone else f"{group.count} × {place}", style="dim"), (0, 0, 0, 4))


def _listed(heading: str, lines: Sequence[str]) -> Iterator[RenderableType]:
    if lines:
        yield _heading(heading)
    yield from (Padding(Text(line), (0, 0, 0, 2)) for line in lines)


def _slow(view: RunView) -> Iterator[RenderableType]:
    found = list(slow(view))
    if found:
        yield _heading("Slow compiles (FC921)")
    for said, cell in found[:SHOWN]:
        yield Padding(Text(said), (0, 0, 0, 2))
        yield Padding(Text(cell, style="dim"), (0, 0, 0, 4))
    if len(found) > SHOWN:
        yield Text(f"  and {len(found) - SHOWN} more", style="dim")


def _reasons(view: RunView) -> Iterator[RenderableType]:
    for heading, verdict in (("Unknown", Verdict.UNKNOWN), ("Skipped", Verdict.SKIPPED)):
        found = reasons(view, verdict)
        if found:
            yield _heading(heading)
        for reason in found[:SHOWN]:
            yield Padding(Text(f"{reason.count} × {reason.text}"), (0, 0, 0, 2))
            yield Padding(
                Text(_places(reason.toolchains, reason.targets), style="dim"), (0, 0, 0, 4)
            )
            # A reason that says itself what to do needs no other advice.
            rule = RULES.get(reason.code) if reason.code and ";" not in reason.text else None
            if rule:
                yield _labelled("remedy", rule.remedy)
        if len(found) > SHOWN:
            yield Text(f"  and {len(found) - SHOWN} more reasons", style="dim")


def _fallbacks(view: RunView) -> Iterator[RenderableType]:
    found = advice(view.summary.fallbacks)
    if not found:
        return
    yield _heading("Fallbacks")
    table = _table("failing", "use instead, nearest first")
    table.columns[0].ratio = table.columns[1].ratio = 1
    for entry in found[:SHOWN]:
        left = Text(
            "\n".join([kernel_name(entry.kernel), *some(list(filter(None, entry.failing)), USES)])
        )
        left.append(f"\n{_places(entry.toolchains, entry.targets)}", style="dim")
        table.add_row(left, Text("\n".join(entry.uses[:USES]), style="green"))
    yield Padding(table, (0, 0, 0, 2))
    if len(found) > SHOWN:
        yield Text(f"  and {len(found) - SHOWN} more: --format json has all of them", style="dim")


def _known_good(view: RunView) -> Iterator[RenderableType]:
    yield _heading("Known good")
    if not view.summary.known_good:
        yield Text(
            "  no release: each has a failure, or a cell that was not compiled to its end, on every target"
        )
        return
    table = _table("Triton", "torch", "targets", "cells")
    for release in view.summary.known_good:
        row = (
            release.triton,
            ", ".join(release.torch) or "–",
            ", ".join(release.targets),
            str(release.cells),
        )
        table.add_row(*map(Text, row))
    yield Padding(table, (0, 0, 0, 2))
    for release in view.summary.known_good:
        for said in dict.fromkeys(release.advisories):
            yield Padding(
                Text(f"{release.triton} compiles, but {said}", style="yellow"), (0, 0, 0, 2)
            )
    for pins, targets in grouped(
        ((pin.triton, pin.torch), pin.target) for pin in view.summary.specifiers
    ).items():
        yield Text(f"  pin for {', '.join(targets)}")
        yield from (
            Text(f'    "{requirement}"', style="green") for requirement in pins if requirement
        )


def _places(toolchains: Sequence[str], targets: Sequence[str]) -> str:
    return f"{', '.join(map(short, toolchains))} · {', '.join(targets)}"
