"""Logs as people have them: plain, compressed, in a CI's archive, in a folder, on stdin."""

import codecs
import gzip
import io
import logging
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from flacheck import files
from flacheck.errors import UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 20
# A device may never end.
MOST = 64 << 30
_GZIP, _ZSTANDARD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
# PowerShell redirects output in UTF-16; these bytes begin such a file.
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# The last two are those of zipfile for a member that is encrypted or packed in another way.
_DAMAGE = (
    *(gzip.BadGzipFile, EOFError, zlib.error, zstd.ZstdError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError),
)


def logs(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the logs of a file, an archive or a folder: each one's name and its bytes, in order.

    The bytes of a log must be read before the next log is taken. Raises UsageError for a path that
    cannot be read or an archive that is damaged.
    """
    try:
        if not path.is_dir():
            yield from _logs_of_file(path, str(path))
            return
        for file in sorted(path.rglob("*")):
            if file.is_file() and files.lies_inside(file, path):
                yield from _logs_of_file(file, str(file.relative_to(path)))
    except OSError as error:
        why = f"cannot be read ({error.strerror or error})"
        raise UsageError(f"{path}: {why}; give a code (FC302), a log, or -") from None


def _logs_of_file(path: Path, name: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    with files.open_bytes(path, MOST, links=True) as file:
        start = file.read(4)
        if start != _ZIP or not file.seekable():
            file_chunks = chunks(file, name, start)
            yield name, file_chunks
            return
        yield from _logs_of_archive(file, name)


def _logs_of_archive(file: IO[bytes], name: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    with _refusing_damage(name), zipfile.ZipFile(file) as archive:
        for member in sorted(archive.namelist()):
            if member.endswith("/"):
                continue
            with archive.open(member) as opened:
                yield f"{name}/{member}", chunks(opened, f"{name}/{member}")


@contextmanager
def _refusing_damage(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        message = f"{name}: the archive is damaged ({error}); fetch it again"
        raise UsageError(message) from None


def chunks(file: IO[bytes], name: str, start: bytes = b"") -> Iterator[bytes]:
    """Yield the bytes of a log, decompressed; `start` are bytes that were read already."""
    with _refusing_damage(name):
        start = start or file.read(4)
    stream = io.BufferedReader(_Prefixed(start, file), _CHUNK)
    opened: io.BufferedIOBase = stream
    if start.startswith(_GZIP):
        opened = gzip.GzipFile(fileobj=stream)
    elif start == _ZSTANDARD:
        opened = zstd.ZstdFile(stream)
    total = 0
    decoder: codecs.IncrementalDecoder | None = None
    with _refusing_damage(name):
        while total < MOST and (chunk := opened.read(_CHUNK)):
            if not total and chunk.startswith(_WIDE):
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            total += len(chunk)
            if decoder is not None:
                chunk = decoder.decode(chunk).encode("utf-8", "replace")
            yield chunk
    if total >= MOST:
        _LOG.warning(f"{name}: only the first {MOST >> 30} GB were read; it does not end there")


class _Prefixed(io.RawIOBase):
    """A stream whose first bytes were read before: a pipe cannot be wound back."""

    def __init__(self, start: bytes, file: IO[bytes]) -> None:
        self.start, self.file = start, file

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        if not self.start:
            self.start = self.file.read(len(view))
        part, self.start = self.start[: len(view)], self.start[len(view) :]
        view[: len(part)] = part
        return len(part)

    def readable(self) -> bool:
        return True
