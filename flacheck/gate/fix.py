"""Writing changed pins into their files: each specifier in its place, everything else byte for byte as it was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from flacheck.analysis.known_good import grouped
from flacheck.errors import UsageError
from flacheck.gate.suggest import Change

_MARK = b"\xef\xbb\xbf"


def fix(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Write what can be written and say which changes those are; the others have an obstacle.

    A file is replaced in one step, with its mode, line ends and byte order mark. Raises UsageError when one cannot
    be written, or no longer holds the pin where it was read.
    """
    able = [change for change in changes if change.pin.span]
    for file, mine in grouped((change.pin.file, change) for change in able).items():
        _write(Path(file).resolve(), file, mine)
    return able, [change for change in changes if not change.pin.span]


def _write(path: Path, shown: str, changes: Iterable[Change]) -> None:
    try:
        held = path.read_bytes()
        _replace(path, edited(held, shown, changes))
    except OSError as error:
        raise UsageError(f"{shown}: cannot be written ({error.strerror}); nothing in it was changed") from None


def edited(held: bytes, shown: str, changes: Iterable[Change]) -> bytes:
    """The file's bytes with every changed specifier in its place."""
    mark = _MARK if held.startswith(_MARK) else b""
    text = held.decode("utf-8-sig")
    for change in sorted(changes, key=lambda change: change.pin.span or (0, 0), reverse=True):
        start, end = change.pin.span or (0, 0)
        if text[start:end] != change.pin.written:
            raise UsageError(f"{shown}: was changed while the gate looked at it; run the gate again")
        text = text[:start] + change.to + text[end:]
    return mark + text.encode()


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
