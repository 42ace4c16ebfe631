"""The parts of help pages: groups, examples, exit codes, names of variables and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flacheck.api.options.declaration import PANELS as PANELS
from flacheck.api.options.declaration import Option

# The groups of commands in `flacheck --help`.
ASK = "Questions"
TRACE = "From a failure to its cause"
KEEP = "Stored results"
MACHINE = "This machine"
COMMAND_PANELS = (ASK, TRACE, KEEP, MACHINE)
# The exit codes that every command has.
COMMON_EXITS = {
    2: "a wrong option, setting, variable or file",
    70: "a fault in flacheck itself",
    130: "interrupted",
}
VARIABLE_PREFIX = "FLACHECK_"


@dataclass(frozen=True)
class Page:
    """The part of a command's help page that its parameters do not show.

    Attributes:
        examples: Pairs of a question or a task and the command line that answers it.
        exits: The exit codes of this command, beside those of every command.
        options: The declaration of each option and argument by its parameter's name.
    """

    examples: tuple[tuple[str, str], ...] = ()
    exits: tuple[tuple[int, str], ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def all_exits(self) -> dict[int, str]:
        """Every exit code of the command with its meaning, in order."""
        return dict(sorted({**COMMON_EXITS, **dict(self.exits)}.items()))


def page_of(command: Any) -> Page:
    """Return the page of a command; an empty one for a group."""
    page = getattr(getattr(command, "callback", None), "page", None)
    if isinstance(page, Page):
        return page
    return Page()


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each command: `("toolchain", "install")`; no groups."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def setting_name(command: Any, parameter: Any) -> str | None:
    """Return a parameter's name as a setting, `num-warps`; None if only the command line has it."""
    option = page_of(command).options.get(parameter.name)
    return None if option is None else option.setting


def variable_name(setting: str) -> str:
    """Return the variable of a setting: `FLACHECK_NUM_WARPS` for `num-warps`."""
    return VARIABLE_PREFIX + setting.upper().replace("-", "_")


def mark(function: Callable[..., Any], page: Page) -> None:
    """Attach a page to a command's function."""
    function.page = page  # type: ignore[attr-defined]
