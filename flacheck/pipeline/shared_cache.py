"""The shared result cache: records by cell key in a folder, an S3-compatible bucket or behind HTTP.

`--cache-from` is read before anything is compiled, `--cache-to` receives the new verdicts. Each
entry is a file of its own. An entry from elsewhere is checked like any stored row, and names the
cell that it answers; a bad one is compiled here instead.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flacheck.errors import StoreError, UsageError
from flacheck.model import Cell, Record, Verdict, canonical, digest
from flacheck.store import form

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_LOG = logging.getLogger(__name__)

SCHEMA = "flacheck.shared-record/1"
INSTALL = "pip install 'flacheck[cache]'"
# Entries that are read or written at once; S3 and HTTP transfer them concurrently.
_BATCH = 256
# Bytes of an entry. The longest records so far take 20 kB.
_MOST_BYTES = 1 << 20
# Verdicts that hold on every machine; an unknown or skipped cell may not be one elsewhere.
_SHARED_VERDICTS = (Verdict.COMPILES, Verdict.FAILS)
# The path that errors about a store's rows name; here the entry's key suffices.
_NO_FILE = Path()
# Fields of a cell's document that its key covers.
_OF_KEY = ("key", "kernel", "toolchain", "target", "launch", "options")
_READ_ONLY = ("http", "https")
# fsspec has many more protocols: some open what a document names (reference), some run others.
_PROTOCOLS = ("", "file", "s3", "gs", "gcs", "abfs", "abfss", "az", *_READ_ONLY)


class BadEntry(Exception):
    """An entry that does not answer its cell."""


@dataclass
class SharedCache:
    """An open cache. `location` is its URL without credentials, as records name it."""

    location: str
    _files: AbstractFileSystem
    _root: str
    # False after the storage failed once: the run goes on without it.
    _is_working: bool = field(default=True, init=False)

    @staticmethod
    def open(url: str, option: str, is_written: bool = False) -> SharedCache:
        """Return the cache at a URL or folder.

        Raises:
            UsageError: If its kind of storage is unknown, not installed, or cannot be written.
        """
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise UsageError(f"{option} needs fsspec: {INSTALL}") from None
        protocol = urlsplit(url).scheme
        if protocol not in _PROTOCOLS or "::" in url:
            raise UsageError(
                f"{option} {_without_credentials(url)}: not a shared cache; expected a folder or a "
                f"URL of {', '.join(filter(None, _PROTOCOLS))}"
            )
        if is_written and protocol in _READ_ONLY:
            raise UsageError(f"{option} {url}: HTTP is read only; write to a folder or to s3://")
        try:
            files, root = url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise UsageError(f"{option} {_without_credentials(url)}: {error}") from None
        return SharedCache(_without_credentials(url), files, root.rstrip("/"))

    def read(self, cells: Iterable[Cell]) -> Iterator[list[Record]]:
        """Yield the records of those cells that have a valid entry, in batches.

        A warning names the number of rejected entries, and the reason for the first.
        """
        rejections: list[str] = []
        remaining = iter(cells)
        while self._is_working and (batch := list(islice(remaining, _BATCH))):
            records = []
            for cell, content in self._contents(batch):
                try:
                    records.append(self._record(cell, content))
                except BadEntry as error:
                    rejections.append(f"{cell.key}: {error}")
            yield records
        if rejections:
            number = f"{len(rejections)} entries"
            if len(rejections) == 1:
                number = "1 entry"
            _LOG.warning(
                f"shared cache {self.location}: {number} rejected and compiled here"
                f" ({rejections[0]})"
            )

    def write(self, records: Iterable[Record]) -> None:
        """Store the verdicts among these records that hold everywhere.

        Storage that fails is reported once; the run continues without it.
        """
        entries = {}
        for record in records:
            if record.verdict in _SHARED_VERDICTS:
                entries[self._path(record.key)] = pack(record)
        if not entries or not self._is_working:
            return
        with self._stop_at_error("could not be written", "results are stored here alone"):
            if "file" in self._files.protocol:
                for path in entries:
                    Path(path).parent.mkdir(parents=True, exist_ok=True)
            # A local file appears under its name once it is complete.
            with self._files.transaction:
                self._files.pipe(entries)

    @contextlib.contextmanager
    def _stop_at_error(self, problem: str, consequence: str) -> Iterator[None]:
        """Do without the storage after an error of it."""
        try:
            yield
        # Each kind of storage raises errors of its own.
        except Exception as error:
            self._stop(problem, error, consequence)

    def _path(self, key: str) -> str:
        return f"{self._root}/v1/{key[:2]}/{key}.json"

    def _contents(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, bytes]]:
        """Yield the content of each cell's entry, for those that exist."""
        paths = {self._path(cell.key): cell for cell in cells}
        contents: dict[str, Any] = {}
        with self._stop_at_error("could not be read", "compiling here"):
            contents = self._files.cat(list(paths), on_error="return", start=0, end=_MOST_BYTES + 1)
        for path, content in contents.items():
            if isinstance(content, bytes):
                yield paths[path], content
            elif not isinstance(content, FileNotFoundError):
                self._stop("could not be read", content, "compiling here")
                return

    def _stop(self, problem: str, error: BaseException, consequence: str) -> None:
        self._is_working = False
        lines = str(error).splitlines() or [type(error).__name__]
        _LOG.warning(f"shared cache {self.location} {problem} ({lines[0][:200]}): {consequence}")

    def _record(self, cell: Cell, content: bytes) -> Record:
        record = unpack(cell, content)
        return record.with_(cached=False, shared_cache=self.location)


