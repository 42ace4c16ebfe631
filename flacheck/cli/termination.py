"""SIGTERM ends a command as Ctrl-C does, so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from flacheck import Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Within it SIGTERM raises `Terminated`; the handler that was there comes back after it."""
    if threading.current_thread() is not threading.main_thread():
        # Python lets no other thread have a say in signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: object) -> None:
    raise Terminated
