"""Reports: each command builds a document of values, and a format turns it into text.

They read neither store nor toolchain, and decide no standing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from flacheck.errors import UsageError
from flacheck.reports import formats

if TYPE_CHECKING:
    from flacheck.reports.document import Display, Report

# Each module in the folder is a format.
FORMATS = tuple(module.name for module in iter_modules(formats.__path__))


def check(name: str, formats_of_command: Sequence[str] = FORMATS) -> None:
    """Raise UsageError if a command does not offer the format."""
    if name not in formats_of_command:
        raise UsageError(f"unknown format {name!r}: allowed are {', '.join(formats_of_command)}")


def render(name: str, report: Report, display: Display) -> Iterator[str]:
    """Yield the report in a format, piece by piece."""
    # The import is late, because only the table needs rich, which takes long to import.
    module = import_module(f"{formats.__name__}.{name}")
    pieces: Iterator[str] = module.render(report, display)
    return pieces