def pack(record: Record) -> bytes:
    """Return a record as an entry, with the digest of its JSON."""
    plain = record.with_(cached=False, shared_cache=None).to_json()
    return json.dumps(
        {"schema": SCHEMA, "key": record.key, "digest": digest(plain), "record": plain}
    ).encode()


def unpack(cell: Cell, content: bytes) -> Record:
    """Return the record in a cell's entry.

    Raises:
        BadEntry: If the entry has another form, was changed, or answers another cell.
    """
    if len(content) > _MOST_BYTES:
        raise BadEntry(f"it is larger than {_MOST_BYTES:,} bytes")
    try:
        plain = json.loads(content)
        schema, key, its_digest = plain["schema"], plain["key"], plain["digest"]
        body = plain["record"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadEntry(f"it is not an entry ({type(error).__name__})") from None
    if schema != SCHEMA:
        raise BadEntry(f"its schema is {str(schema)[:40]!r}, expected {SCHEMA}")
    if key != cell.key:
        raise BadEntry("it has the key of another cell")
    record = _checked(cell, body, its_digest)
    if record.verdict not in _SHARED_VERDICTS:
        raise BadEntry(f"its verdict is {record.verdict.value}")
    expected = cell.fields_of_document()
    for name, value in record.cell.fields_of_document().items():
        # Two launches of one key may differ in what only describes them.
        if name in _OF_KEY and canonical(value) != canonical(expected[name]):
            raise BadEntry(f"its {name} is not that of the cell")
    # The rest of the cell is this run's own, so that nothing from elsewhere is ever loaded.
    return record.with_(cell=cell)


def _checked(cell: Cell, body: Any, its_digest: Any) -> Record:
    try:
        text = json.dumps(body)
        with form.check_row(_NO_FILE, "entry", cell.key):
            plain = form.record(text)
            if digest(body) != its_digest:
                raise ValueError("its digest does not match its record")
            return Record.from_json({**plain, "cached": False})
    except StoreError as error:
        raise BadEntry(str(error.__cause__)) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadEntry(f"its record is not valid ({error})") from None


def _without_credentials(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    if not parts.netloc:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()
