"""Results for an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flacheck.autotune.examined import TunerResult
from flacheck.autotune.formats import wording
from flacheck.reports.base import Page


def render(kernel: str, results: Sequence[TunerResult], page: Page) -> Iterator[str]:
    """A heading and a table a result."""
    yield f"**{wording.headline(results)}**\n"
    for result in results:
        yield f"\n### {wording.title(result)}\n\n"
        yield from _result(result)


def _result(result: TunerResult) -> Iterator[str]:
    if result.ends:
        yield f"The run ends: {_code(result.ends)}\n\n"
    if result.configs:
        yield f"| {' | '.join(wording.HEADERS)} |\n|{'---|' * len(wording.HEADERS)}\n"
    for place, each in enumerate(result.configs, 1):
        yield f"| {' | '.join(wording.row(place, each))} |\n"
    yield "\n"
    for line, numbers in wording.causes(result):
        yield f"- {wording.places(numbers)}: {_code(line)}\n"
    for fault in result.keys:
        yield f"- **{wording.fault_line(fault)}**\n\n  ```python\n{_block(fault.fix)}  ```\n"
    if result.cost:
        yield f"- {wording.cost_line(result.cost)}\n"
    for note in wording.notes(result):
        yield f"- {note}\n"
    timed = wording.timed(result)
    if timed:
        yield f"\n| {' | '.join(wording.TIMES)} |\n|{'---|' * len(wording.TIMES)}\n"
    for words in timed:
        yield f"| {' | '.join(words)} |\n"
    yield "\n" if timed else ""
    for line in wording.bench_lines(result):
        yield f"- {line}\n"
    for failing, use in wording.instead(result):
        yield f"- instead of `{failing}`: `{use}`\n"


def _block(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _code(text: str) -> str:
    """Code that may hold a backtick, as assertions do."""
    return f"`` {text} ``"
