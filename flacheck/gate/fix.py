"""Writing changed pins into their files: each specifier in its place, everything else as it was."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from flacheck.analysis.known_good import grouped
from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.gate.sources.text import Encoding
from flacheck.gate.suggest import PinChange


def fix(changes: Sequence[PinChange]) -> tuple[list[PinChange], list[PinChange]]:
    """Write what can be written and say which changes those are; the others have an obstacle.

    A file is replaced in one step, with its mode, owner, line ends and byte order mark. Raises
    UsageError when one cannot be written, or no longer holds the pin where it was read.
    """
    able = [change for change in changes if change.pin.span]
    for path, mine in grouped((Path(change.pin.file).resolve(), change) for change in able).items():
        _write(path, mine[0].pin.file, mine)
    return able, [change for change in changes if not change.pin.span]


def _write(path: Path, shown: str, changes: Sequence[PinChange]) -> None:
    try:
        held = path.read_bytes()
        _replace(path, edited(held, shown, changes))
    except UnicodeDecodeError:
        raise UsageError(_changed(shown)) from None
    except OSError as error:
        raise UsageError(
            f"{shown}: cannot be written ({error.strerror}); nothing in it was changed"
        ) from None


def edited(held: bytes, shown: str, changes: Sequence[PinChange]) -> bytes:
    """The file's bytes with every changed specifier in its place."""
    encoding = Encoding.of(held)
    text = encoding.decode(held)
    strings = grouped((change.pin.keys, change) for change in changes if change.pin.keys)
    if strings:
        there = toml.strings(text, shown)
        wanted = {
            keys: _spliced(there.get(keys, ""), mine, shown) for keys, mine in strings.items()
        }
        return encoding.encode(toml.replaced(text, wanted, shown))
    return encoding.encode(_spliced(text, changes, shown))


def _spliced(text: str, changes: Iterable[PinChange], shown: str) -> str:
    """The text with each change in its span, the last one first, so that the offsets of the others
    stay true.
    """
    # By span, for a file that was given under two names has each of its pins twice.
    by_span = {change.pin.span: change for change in changes if change.pin.span}
    for (start, end), change in sorted(by_span.items(), key=lambda entry: entry[0], reverse=True):
        if text[start:end] != change.pin.written:
            raise UsageError(_changed(shown))
        text = text[:start] + change.to + text[end:]
    return text


def _changed(shown: str) -> str:
    return f"{shown}: was changed while the gate looked at it; run the gate again"


def _replace(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        old = path.stat()
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
        Path(temporary).chmod(old.st_mode & 0o7777)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
