"""What every report is given, and the page it is written on."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flacheck.analysis import RunView


@dataclass(frozen=True)
class Page:
    """How wide a report for people may be, and whether it may be coloured."""

    width: int = 100
    color: bool = False

    @staticmethod
    def of_stdout() -> Page:
        """The page that stdout offers; `COLUMNS` and `NO_COLOR` hold."""
        return Page(
            shutil.get_terminal_size((100, 24)).columns,
            sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        )


Render = Callable[[RunView, Page], Iterator[str]]
