"""How results are rendered: one file a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flacheck.autotune.examined import TunerResult
from flacheck.autotune.formats import json_, markdown, table
from flacheck.errors import UsageError
from flacheck.reports.base import Page

_FORMATS: dict[str, Callable[[str, Sequence[TunerResult], Page], Iterator[str]]] = {
    "table": table.render,
    "json": json_.render,
    "markdown": markdown.render,
}


def check(name: str) -> None:
    """Raises UsageError for a format that results are not rendered in."""
    if name not in _FORMATS:
        raise UsageError(f"--format {name}: allowed are {', '.join(_FORMATS)}")


def render(name: str, kernel: str, results: Sequence[TunerResult], page: Page) -> Iterator[str]:
    """The results for `kernel`, the glob that was asked, in a format."""
    return _FORMATS[name](kernel, results, page)
