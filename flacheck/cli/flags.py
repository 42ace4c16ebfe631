"""The options that only the command line has, and all options as Typer's parameters."""

import inspect
from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from flacheck.api.options.declaration import (
    OUTPUT,
    REQUIRED,
    Option,
    declarations,
    path,
    several,
    switch,
)
from flacheck.api.options.declaration import argument as argument
from flacheck.cli import completion

_FORMAT = "Print the report in this format."
_FORMATS = "table|json|jsonl|markdown|github|html|sarif|junit"
_OUTPUT = "Write the report to FILE instead of stdout."
_REPORTS = "Write the report in this format to FILE as well. Repeatable."
_QUIET = "Print only results, warnings and errors: no progress."
_VERBOSE = "Print each cell's verdict, the settings in effect and seconds as well."
_OFFLINE = "Read no package index: use what is installed or in the cache."
_REFRESH = "Read the package index again instead of its listing of today."
_CELL = "A key or its first 8 characters, FILE.jsonl:LINE, or a matrix. Default: search the store."
Cell = Annotated[str | None, argument("CELL", _CELL, None, complete="cells")]
Output = Annotated[Path | None, path("--output -o FILE", _OUTPUT)]
DryRun = Annotated[bool, switch("--dry-run", "List what would be removed; remove nothing.")]


def page_format(values: str) -> Option:
    """Return the option of a report's format."""
    return Option(f"--format {values}", _FORMAT, OUTPUT, "table")


class ShortFormat(TypedDict, total=False):
    """The format of a table."""

    format: Annotated[str, page_format("table|json")]


class ShortReport(ShortFormat, total=False):
    """The format and the file of a table."""

    output: Output


class FullReport(TypedDict, total=False):
    """The formats and the files of a report."""

    format: Annotated[str, page_format(_FORMATS)]
    output: Output
    reports: Annotated[
        list[str],
        several("--report FORMAT=FILE", _REPORTS, OUTPUT, selects=False, complete="formats"),
    ]


class EveryCommand(TypedDict, total=False):
    """The options of every command, which its class applies."""

    offline: Annotated[bool, switch("--offline", _OFFLINE)]
    refresh: Annotated[bool, switch("--refresh", _REFRESH)]
    quiet: Annotated[bool, switch("--quiet -q", _QUIET, OUTPUT)]
    verbose: Annotated[bool, switch("--verbose -v", _VERBOSE, OUTPUT)]


def options_of(options: type) -> dict[str, Option]:
    """Return the declaration of each option of a command by its parameter's name."""
    # `flacheck gate` has a --refresh that does more.
    fields = declarations(options) | {
        name: field
        for name, field in declarations(EveryCommand).items()
        if name not in options.__annotations__
    }
    # Positional arguments stand first in help pages.
    names = sorted(fields, key=lambda name: bool(fields[name][1].flags))
    return {name: fields[name][1] for name in names}


def parameter(name: str, option: Option) -> inspect.Parameter:
    """Return an option as a parameter of which Typer makes a click option or argument."""
    more: dict[str, Any] = {
        "help": option.help,
        "metavar": option.metavar,
        "rich_help_panel": option.panel,
        "autocompletion": completion.of_option(option),
        "min": option.minimum,
    }
    declaration: Any
    if option.flags:
        declaration = typer.Option(*option.flags, show_default=option.shows_default, **more)
    else:
        declaration = typer.Argument(**more)
    default = option.default if option.typed_default is None else option.typed_default
    if option.flags and option.value_type in (list[str], list[Path]):
        default = list(default or ())
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is REQUIRED else default,
        annotation=Annotated[option.value_type, declaration],
    )
