"""Results for a terminal: a table of configurations, then what is wrong, what it costs, and what to
use instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from flacheck.autotune.examined import Fate, TunerResult
from flacheck.autotune.formats import wording
from flacheck.reports.base import Page
from flacheck.reports.drawing import heading, table, text_of

_STYLES = {Fate.RUNS: "green", Fate.SKIPPED: "yellow", Fate.ENDS_RUN: "bold red", None: "yellow"}


def render(kernel: str, results: Sequence[TunerResult], page: Page) -> Iterator[str]:
    """A section a result; each is text for a page of that width."""
    bad = any(result.is_finding for result in results)
    yield text_of(
        [Text(wording.headline(results), style="bold red" if bad else "bold green")], page
    )
    for result in results:
        yield "\n" + text_of(_section(result), page)


def _section(result: TunerResult) -> Iterator[RenderableType]:
    yield heading(wording.title(result))
    if result.ends:
        yield _indented(f"the run ends: {result.ends}", "bold red")
    if result.configs:
        yield _configs(result)
    for line, numbers in wording.causes(result):
        yield _indented(f"{wording.places(numbers)}: {line}", "red")
    yield from _keys(result)
    if result.cost:
        yield _indented(wording.cost_line(result.cost))
        for which, why in wording.droppable(result.cost):
            yield _indented(f"{which}: {why}", "dim")
    for note in wording.notes(result):
        yield _indented(note, "dim")
    yield from _times(result)
    yield from _fallbacks(result)


def _configs(result: TunerResult) -> RenderableType:
    rows = table(*wording.HEADERS)
    for place, each in enumerate(result.configs, 1):
        words = [Text(word) for word in wording.row(place, each)]
        words[wording.FATE].stylize(_STYLES[each.fate])
        rows.add_row(*words)
    return rows


def _times(result: TunerResult) -> Iterator[RenderableType]:
    timed = wording.timed(result)
    if timed:
        rows = table(*wording.TIMES)
        for words in timed:
            rows.add_row(*map(Text, words))
        yield rows
    for line in wording.bench_lines(result):
        yield _indented(line)


def _keys(result: TunerResult) -> Iterable[RenderableType]:
    for fault in result.keys:
        yield _indented(wording.fault_line(fault), "bold red")
        yield Padding(Text(fault.fix), (0, 0, 0, 4))


def _fallbacks(result: TunerResult) -> Iterable[RenderableType]:
    for failing, use in wording.instead(result):
        yield _indented(f"instead of {failing}: {use}", "green")


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, 2))
