"""Errors of the machine under an exception: a limit, the disk, the sandbox, a signal from outside.

Such an error is unrelated to the kernel.
"""

from __future__ import annotations

import errno
import signal
import subprocess
from collections.abc import Iterator

# Limits that no handler of an exception mends: they count wherever they stand in a chain.
_LIMITS = {
    *(errno.EFBIG, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM),
    *(errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ETXTBSY),
}
# Signals by which a program reports its own crash; every other one comes from outside of it.
_CRASHES = {
    *(signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP),
}


def host_error(error: BaseException) -> str | None:
    """Return the machine's error that an exception stems from: `ENOSPC`, `SIGXFSZ`; else None."""
    for cause in causes(error):
        name = _own_host_error(cause)
        if name is not None:
            return name
    # A missing file may be handled, and the handler fail for another reason: only an explicit
    # cause counts.
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, OSError) and current.errno is not None:
            return errno.errorcode.get(current.errno, str(current.errno))
        current = current.__cause__
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, even those that the traceback hides."""
    ids: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in ids:
        ids.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _own_host_error(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "ENOMEM"
    if isinstance(error, OSError) and error.errno in _LIMITS:
        return errno.errorcode[error.errno]
    if isinstance(error, subprocess.CalledProcessError) and error.returncode < 0:
        number = -error.returncode
        if number not in _CRASHES:
            return signal.Signals(number).name
    return None
