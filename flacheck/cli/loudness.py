"""Talk on stderr: messages, the log of flacheck's modules, and how much of both is printed."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flacheck import UsageError
from flacheck.cli import pages

_LOGGER = "flacheck"
# Seconds without a message after which a command prints its present step, and between two checks.
SILENCE = 10.0
TICK = 0.5
# To the start of the line, and remove what stands there.
_CLEAR_LINE = "\r\x1b[K"
# `capture` runs a program that prints for itself, and `explain -` waits for its reader.
_WITHOUT_HEARTBEAT = ("capture", "explain", "help")
# The level of the log without an option, with --quiet and with --verbose.
_LEVELS = {None: logging.INFO, "quiet": logging.WARNING, "verbose": logging.DEBUG}


def say(*messages: str) -> None:
    """Print messages on stderr; stdout is for data."""
    # Without stderr `print` would take stdout. A full stderr does not end the command.
    if sys.stderr is None:
        return
    # Imported here: a command that prints nothing starts faster.
    from flacheck.reports.output import visible

    with _TALK.lock, contextlib.suppress(OSError):
        for message in messages:
            text = f"{_TALK.clear_line()}flacheck: {visible(message)}"
            print(text, file=sys.stderr, flush=True)
            _TALK.note(message)


def show_step(message: str) -> None:
    """Print a message that the next one replaces; on a terminal that cannot, as a line."""
    if not moves_cursor():
        say(message)
        return
    from flacheck.reports.output import visible

    with _TALK.lock, contextlib.suppress(OSError):
        text = f"{_TALK.clear_line()}flacheck: {visible(message)}"
        width = shutil.get_terminal_size((80, 24)).columns
        print(text[: width + len(_CLEAR_LINE) - 1], end="", file=sys.stderr, flush=True)
        _TALK.note(message)
        _TALK.has_open_line = True


def end_step() -> None:
    """Leave the line of the last step as it is."""
    with _TALK.lock, contextlib.suppress(OSError):
        if _TALK.has_open_line:
            print(file=sys.stderr)
            _TALK.has_open_line = False


def moves_cursor() -> bool:
    """Return True for a terminal that can move its cursor."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class _Spoken:
    """The last message on stderr, its time, and whether its line may be replaced."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.message = ""
        self.at = time.monotonic()
        self.has_open_line = False

    def clear_line(self) -> str:
        """Return what removes an open line."""
        if not self.has_open_line:
            return ""
        self.has_open_line = False
        return _CLEAR_LINE

    def note(self, message: str) -> None:
        self.message = message
        self.at = time.monotonic()


_TALK = _Spoken()
# What a command does before its first message.
_FIRST_STEPS = {
    "check": "reading metadata and published results",
    "known": "reading published results",
    "gate": "reading pins, records and published results",
    "diff": "reading the results of both sides",
    "scan": "reading what to compile",
    "autotune": "reading what to compile",
    "bisect": "finding the cell and its releases",
    "repro": "compiling the failing cell",
    "capture": "starting the program",
    "dtypes": "importing the modules",
}


class Heartbeat:
    """A thread that prints the present step when nothing was printed for some seconds.

    `describe` returns a line about the work; without one the last message is repeated with the
    seconds since the start. `pause` holds while something else draws on the terminal.
    """

    describe: Callable[[], str | None] = staticmethod(lambda: None)
    is_paused = False

    def __init__(self, command: str) -> None:
        self._command = command
        self._began = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Heartbeat:
        _TALK.note("")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(TICK):
            is_silent = time.monotonic() - _TALK.at >= SILENCE
            if is_silent and not Heartbeat.is_paused and not self._end.is_set():
                self._beat()

    def _beat(self) -> None:
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        line = Heartbeat.describe()
        last = _TALK.message
        if line is None:
            step = _FIRST_STEPS.get(self._command.rpartition(" ")[2], "reading stored results")
            line = f"{self._command}, {elapsed}: {last or step}"
        show_step(line)
        # The next line repeats the message, not this line.
        _TALK.message = last


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
        if getattr(record, "is_step", False):
            show_step(message)
        else:
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
    beat: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if level != "quiet" and context.info_name not in _WITHOUT_HEARTBEAT:
        beat = Heartbeat(context.command_path)
    try:
        with beat:
            yield
    finally:
        end_step()
        detail(f"{context.command_path}: {time.monotonic() - began:.1f} s")
        logging.getLogger(_LOGGER).setLevel(_LEVELS[None])


def _settings_in_effect(context: Any) -> Iterator[str]:
    """Yield each parameter that a variable or a setting holds, with the name of its source."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        value = context.params.get(parameter.name)
        if source is None or source.name != "DEFAULT_MAP" or value is None:
            continue
        # The type of several values depends on Typer's release.
        if isinstance(value, tuple):
            value = list(value)
        name = pages.setting_name(context.command, parameter) or parameter.name
        yield f"{name} = {value} ({_place_of(name)})"


def _place_of(setting: str) -> str:
    """Return the source of a setting in effect."""
    variable = pages.variable_name(setting)
    if os.environ.get(variable):
        return variable
    # Imported here: a help page starts faster.
    from flacheck.api import settings

    user = settings.read_user()
    if {setting, setting.replace("-", "_")} & user.values.keys():
        return str(user.file)
    return "[tool.flacheck]"
