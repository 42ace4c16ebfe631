"""A file of captures that travels with the shards of a scan, so that all ask for the same cells.

The first shard writes it, the others read it. It is a zip of the captures' folders as the cache has
them.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.toolchains.scratch import temporary_folder

# All that such a file may hold; nothing else is unpacked.
_MEMBER = re.compile(r"[\w.+-]+/(launches\.jsonl|report\.json)")
# What a capture's launches may come to: those of the largest package seen take 30 MB.
_MOST_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Captures:
    """A folder of captures. `file` is where they came from, None while they are still made."""

    folder: Path
    file: Path | None = None


@contextmanager
def open_archive(file: Path | None) -> Iterator[Captures | None]:
    """The captures that a file holds. One that does not exist is written at the end; without a file
    there is nothing that travels."""
    if file is None:
        yield None
        return
    with temporary_folder() as name:
        folder = Path(name)
        if file.exists():
            _unpack(file, folder)
            yield Captures(folder, file)
        else:
            yield Captures(folder)
            _pack(folder, file)


def _unpack(file: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            strange = [member for member in members if not _MEMBER.fullmatch(member.filename)]
            if strange or sum(member.file_size for member in members) > _MOST_BYTES:
                raise UsageError(f"{file}: this is no file that --captured wrote")
            packed.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{file}: cannot be read as captures ({error})") from None


def _pack(folder: Path, file: Path) -> None:
    # Beside the file, for a rename is one step only within one file system.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as packed:
            for held in sorted(folder.glob("*/*")):
                packed.write(held, held.relative_to(folder))
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None
