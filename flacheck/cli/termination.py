"""SIGTERM and Ctrl-C end a command through an exception, so that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from flacheck import Terminated


def _terminate(*_: object) -> None:
    raise Terminated


_HANDLERS: dict[signal.Signals, Callable[..., object]] = {
    signal.SIGTERM: _terminate,
    signal.SIGINT: signal.default_int_handler,
}


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` at SIGTERM and `KeyboardInterrupt` at SIGINT within the context.

    The previous handlers are restored at its end. A signal that is ignored stays ignored: a shell
    starts a background job so, and its user expects Ctrl-C to reach other programs only.
    """
    before = {}
    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is threading.main_thread():
        for number, handler in _HANDLERS.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, earlier_handler in before.items():
            signal.signal(number, earlier_handler)
