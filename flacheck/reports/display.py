"""The terminal or the file that shows a report."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Display:
    """The width of a report for people in columns, and if it may have colours and links."""

    width: int = 100
    color: bool = False
    links: bool = False

    @staticmethod
    def of_stdout() -> Display:
        """Return the display of stdout.

        `COLUMNS`, `NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are applied, in this order of strength.
        """
        width = shutil.get_terminal_size((100, 24)).columns
        # stdout is None if the shell closed it.
        has_color = sys.stdout is not None and sys.stdout.isatty()
        if os.environ.get("TERM") == "dumb":
            has_color = False
        # Only a terminal opens links; a coloured log would hold their escapes as text.
        links = has_color
        if os.environ.get("FORCE_COLOR"):
            has_color = True
        is_colorful = has_color and not os.environ.get("NO_COLOR")
        return Display(width, is_colorful, links and is_colorful)


def forgive_encodings() -> None:
    """Show escapes in place of characters that the encoding of a terminal or file lacks."""
    for stream in (sys.stdout, sys.stderr):
        # A stream is None if the shell closed it.
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
