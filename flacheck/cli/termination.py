"""SIGTERM and Ctrl-C end a command through an exception, so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from flacheck import Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` at SIGTERM and `KeyboardInterrupt` at SIGINT within the context.

    The previous handlers are restored at its end.
    """
    if threading.current_thread() is not threading.main_thread():
        # Python allows signal handlers in the main thread only.
        yield
        return
    at_interrupt = signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        # A shell starts what it puts into the background with Ctrl-C ignored.
        if at_interrupt is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if at_interrupt is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, at_interrupt)


def _terminate(*_: object) -> None:
    raise Terminated
