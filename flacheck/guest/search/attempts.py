"""Attempts to run a package's code, which may raise, hang or exit without ending the capture."""

import linecache
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TypeVar

T = TypeVar("T")
# Seconds until an attempt that cannot be interrupted now is interrupted again.
_RETRY_SECONDS = 0.005
# Packages whose code runs between an operator of torch and the fake device.
_DISPATCHERS = ("torch", __name__.partition(".")[0])
# Functions that torch's C++ code calls, and that an exception must not end.
_DISPATCHED_FUNCTIONS = ("__torch_dispatch__", "find_torch_dispatch_rule")
_MAX_MESSAGE = 300


class TooLong(BaseException):
    """A piece of code used up its time; no `except Exception` of a package stops this."""


@dataclass(frozen=True)
class CaughtError:
    """The error of an attempt.

    Attributes:
        kind: the name of the exception's class.
        lines: the source lines that the error passed through, innermost last.
        trace: the whole traceback; empty if the attempt does not keep it.
        imports: the file and line of the import that failed, and of the import of its module.
    """

    kind: str
    text: str
    lines: tuple[str, ...]
    trace: str
    imports: tuple[tuple[str, int], ...] = ()

    @property
    def identity(self) -> str:
        """A text that is equal for errors of one line."""
        return " ".join((self.kind, *self.lines[-1:]))

    def brief(self) -> str:
        """Return the error in one short line."""
        message = " ".join(self.text.split())[:_MAX_MESSAGE]
        if not message and self.lines:
            message = self.lines[-1]
        return f"{self.kind}: {message}"


def attempt(
    code: Callable[[], T],
    seconds: float,
    keeps_trace: bool = True,
    max_wait: float = 0.0,
) -> T | CaughtError:
    """Return the result of `code`, or the error that it raised.

    Args:
        code: the piece of code to run.
        seconds: the CPU time that it may take.
        keeps_trace: False to save the milliseconds that the text of a traceback takes.
        max_wait: the seconds in which it must use a hundredth of CPU time; 0 for no limit.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _is_within_torch(frame):
            # torch's C++ code has called Python, and some of it does not survive an exception.
            signal.setitimer(signal.ITIMER_PROF, _RETRY_SECONDS)
            return
        raise TooLong(f"took more than {seconds:g} s")

    used = time.process_time()

    def check_progress(number: int, frame: FrameType | None) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if used - before < max_wait / 100 and not _is_within_torch(frame):
            raise TooLong(f"waited for {max_wait:g} s")

    # CPU time is limited, so that the result does not depend on how busy the machine is.
    previous_handler = signal.signal(signal.SIGPROF, interrupt)
    previous_check = signal.signal(signal.SIGALRM, check_progress)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, max_wait, max_wait)
    try:
        return code()
    except BaseException as error:
        # A module may exit, and pytest skips a test by an exception that is not an Exception.
        trace = ""
        if keeps_trace:
            trace = "".join(traceback.format_exception(error))
        return _caught_error(error, trace)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, previous_handler)
        signal.signal(signal.SIGALRM, previous_check)


def _caught_error(error: BaseException, trace: str) -> CaughtError:
    return CaughtError(
        kind=type(error).__name__,
        text=str(error),
        lines=_source_lines(error.__traceback__),
        trace=trace,
        imports=tuple(_failed_imports(error)),
    )


def _source_lines(trace: TracebackType | None) -> tuple[str, ...]:
    """Return the source lines of a traceback without its first frame, which is `attempt`."""
    lines = []
    for frame, number in traceback.walk_tb(trace):
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
        lines.append(line.strip())
    return tuple(lines[1:])


def _failed_imports(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield the places of the import that failed and of the import of the module that raised."""
    places: list[tuple[str, int]] = []
    importers: list[tuple[str, int]] = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        is_ours = frame.f_globals.get("__package__") == __package__
        if is_ours or frame.f_code.co_filename.startswith("<frozen"):
            continue
        if frame.f_code.co_name == "<module>":
            importers += places[-1:]
        places.append((frame.f_code.co_filename, number))
    if isinstance(error, ImportError):
        yield from places[-1:]
    # The first of them is the import by this package.
    yield from importers[1:][-1:]


def _is_within_torch(frame: FrameType | None) -> bool:
    """Return True if torch's dispatcher called the frame without a package's code in between."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _DISPATCHERS:
            return False
        if frame.f_code.co_name in _DISPATCHED_FUNCTIONS:
            return True
        frame = frame.f_back
    return False
