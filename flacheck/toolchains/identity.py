"""What a compiler's files say it is: unmodified releases are told from builds and patched installs."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from flacheck.model import digest
from flacheck.toolchains import cache

_BOOK = "index/files.json"
_LARGE = 1 << 20


def decides(name: str) -> bool:
    """Whether a file of the package (`triton/_C/libtriton.so`) can change what the compiler makes."""
    folder, _, base = name.rpartition("/")
    if base.endswith(".py"):
        return True
    if "/backends/" in name:
        return base.startswith("ptxas") or (
            base.endswith((".bc", ".ll")) and folder.endswith("/lib")
        )
    return folder.endswith("/_C") and base.startswith("libtriton") and ".so" in base


def content(package: Path) -> dict[str, str]:
    """The deciding files of a package folder → SHA-256; large files are read once while they stay
    the same.
    """
    book = cache.read_json(_BOOK)
    before = len(book)
    found = {}
    for where, _, names in os.walk(package, followlinks=True):
        for base in names:
            path = Path(where, base)
            name = path.relative_to(package.parent).as_posix()
            if decides(name):
                found[name] = _hash(path, book)
    if len(book) != before:
        cache.write_json(_BOOK, book)
    return found


def _hash(path: Path, book: dict[str, str]) -> str:
    status = path.stat()
    if status.st_size < _LARGE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    key = f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}"
    if key not in book:
        hasher = hashlib.sha256()
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(_LARGE), b""):
                hasher.update(block)
        book[key] = hasher.hexdigest()
    return book[key]


def recorded(record: str, top: str) -> dict[str, str]:
    """The deciding files below `top/` in the text of a RECORD → SHA-256."""
    hashes = record_hashes(record)
    return {
        name: value
        for name, value in hashes.items()
        if name.startswith(f"{top}/") and decides(name)
    }


def record_hashes(record: str) -> dict[str, str]:
    """Every hashed file of a RECORD → SHA-256 in hex."""
    rows = csv.reader(io.StringIO(record))
    return {row[0]: _hex(row[1]) for row in rows if len(row) > 1 and row[1].startswith("sha256=")}


def _hex(entry: str) -> str:
    text = entry.partition("=")[2]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()


def wheel_content(wheel: Path, top: str) -> dict[str, str]:
    """What `content` will say of a wheel file once it is unpacked, read from its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        return recorded(archive.read(record).decode(), top)


def local(name: str, version: str, files: Mapping[str, str]) -> str:
    """The identity of a build: the public version with a digest of its deciding files."""
    return f"{name}=={version}+local.{digest(dict(files), 8)}"


def is_release(
    distribution: importlib.metadata.Distribution, package: Path, files: Mapping[str, str]
) -> bool:
    """Whether an installed package is, file by file, what an index served."""
    if distribution.read_text("direct_url.json") is not None:
        return False
    return recorded(distribution.read_text("RECORD") or "", package.name) == files


def altered(folder: Path, name: str) -> bool:
    """Whether the package in a folder differs from its own RECORD."""
    found = next(iter(importlib.metadata.distributions(name=name, path=[str(folder)])))
    return recorded(found.read_text("RECORD") or "", name) != content(folder / name)
