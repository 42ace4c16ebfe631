"""Writing changed pins into their files: each specifier in its place, everything else as it was."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from flacheck.analysis.known_good import group_by_key
from flacheck.capabilities.gate.pins import PinChange
from flacheck.capabilities.gate.sources.pin_files import encoding_of
from flacheck.config import toml
from flacheck.errors import UsageError


def fix(changes: Sequence[PinChange]) -> tuple[list[PinChange], list[PinChange]]:
    """Write what can be written and say which changes those are; the others have an obstacle.

    A file is replaced in one step, with its mode, owner, line ends and byte order mark. Raises
    UsageError when one cannot be written, or no longer holds the pin where it was read.
    """
    able = [change for change in changes if change.pin.span]
    of_file = group_by_key((Path(change.pin.file).resolve(), change) for change in able)
    for path, mine in of_file.items():
        shown = mine[0].pin.file
        try:
            _replace(path, edit_content(path.read_bytes(), shown, mine))
        except UnicodeDecodeError:
            raise _was_changed(shown) from None
        except OSError as error:
            why = f"cannot be written ({error.strerror}); nothing in it was changed"
            raise UsageError(f"{shown}: {why}") from None
    return able, [change for change in changes if not change.pin.span]


def edit_content(content: bytes, shown: str, changes: Sequence[PinChange]) -> bytes:
    """The file's bytes with every changed specifier in its place."""
    codec, mark = encoding_of(content)
    text = content[len(mark) :].decode(codec)
    of_string = group_by_key((change.pin.keys, change) for change in changes if change.pin.keys)
    if not of_string:
        return mark + _spliced(text, changes, shown).encode(codec)
    there = toml.strings(text, shown)
    new = {keys: _spliced(there.get(keys, ""), mine, shown) for keys, mine in of_string.items()}
    return mark + toml.replace_strings(text, new, shown).encode(codec)


def _spliced(text: str, changes: Iterable[PinChange], shown: str) -> str:
    """The text with each change in its span."""
    # By span, for a file that was given under two names has each of its pins twice.
    by_span = {change.pin.span: change for change in changes if change.pin.span}
    # The last one first, so that the offsets of the others stay true.
    for start, end in sorted(by_span, reverse=True):
        change = by_span[start, end]
        if text[start:end] != change.pin.original_text:
            raise _was_changed(shown)
        text = text[:start] + change.to + text[end:]
    return text


def _was_changed(shown: str) -> UsageError:
    return UsageError(f"{shown}: was changed while the gate looked at it; run the gate again")


def _replace(path: Path, content: bytes) -> None:
    # Beside the file, for a rename is one step only within one file system.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        old = path.stat()
        # Who may write the file need not be its owner.
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
        Path(temporary).chmod(old.st_mode & 0o7777)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
