"""Command lines in help pages and documents, parsed as the program parses them; nothing is run."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from flacheck.cli import app
from flacheck.errors import FlacheckError

COMMAND: Any = typer.main.get_command(app)
_ENDS = ("|", ">", ">>", "&&", ";", "2>")


def words_of(line: str) -> list[str]:
    """The arguments of the last `flacheck` in a shell's line; none without one."""
    words = shlex.split(line, comments=True)
    if "flacheck" not in words:
        return []
    words = words[len(words) - words[::-1].index("flacheck") :]
    ends = [place for place, word in enumerate(words) if word in _ENDS]
    return words[: ends[0]] if ends else words


def parse(words: list[str]) -> str | None:
    """Parse a command's arguments; return what is wrong, None for nothing."""
    from flacheck.api import settings

    try:
        context = COMMAND.make_context("flacheck", list(words))
        while hasattr(context.command, "commands"):
            rest = [*context._protected_args, *context.args]
            if not rest:
                return None
            name, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(name, rest, parent=context)
        for parameter in context.command.params:
            _check(parameter, context.params.get(parameter.name), settings)
    except typer.Exit:
        return None
    except (FlacheckError, typer.BadParameter) as error:
        return getattr(error, "message", None) or str(error)
    except Exception as error:
        # Typer's own classes of errors are not public.
        return getattr(error, "message", None) or repr(error)
    return None


def _check(parameter: Any, value: Any, settings: Any) -> None:
    metavar = parameter.metavar or ""
    choices = metavar.split("|") if metavar.islower() and "|" in metavar else []
    if value and choices:
        assert value in choices, f"{parameter.name} {value}: not among {metavar}"
    # Files and folders of an example do not exist here.
    if value and parameter.name in ("dtype", "target", "timeout", "num_warps", "until"):
        settings.check(parameter.name, value)
