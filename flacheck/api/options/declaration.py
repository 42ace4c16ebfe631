"""The declaration of an option, and the API signatures and docstrings that are made from it."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

# One value or several; a text may hold several, separated by commas.
Several: TypeAlias = str | int | Iterable[str | int]
# A text may hold commas and spaces of its own: `triton>=3.2,<3.5`.
Texts: TypeAlias = str | Iterable[str]
PathLike: TypeAlias = str | Path
STORE = Path(".flacheck")
# The groups of options, in the order in which a help page shows them.
WHAT = "What"
WITH = "With what"
HOW = "How"
OUTPUT = "Output"
PANELS = (WHAT, WITH, HOW, OUTPUT)
REQUIRED = ...
_WIDTH = 92
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """An option or a positional argument of a command, in the annotation of a TypedDict's field.

    The field's type is the one that the API accepts, and its name the API's keyword.

    Attributes:
        usage: The flags and the value's name, `--jobs -j N`; a value's name without flags is a
            positional argument. A name in lower case lists all values: `--format table|json`.
        help: The text in help pages and docstrings.
        panel: The option's group in the help page.
        default: The default of the API, and of the command unless `typed_default` differs.
        kind: The type of a typed value, if the default does not show it.
        complete: The name of a function in `cli.completion` or `api.suggestions`.
        selects: True if a project's settings may hold the option: it selects what is checked and
            does nothing else. A stranger's checkout must not run programs, write files, open
            connections or spend memory.
        is_setting: False if only the command line has the option: no variable, no setting.
        minimum: The smallest number.
        shows_default: False if the help text names the default.
        typed_default: The default that the help page shows for a value that the API computes.
    """

    usage: str
    help: str
    panel: str = WHAT
    default: Any = None
    kind: Any = None
    complete: str | None = None
    selects: bool = False
    is_setting: bool = True
    minimum: int | None = None
    shows_default: bool = True
    typed_default: Any = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags, the long one first; none for a positional argument."""
        # A positional argument may stand behind `--`.
        return tuple(takewhile(re.compile(r"--?\w").match, self._words))

    @property
    def metavar(self) -> str | None:
        """The value's name; None for a switch."""
        return " ".join(self._words[len(self.flags) :]) or None

    @property
    def _words(self) -> list[str]:
        return self.usage.split()

    @property
    def value_type(self) -> Any:
        """The type of the value on the command line."""
        if self.kind is not None:
            return self.kind
        if self.default == ():
            return list[str]
        if isinstance(self.default, (bool, int)):
            return type(self.default)
        return str

    @property
    def choices(self) -> tuple[str, ...]:
        """All values that it takes, where its usage lists them."""
        metavar = (self.metavar or "").strip("[]")
        if not re.fullmatch(r"[a-z]+(\|[a-z]+)+", metavar):
            return ()
        return tuple(metavar.split("|"))

    @property
    def setting(self) -> str | None:
        """The option's name as a setting, `num-warps`; None if it cannot be one."""
        if not self.is_setting:
            return None
        if not self.flags:
            # Scan's own subject, the one positional argument that a setting may hold.
            return self.usage.lower() if self.selects else None
        return self.flags[0].partition("/")[0].removeprefix("--")


def several(usage: str, help: str, panel: str = WHAT, selects: bool = True, **more: Any) -> Option:
    """Return an option that can be repeated."""
    return Option(usage, help, panel, (), selects=selects, **more)


def switch(usage: str, help: str, panel: str = HOW, default: bool = False, **more: Any) -> Option:
    """Return an option that is on or off."""
    return Option(usage, help, panel, default, **more)


def number(
    usage: str, help: str, panel: str, default: int | None, minimum: int | None = 1, **more: Any
) -> Option:
    """Return an option whose value is a whole number."""
    return Option(usage, help, panel, default, kind=int, minimum=minimum, **more)


def path(usage: str, help: str, panel: str = OUTPUT, default: Any = None, **more: Any) -> Option:
    """Return an option whose value is a file or a folder."""
    return Option(usage, help, panel, default, kind=Path, **more)


def argument(usage: str, help: str, default: Any = REQUIRED, **more: Any) -> Option:
    """Return a positional argument; a default makes it optional."""
    return Option(usage, help, WHAT, default, **more)


def declarations(options: type) -> dict[str, tuple[Any, Option]]:
    """Return the type and the declaration of each field of a TypedDict."""
    return {
        name: (hint.__origin__, hint.__metadata__[0])
        for name, hint in options.__annotations__.items()
    }


def takes(options: type) -> Callable[[Function], Function]:
    """Return a decorator for an API function that takes a TypedDict's fields as `**options`.

    It gives the function all options with their defaults. The function's signature lists them, and
    they replace the line of `**options` in its docstring.
    """
    fields = declarations(options)

    def decorate(function: Function) -> Function:
        signature = _with_options(inspect.signature(function), fields)

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            return function(*bound.args, **bound.kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _with_texts(function.__doc__ or "", fields)
        return call  # type: ignore[return-value]

    return decorate


def _with_options(
    signature: inspect.Signature, fields: Mapping[str, tuple[Any, Option]]
) -> inspect.Signature:
    """Return a signature with the options in place of `**options`, before its own keywords."""
    kinds = inspect.Parameter
    own = [each for each in signature.parameters.values() if each.kind is not kinds.VAR_KEYWORD]
    added = []
    for name, (annotation, option) in fields.items():
        default = kinds.empty if option.default is REQUIRED else option.default
        added.append(kinds(name, kinds.KEYWORD_ONLY, default=default, annotation=annotation))
    positional = [each for each in own if each.kind is not kinds.KEYWORD_ONLY]
    keywords = [each for each in own if each.kind is kinds.KEYWORD_ONLY]
    return signature.replace(parameters=[*positional, *added, *keywords])


def _with_texts(docstring: str, fields: Mapping[str, tuple[Any, Option]]) -> str:
    """Return a docstring with the help of each option in place of the line of `**options`."""
    lines = []
    for name, (_, option) in fields.items():
        text = textwrap.wrap(f"{name}: {option.help}", _WIDTH, subsequent_indent="    ")
        lines += [f"        {line}" for line in text]
    return re.sub(r" {8}\*\*options: .*", lambda _: "\n".join(lines), docstring)
