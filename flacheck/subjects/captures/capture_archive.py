"""A file of captures for the shards of a scan, so that all have the same cells.

The first shard writes it, the others read it. It is a zip of the captures' folders in the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flacheck import files
from flacheck.errors import UsageError
from flacheck.files import UnusableFile
from flacheck.toolchains.scratch import temporary_folder

# The files of a capture that go into an archive.
LAUNCHES, REPORT = "launches.jsonl", "report.json"
# The members of such a file; nothing else is unpacked.
_MEMBER = re.compile(r"[\w.+-]+/(launches\.jsonl|report\.json)")
# The size of a capture's launches. Those of the largest known package take 30 MB.
_MOST_BYTES = 1_000_000_000
# Errors of a damaged or an encrypted archive.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Captures:
    """A folder of captures. `file` is their archive, None while captures are being added."""

    folder: Path
    file: Path | None = None


@contextmanager
def open_archive(file: Path | None) -> Iterator[Captures | None]:
    """Open the captures of a file; a file that does not exist is written at the end.

    Without a file, yield None.
    """
    if file is None:
        yield None
        return
    with temporary_folder() as name:
        folder = Path(name)
        if not file.absolute().parent.is_dir():
            # Before the captures, which take minutes.
            raise UsageError(f"{file}: the folder {file.absolute().parent} is not there: make it")
        if file.exists():
            _unpack(file, folder)
            yield Captures(folder, file)
        else:
            yield Captures(folder)
            _pack(folder, file)


def _unpack(file: Path, folder: Path) -> None:
    try:
        with files.open_bytes(file, _MOST_BYTES) as packed, zipfile.ZipFile(packed) as archive:
            size = 0
            is_ours = True
            for member in archive.infolist():
                size += member.file_size
                if not _MEMBER.fullmatch(member.filename):
                    is_ours = False
            if not is_ours or size > _MOST_BYTES:
                raise UsageError(f"{file}: this file was not written by --captured")
            archive.extractall(folder)
    except UnusableFile:
        raise
    except (*_DAMAGE, OSError) as error:
        raise UsageError(f"{file}: cannot be read as captures ({error})") from None


def add(archive: Captures, folder: Path) -> None:
    """Add a capture's folder to an archive that is being made."""
    into = archive.folder / folder.name
    into.mkdir(exist_ok=True)
    for name in (LAUNCHES, REPORT):
        shutil.copyfile(folder / name, into / name)


def _pack(folder: Path, file: Path) -> None:
    # In the same folder, because a rename is atomic only within one file system.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in sorted(folder.glob("*/*")):
                archive.write(member, member.relative_to(folder))
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None
