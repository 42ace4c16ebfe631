"""Reports: a builder a command makes a document of values, and one format turns it into text."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules

from flacheck.errors import UsageError
from flacheck.reports import formats
from flacheck.reports.document import Display, Report

# Whatever lies in the folder is a format: to add one is to add its file.
FORMATS = tuple(module.name for module in iter_modules(formats.__path__))
# What commands offer whose answer is short.
TABLE_OR_JSON = ("table", "json")


def check(name: str, offered: Sequence[str] = FORMATS) -> None:
    """UsageError unless a command offers the format; it asks before it starts to work."""
    if name not in offered:
        raise UsageError(f"unknown format {name!r}: allowed are {', '.join(offered)}")


def render(name: str, report: Report, display: Display) -> Iterator[str]:
    """The report in a format, piece by piece."""
    # Imported when it is asked for: rich, which only the table needs, takes a while.
    module = import_module(f"{formats.__name__}.{name}")
    pieces: Iterator[str] = module.render(report, display)
    return pieces
