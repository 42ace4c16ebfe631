"""Identity of a compiler by its files: a published release, a build, or a patched install."""

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from flacheck.errors import ToolchainError
from flacheck.model import digest
from flacheck.toolchains import cache

_BOOK = "index/files.json"
# Reading libtriton.so (hundreds of MB) takes a second: hashes of files from this size on are
# stored.
_LARGE = 1 << 20


def decides(name: str) -> bool:
    """Return True if a file (`triton/_C/libtriton.so`) can change the compiler's output."""
    folder, _, base = name.rpartition("/")
    if base.endswith(".py"):
        return True
    is_own_library = base.startswith("libtriton") and ".so" in base
    if "/backends/" in name:
        # From 3.9.0 on AMD's code generator is a library of its own there.
        is_linked = base.endswith((".bc", ".ll")) or is_own_library
        return base.startswith("ptxas") or (is_linked and folder.endswith("/lib"))
    return folder.endswith("/_C") and is_own_library


def content(package: Path) -> dict[str, str]:
    """Return the deciding files of a package folder → SHA-256.

    Large files are read again only if they changed.
    """
    book = cache.read_json(_BOOK)
    before = len(book)
    hashes = {}
    for where, _, names in os.walk(package, followlinks=True):
        for base in names:
            path = Path(where, base)
            name = path.relative_to(package.parent).as_posix()
            if decides(name):
                hashes[name] = _hash(path, book)
    if len(book) != before:
        cache.write_json(_BOOK, book)
    return hashes


def _hash(path: Path, book: dict[str, str]) -> str:
    status = path.stat()
    if status.st_size < _LARGE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    key = f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}"
    if key not in book:
        hasher = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(_LARGE):
                hasher.update(block)
        book[key] = hasher.hexdigest()
    return book[key]


def recorded_content(record: str, top: str) -> dict[str, str]:
    """Return the deciding files below `top/` in the text of a RECORD → SHA-256."""
    content = {}
    for name, value in record_hashes(record).items():
        if name.startswith(f"{top}/") and decides(name):
            content[name] = value
    return content


def record_hashes(record: str) -> dict[str, str]:
    """Return every hashed file of a RECORD → SHA-256 in hex."""
    hashes = {}
    for row in csv.reader(io.StringIO(record)):
        if len(row) > 1 and row[1].startswith("sha256="):
            # Wheels omit the padding, which the decoder requires; it ignores surplus padding.
            text = row[1].removeprefix("sha256=") + "=="
            hashes[row[0]] = base64.urlsafe_b64decode(text).hex()
    return hashes


def wheel_content(wheel: Path, top: str) -> dict[str, str]:
    """Return the `content` of a wheel file after unpacking, read from its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        return recorded_content(archive.read(record).decode(), top)


def local(name: str, version: str, files: Mapping[str, str]) -> str:
    """Return the identity of a build: the public version with a digest of its deciding files."""
    return f"{name}=={version}+local.{digest(dict(files), 8)}"


def is_release(
    distribution: importlib.metadata.Distribution, package: Path, files: Mapping[str, str]
) -> bool:
    """Return True if an installed package is, file by file, the one from an index."""
    if distribution.read_text("direct_url.json") is not None:
        return False
    return recorded_content(distribution.read_text("RECORD") or "", package.name) == files


def toolkit(root: Path) -> dict[str, str]:
    """Return the deciding files of a CUDA toolkit.

    They are its programs, its library of device code and its headers at the top.
    """
    book = cache.read_json(_BOOK)
    before = len(book)
    hashes = {}
    globs = ("bin/*", "nvvm/bin/*", "nvvm/libdevice/*", "include/*", "include/crt/*")
    paths: list[Path] = []
    for glob in globs:
        paths += root.glob(glob)
    for path in sorted(paths):
        if path.is_file():
            hashes[path.relative_to(root).as_posix()] = _hash(path, book)
    if len(book) != before:
        cache.write_json(_BOOK, book)
    return hashes


def find_damaged_file(folder: Path) -> str | None:
    """Return the first file in a folder that differs from its wheel's; None if all match."""
    book = cache.read_json(_BOOK)
    before = len(book)
    wrong = None
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        hashes = record_hashes(distribution.read_text("RECORD") or "")
        for name, expected_hash in hashes.items():
            # Installers write their own metadata.
            if ".dist-info/" in name:
                continue
            path = folder / name
            if wrong is None and (not path.is_file() or _hash(path, book) != expected_hash):
                wrong = name
    if len(book) != before:
        cache.write_json(_BOOK, book)
    return wrong


def damaged(toolchain: str, place: str) -> ToolchainError:
    """Return the error for a toolchain whose installed files differ from its wheels'."""
    return ToolchainError(
        f"the files of {toolchain} in {place} were changed after its installation; run "
        f"`flacheck toolchain remove {toolchain}`, and the next scan installs it anew"
    )


def is_altered(folder: Path, name: str) -> bool:
    """Return True if the package in a folder differs from its own RECORD."""
    distributions = importlib.metadata.distributions(name=name, path=[str(folder)])
    distribution = next(iter(distributions), None)
    if distribution is None:
        return True
    return recorded_content(distribution.read_text("RECORD") or "", name) != content(folder / name)
