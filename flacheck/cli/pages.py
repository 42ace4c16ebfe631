"""The parts of help pages: groups, examples, exit codes, names of variables and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# The groups of options, in the order in which a help page shows them.
WHAT = "What"
WITH = "With what"
HOW = "How"
OUTPUT = "Output"
PANELS = (WHAT, WITH, HOW, OUTPUT)
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
        selections: The parameters that a project's settings may hold.
    """

    examples: tuple[tuple[str, str], ...] = ()
    exits: tuple[tuple[int, str], ...] = ()
    selections: frozenset[str] = frozenset()

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


# Arguments that name something stored or installed: a project's setting is not about them.
_COMMAND_LINE_ONLY = {
    # These search the store for one cell: a project's scans do not say where it is.
    "bisect": ("matrix", "package"),
    "repro": ("matrix", "package"),
    # One of several stored reports.
    "report": ("matrix", "package", "op"),
    # FROM and TO name the releases.
    "diff": ("triton",),
    # The releases of a project's scans are not pins of the project.
    "gate": ("triton", "torch", "toolchain"),
    # One release is enough, and the project's setting may list several.
    "dtypes": ("triton",),
}


def setting_name(path: tuple[str, ...], parameter: Any) -> str | None:
    """Return a parameter's name as a setting, `num-warps`; None if only the command line has it.

    `path` is the path of the command, such as `("scan",)`.
    """
    long_names = [each[2:] for each in parameter.opts if each.startswith("--")]
    if (path, parameter.name) == (("scan",), "matrix"):
        long_names = ["matrix"]
    if not long_names or long_names == ["help"]:
        return None
    name = str(long_names[0])
    if name.replace("-", "_") in _COMMAND_LINE_ONLY.get(" ".join(path), ()):
        return None
    return name


def variable_name(setting: str) -> str:
    """Return the variable of a setting: `FLACHECK_NUM_WARPS` for `num-warps`."""
    return VARIABLE_PREFIX + setting.upper().replace("-", "_")


def mark(function: Callable[..., Any], page: Page) -> None:
    """Attach a page to a command's function."""
    function.page = page  # type: ignore[attr-defined]
