"""Output of a report to stdout, a file, or another writable path."""

import errno
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.model.text import visible as visible

_STDOUT = 1
# Entries of these folders are streams that are already open, so they are never replaced.
_OPEN = ("/dev", "/proc")


def write(text: Iterable[str], file: Path | None) -> None:
    """Stream a report to a file or to stdout; a closed pipe is not an error.

    A regular file holds the whole report or its former content. Raises UsageError if the output
    cannot be written.
    """
    if file is None or _is_stdout(file):
        _write_stdout(text)
    elif _is_replaceable(file):
        _replace(text, file)
    else:
        _write_into(text, file)


def _is_stdout(file: Path) -> bool:
    """Return True for `/dev/stdout` and its like: opening them again would empty the output."""
    if not file.is_absolute() or file.parts[1:2] not in [(folder[1:],) for folder in _OPEN]:
        return False
    try:
        return os.path.samestat(file.stat(), os.fstat(_STDOUT))
    except OSError:
        return False


def _is_replaceable(file: Path) -> bool:
    """Return whether the path is a regular file, or does not exist yet."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return True


def _write_stdout(text: Iterable[str]) -> None:
    if sys.stdout is None:
        raise UsageError("stdout is closed; name a file with -o")
    try:
        for part in text:
            sys.stdout.write(part)
        sys.stdout.flush()
    except OSError as error:
        # Python would flush stdout again at exit and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
        # `| head` closes the pipe early, which is fine.
        if error.errno != errno.EPIPE:
            why = f"cannot be written ({error.strerror}); name a file with -o"
            raise UsageError(f"stdout: {why}") from None


def _replace(text: Iterable[str], file: Path) -> None:
    # A link stays, and its target is replaced.
    whole = file.resolve()
    # The partial file lies beside the file, because a rename is atomic only within a file system.
    partial = whole.with_name(f".{whole.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as out:
            out.writelines(text)
        partial.replace(whole)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _unwritten(file, error) from None


def _write_into(text: Iterable[str], file: Path) -> None:
    """Write to a device or a pipe, which must not be replaced."""
    try:
        with file.open("w", encoding="utf-8", errors="backslashreplace") as out:
            out.writelines(text)
    except BrokenPipeError:
        pass
    except OSError as error:
        raise _unwritten(file, error) from None


def _unwritten(file: Path, error: OSError) -> UsageError:
    why = f"cannot be written ({error.strerror}); name another file with -o"
    return UsageError(f"{file}: {why}")
