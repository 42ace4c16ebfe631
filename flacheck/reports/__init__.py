"""Reports: one file a format, each a function from values to pieces of text; none reads the store."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import cast

from flacheck.errors import UsageError
from flacheck.reports.base import Page, Render, RunView

# A format's module is imported when it is asked for: only the table needs rich.
FORMATS = {
    "table": "table",
    "json": "json_",
    "jsonl": "jsonl",
    "markdown": "markdown",
    "github": "github",
}

__all__ = ["FORMATS", "Page", "RunView", "check", "render"]


def check(name: str) -> None:
    """UsageError unless there is such a format; a scan asks before it starts."""
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}: allowed are {', '.join(FORMATS)}")


def render(name: str, view: RunView, page: Page | None = None) -> Iterator[str]:
    """The view in a format, piece by piece; without a `page` for the terminal that stdout is."""
    check(name)
    module = import_module(f"flacheck.reports.{FORMATS[name]}")
    return cast(Render, module.render)(view, page or Page.of_stdout())
