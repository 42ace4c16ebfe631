"""Changed specifiers written into their files; every other byte stays."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from flacheck import files
from flacheck.capabilities.gate.pins import PinChange
from flacheck.capabilities.gate.sources.pin_files import encoding_of
from flacheck.errors import UsageError
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.tables.settings import toml


def fix(changes: Sequence[PinChange]) -> tuple[list[PinChange], list[PinChange]]:
    """Write the changes that can be written; return those, and those that have an obstacle.

    Each file is replaced in one step, with its mode, owner, line ends and byte order mark.

    Raises:
        UsageError: If a file cannot be written, or the pin is no longer where it was read.
    """
    writable = []
    with_obstacle = []
    for change in changes:
        if change.pin.span:
            writable.append(change)
        else:
            with_obstacle.append(change)
    by_file = group_by_key((Path(change.pin.file).resolve(), change) for change in writable)
    for path, own_changes in by_file.items():
        name = own_changes[0].pin.file
        try:
            _replace(path, edit_content(files.read_bytes(path), name, own_changes))
        except UnicodeDecodeError:
            raise _was_changed(name) from None
        except OSError as error:
            why = f"cannot be written ({error.strerror}); nothing in it was changed"
            raise UsageError(f"{name}: {why}") from None
    return writable, with_obstacle


def edit_content(content: bytes, name: str, changes: Sequence[PinChange]) -> bytes:
    """Return a file's bytes with every changed specifier; `name` is the file in messages."""
    codec, mark = encoding_of(content)
    text = content[len(mark) :].decode(codec)
    by_string = group_by_key((change.pin.keys, change) for change in changes if change.pin.keys)
    if not by_string:
        return mark + _splice(text, changes, name).encode(codec)
    strings = toml.strings(text, name)
    new_strings = {}
    for keys, own_changes in by_string.items():
        new_strings[keys] = _splice(strings.get(keys, ""), own_changes, name)
    return mark + toml.replace_strings(text, new_strings, name).encode(codec)


def _splice(text: str, changes: Iterable[PinChange], name: str) -> str:
    """Return the text with each change in its span."""
    # A file that is named twice has each of its pins twice, with one span.
    by_span = {change.pin.span: change for change in changes if change.pin.span}
    # From the last span to the first, so that the offsets of the others stay valid.
    for start, end in sorted(by_span, reverse=True):
        change = by_span[start, end]
        if text[start:end] != change.pin.original_text:
            raise _was_changed(name)
        text = text[:start] + change.to + text[end:]
    return text


def _was_changed(name: str) -> UsageError:
    return UsageError(f"{name}: was changed while the gate read it; run the gate again")


def _replace(path: Path, content: bytes) -> None:
    # In the same folder, because a rename is atomic only within one file system.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        old = path.stat()
        # A user who may write the file need not be its owner.
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
        Path(temporary).chmod(old.st_mode & 0o7777)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
