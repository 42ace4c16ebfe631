"""Commands and groups of commands as Typer runs them, with their help pages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

import flacheck
from flacheck import UsageError
from flacheck.cli import loudness, pages

# Options without a group, such as --help.
_OTHER = "Other"
_SHORT_HELP = "`--help` also prints the variable and the setting of each option."
# Columns of the names of options; a longer name has a line of its own.
_NAMES = 26
# A space at which a line is not broken.
_TIED = "\u00a0"


def _is_short() -> bool:
    """Return True for `-h`, which leaves variables and settings out."""
    return "-h" in sys.argv and "--help" not in sys.argv


def _path_of(context: Any) -> tuple[str, ...]:
    """Return the path of a context's command, without the program's name."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return tuple(names)


def _help_of(parameter: Any, path: tuple[str, ...], text: str) -> str:
    name = pages.setting_name(path, parameter)
    is_option = any(each.startswith("-") for each in parameter.opts)
    if _is_short() or not path or (name is None and not is_option):
        return text
    if name is None:
        source = "command line only"
    else:
        source = f"env: {pages.variable_name(name)}, setting: {name}"
    # Kept together when the text is wrapped.
    tied_source = source.replace(" ", _TIED)
    return f"{text} [{tied_source}]"


def _in_order(groups: dict[str, Any], order: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the groups, those of `order` first."""
    for name in dict.fromkeys((*order, *groups)):
        if groups.get(name):
            yield name, groups[name]


def _bold(heading: str) -> str:
    """Return a heading of a page, bold on a terminal with colours."""
    # Imported here: most commands print no help page.
    from flacheck.reports.document import Display

    if Display.of_stdout().color:
        return typer.style(heading, bold=True)
    return heading


def _write_options(command: Any, context: Any, formatter: Any) -> None:
    path = _path_of(context)
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        row = parameter.get_help_record(context)
        if row is None:
            continue
        name, text = row
        # Typer writes the type behind an argument: `MATRIX <str>`.
        name = re.sub(r" <[^>]+>$", "", name)
        panel = getattr(parameter, "rich_help_panel", None) or _OTHER
        if parameter.name == "help":
            groups.setdefault(panel, []).append((name, text))
        else:
            groups.setdefault(panel, []).append((name, _help_of(parameter, path, text)))
    for panel, rows in _in_order(groups, pages.PANELS):
        with formatter.section(_bold(panel)):
            formatter.write_dl(rows, col_max=_NAMES)
    formatter.buffer = [text.replace(_TIED, " ") for text in formatter.buffer]


def _write_page(command: Any, formatter: Any) -> None:
    page = pages.page_of(command)
    if page.examples:
        formatter.write_paragraph()
        formatter.write(f"{_bold('Examples')}:\n")
        for task, line in page.examples:
            # A command that is copied must not be broken into lines.
            formatter.write(f"  {task}\n    {line}\n")
    if page.exits:
        with formatter.section(_bold("Exit codes")):
            formatter.write_dl([(str(code), text) for code, text in page.all_exits.items()])
    if _is_short():
        formatter.write_paragraph()
        formatter.write_text(_SHORT_HELP)


class HelpCommand(TyperCommand):
    """A command whose help page has groups of options, examples and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, as loud as its options request and with the index that they allow."""
        offline = ctx.params.get("offline", False)
        refresh = ctx.params.get("refresh", False)
        try:
            with (
                loudness.of_command(ctx),
                flacheck.package_index(offline=offline, refresh=refresh),
            ):
                return super().invoke(ctx)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in their groups."""
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples and the exit codes."""
        _write_page(self, formatter)


class HelpGroup(TyperGroup):
    """A group of commands whose help page shows them in groups, in the order of declaration."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands in their groups."""
        _write_options(self, ctx, formatter)
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            heading = panel if isinstance(panel, str) else "Commands"
            groups.setdefault(heading, []).append((name, _first_line(command)))
        for heading, rows in _in_order(groups, pages.COMMAND_PANELS):
            with formatter.section(_bold(heading)):
                formatter.write_dl(rows)


def _first_line(command: Any) -> str:
    """Return the first line of a command's help, uncut."""
    text: str = command.help or ""
    return text.strip().partition("\n")[0]


def group(help: str, **more: Any) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(
        help=help, cls=HelpGroup, no_args_is_help=True, rich_markup_mode=None, **more
    )


def add(
    app: typer.Typer, name: str, function: Callable[..., Any], panel: str | None = None, **more: Any
) -> None:
    """Add a command to a group; `panel` is its group in the help page."""
    app.command(name, cls=HelpCommand, rich_help_panel=panel, context_settings=more)(function)
