"""Commands and groups of commands as Typer runs them, with their help pages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
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


def _help_of(command: Any, parameter: Any, text: str) -> str:
    name = pages.setting_name(command, parameter)
    is_option = any(each.startswith("-") for each in parameter.opts)
    if _is_short() or not pages.page_of(command).options or (name is None and not is_option):
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
    from flacheck.reports.display import Display

    if Display.of_stdout().color:
        return typer.style(heading, bold=True)
    return heading


def _write_options(command: Any, context: Any, formatter: Any) -> None:
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
            groups.setdefault(panel, []).append((name, _help_of(command, parameter, text)))
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
        for name, panel, summary in self.rows():
            groups.setdefault(panel, []).append((name, summary))
        for heading, rows in _in_order(groups, pages.COMMAND_PANELS):
            with formatter.section(_bold(heading)):
                formatter.write_dl(rows)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the group in the help page and the summary of each command."""
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            heading = panel if isinstance(panel, str) else "Commands"
            yield name, heading, first_line(command)


@dataclass(frozen=True)
class CommandPlace:
    """The module of a command, or of a group of commands, and its row in the help page.

    Attributes:
        panel: The group of commands in which the help page shows it.
        summary: The first line of its own help page.
        module: Its name in `flacheck.cli`, by default the command's.
        function: The name of its function, by default the command's, or of the group's
            `typer.Typer`.
        settings: Typer's settings of the command's context.
    """

    panel: str
    summary: str
    module: str = ""
    function: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """Return the command or group, whose module is imported now."""
        module = import_module(f"flacheck.cli.{self.module or name}")
        thing = getattr(module, self.function or name)
        if not isinstance(thing, typer.Typer):
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            add(app, name, thing, **self.settings)
            return typer.main.get_command(app)
        command = typer.main.get_group(thing)
        command.name = name
        return command


class _LateCommands(dict[str, Any]):
    """Commands by name, each imported at its first use."""

    def __init__(self, places: Mapping[str, CommandPlace]) -> None:
        super().__init__(dict.fromkeys(places))
        self._places = places

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            command = self[name] = self._places[name].load(name)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        """Return the command of that name."""
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        """Return each name with its command: all modules are imported."""
        return {name: self[name] for name in self}.items()

    def values(self) -> Any:
        """Return all commands."""
        return dict(self.items()).values()


def late_group(places: Mapping[str, CommandPlace]) -> type[HelpGroup]:
    """Return the class of a group that imports a command when it is needed."""

    class LateGroup(HelpGroup):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.commands = _LateCommands(places)

        def rows(self) -> Iterator[tuple[str, str, str]]:
            for name, place in places.items():
                yield name, place.panel, place.summary

    return LateGroup


def first_line(command: Any) -> str:
    """Return the first line of a command's help, uncut."""
    text: str = command.help or ""
    return text.strip().partition("\n")[0]


def group(help: str, cls: type[HelpGroup] = HelpGroup, **more: Any) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(help=help, cls=cls, no_args_is_help=True, rich_markup_mode=None, **more)


def group_of(
    help: str, functions: Mapping[str, Callable[..., Any]], default: str | None = None
) -> typer.Typer:
    """Return a group of commands by their names; the default one runs without a name."""
    app = typer.Typer(
        help=help,
        cls=HelpGroup,
        no_args_is_help=default is None,
        invoke_without_command=default is not None,
        rich_markup_mode=None,
    )
    for name, function in functions.items():
        add(app, name, function)

    def run_default(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            functions[str(default)](context)

    if default is not None:
        app.callback(help=help)(run_default)
    return app


def add(app: typer.Typer, name: str, function: Callable[..., Any], **more: Any) -> None:
    """Add a command to a group."""
    app.command(name, cls=HelpCommand, context_settings=more)(function)
