"""How an outcome is shown: one file a format, each a function from the outcome to pieces of text."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from flacheck.gate.result import GateResult

if TYPE_CHECKING:
    from flacheck.reports.base import Page


def render(
    name: str, outcome: GateResult, page: Page, suggest: bool, strict: bool
) -> Iterator[str]:
    """The outcome in a format that `reports.check` knows. `suggest` asks people's formats for the
    changes to make.
    """
    from flacheck.reports import FORMATS

    module = import_module(f"flacheck.gate.formats.{FORMATS[name]}")
    yield from module.render(outcome, page, suggest, strict)
