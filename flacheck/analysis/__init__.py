"""Analysis: records in, plain values out; nothing here reads, writes or prints."""

from __future__ import annotations

from flacheck.analysis.context import Context, forms_from_json, forms_to_json
from flacheck.analysis.exit_code import Tally, exit_code
from flacheck.analysis.grid import Grid, Square, grid
from flacheck.analysis.slow import mark_slow
from flacheck.analysis.summary import RunView, Summary, summarise

__all__ = [
    "Context",
    "Grid",
    "RunView",
    "Square",
    "Summary",
    "Tally",
    "exit_code",
    "forms_from_json",
    "forms_to_json",
    "grid",
    "mark_slow",
    "summarise",
]
