"""Talk on stderr: messages, the log of flacheck's modules, and how much of both is printed."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flacheck import UsageError
from flacheck.cli import pages

_LOGGER = "flacheck"
# The level of the log without an option, with --quiet and with --verbose.
_LEVELS = {None: logging.INFO, "quiet": logging.WARNING, "verbose": logging.DEBUG}


def say(*messages: str) -> None:
    """Print messages on stderr; stdout is for data."""
    # Without stderr `print` would take stdout. A full stderr does not end the command.
    if sys.stderr is None:
        return
    # Imported here: a command that prints nothing starts faster.
    from flacheck.reports.output import visible

    with contextlib.suppress(OSError):
        for message in messages:
            print(f"flacheck: {visible(message)}", file=sys.stderr, flush=True)


class _Talk(logging.Handler):
    """Prints the log of flacheck's modules: progress as it comes, a warning only once."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._warnings: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            # Files are read again after a scan or a fix.
            if message in self._warnings:
                return
            self._warnings.add(message)
        say(message)


def show_log() -> None:
    """Print on stderr what flacheck's own modules log; logs of other libraries stay out."""
    logger = logging.getLogger(_LOGGER)
    logger.setLevel(_LEVELS[None])
    logger.propagate = False
    logger.handlers = [_Talk()]


def is_quiet() -> bool:
    """Return True with --quiet."""
    return logging.getLogger(_LOGGER).level == _LEVELS["quiet"]


def is_verbose() -> bool:
    """Return True with --verbose."""
    return logging.getLogger(_LOGGER).level == _LEVELS["verbose"]


def progress(*messages: str) -> None:
    """Print messages about progress; --quiet leaves them out."""
    if not is_quiet():
        say(*messages)


def detail(*messages: str) -> None:
    """Print messages that only --verbose prints."""
    if is_verbose():
        say(*messages)


@contextmanager
def of_command(context: Any) -> Iterator[None]:
    """Print as much as the command's --quiet and --verbose request, which leave its parameters.

    Raises:
        UsageError: If the command line holds both.
    """
    typed: list[str] = []
    chosen: list[str] = []
    for name in ("quiet", "verbose"):
        is_on = context.params.pop(name, False)
        if is_on and context.get_parameter_source(name).name == "COMMANDLINE":
            typed.append(name)
        elif is_on:
            chosen.append(name)
    if len(typed) > 1:
        raise UsageError("--quiet and --verbose were given: name one of them")
    # An option comes before a setting.
    level = next(iter([*typed, *chosen]), None)
    logging.getLogger(_LOGGER).setLevel(_LEVELS[level])
    began = time.monotonic()
    detail(*_settings_in_effect(context))
    try:
        yield
    finally:
        detail(f"{context.command_path}: {time.monotonic() - began:.1f} s")
        logging.getLogger(_LOGGER).setLevel(_LEVELS[None])


def _settings_in_effect(context: Any) -> Iterator[str]:
    """Yield each parameter that a variable or a setting holds, with the name of its source."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        value = context.params.get(parameter.name)
        if source is None or source.name != "DEFAULT_MAP" or value is None:
            continue
        name = pages.setting_name((context.info_name,), parameter) or parameter.name
        variable = pages.variable_name(name)
        place = variable if os.environ.get(variable) else "[tool.flacheck]"
        yield f"{name} = {value} ({place})"
