"""Folders of published results: their files, and the reason if one does not answer."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache as cached
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from flacheck import files
from flacheck.errors import FlacheckError, UsageError
from flacheck.evidence.analysis.order import by_target, by_version
from flacheck.evidence.published.combinations import Combination, read_combinations
from flacheck.evidence.published.form import (
    MOST_BYTES,
    Body,
    FileEntry,
    Header,
    Manifest,
    decode_body,
    decode_header,
    read_manifest,
)
from flacheck.evidence.published.packing import PublishedPlace, unpack
from flacheck.model import digest
from flacheck.source.packages import package as packages
from flacheck.tables import find_shipped_folder
from flacheck.toolchains import cache

MANIFEST = "manifest.json"
COMBINATIONS = "combinations.yaml"
# The folder of flacheck's own results, and in the cache that of newer ones.
FOLDER = "results"
_REMEDY = (
    "fetch it again with `flacheck results update`, or leave published results out with "
    "--no-published"
)


@dataclass
class ResultsFolder:
    """A folder of published results.

    `manifest` lists the files; each is checked against its hash when it is read.
    """

    folder: Path
    manifest: Manifest
    _contents: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    @property
    def abouts(self) -> list[str]:
        """Every `name==version` and matrix that has a file."""
        return sorted({entry.about for entry in self.manifest.files}, key=_by_about)

    def entries(
        self,
        about: str | None = None,
        configs: str | None = None,
        accepts: Callable[[FileEntry], bool] = lambda entry: True,
    ) -> list[FileEntry]:
        """Return the files about a package or matrix, in the order of releases and GPUs."""
        entries = []
        for entry in self.manifest.files:
            if about not in (None, entry.about) or configs not in (None, entry.configs):
                continue
            if accepts(entry):
                entries.append(entry)
        return sorted(entries, key=_by_place)

    def header(self, entry: FileEntry) -> Header:
        """Return the header of a file.

        Raises:
            UsageError: If the file is missing or damaged.
        """
        return _header(self._read(entry), entry, str(self.folder / entry.file))

    def body(self, entry: FileEntry) -> Body:
        """Return the cells of a file without their keys.

        Raises:
            UsageError: If the file is missing or damaged.
        """
        return decode_body(self._read(entry), str(self.folder / entry.file))

    def place(self, entry: FileEntry) -> PublishedPlace | None:
        """Return the whole answer of a file; None if this flacheck has other keys for its cells.

        Raises:
            UsageError: If the file is missing or damaged.
        """
        return decode_place(self._read(entry), entry, str(self.folder / entry.file))

    def combinations(self) -> list[Combination]:
        """Return the combinations that the project lists, built or not."""
        file = self.folder / COMBINATIONS
        if not file.is_file():
            return []
        return read_combinations(file)

    def _read(self, entry: FileEntry) -> bytes:
        """Return a file's content after its size and hash are checked."""
        if entry.file not in self._contents:
            self._contents[entry.file] = read_checked(self.folder, entry)
        return self._contents[entry.file]


def decode_place(content: bytes, entry: FileEntry, name: str) -> PublishedPlace | None:
    """Return the answer in a file's content; None if this flacheck has other keys for its cells.

    Raises:
        UsageError: If the content is damaged, or is that of another entry.
    """
    header = _header(content, entry, name)
    body = decode_body(content, name)
    try:
        return unpack(header, body)
    # A launch of another form than a launch's.
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UsageError(f"{name}: not a file of published results ({error})") from None


def _header(content: bytes, entry: FileEntry, name: str) -> Header:
    header = decode_header(content, name)
    named = (entry.about, entry.configs, entry.toolchain, entry.target)
    if named != (header.about, header.configs, header.toolchain, header.target):
        raise UsageError(f"{name}: holds another question than its manifest")
    return header


def read_checked(folder: Path, entry: FileEntry) -> bytes:
    """Return the content of a file of a manifest.

    Raises:
        UsageError: If it is missing, or its size or hash differs from the manifest's.
    """
    path = folder / entry.file
    try:
        content = files.read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from None
    if (len(content), hashlib.sha256(content).hexdigest()) != (entry.bytes, entry.sha256):
        raise _differs(path)
    return content


def _differs(path: Path) -> UsageError:
    return UsageError(f"{path}: damaged, it differs from its manifest; {_REMEDY}")


def open_library(folder: Path | None = None) -> ResultsFolder:
    """Return the results of a folder; by default the newer of flacheck's own and the updated ones.

    Raises:
        UsageError: If the folder holds no results, or damaged ones.
    """
    if folder is not None:
        return ResultsFolder(folder, read_manifest(folder / MANIFEST))
    own = _own_library()
    updated_folder = cache.root() / FOLDER
    if (updated_folder / MANIFEST).is_file():
        updated = ResultsFolder(updated_folder, read_manifest(updated_folder / MANIFEST))
        if own is None or updated.manifest.date > own.manifest.date:
            return updated
    if own is None:
        raise UsageError(
            "this flacheck ships no published results; name a folder with --results DIR"
        )
    return own


def published_releases(library: ResultsFolder, spec: str) -> list[str]:
    """Return `NAME==VERSION` for each published release of a range, as `flash-kmeans>=0.2`."""
    name, specifiers = packages.parse_range(spec)
    releases = []
    for about in library.abouts:
        own_name, _, version = about.partition("==")
        if own_name == name and specifiers.contains(version, prereleases=True):
            releases.append(about)
    return releases


def has_results() -> bool:
    """Return True if flacheck ships results, or the user has updated ones."""
    return _own_library() is not None or (cache.root() / FOLDER / MANIFEST).is_file()


def _own_library() -> ResultsFolder | None:
    try:
        folder = find_shipped_folder(FOLDER)
    except FlacheckError:
        return None
    if not (folder / MANIFEST).is_file():
        return None
    return ResultsFolder(folder, read_manifest(folder / MANIFEST))


def nearest(about: str, abouts: Iterable[str]) -> str | None:
    """Return the published version that is nearest to an unpublished one of the same package."""
    name, _, text = about.partition("==")
    versions = [each.partition("==")[2] for each in abouts if each.partition("==")[0] == name]
    try:
        wanted = Version(text)
        ordered = sorted(map(Version, filter(None, versions)))
    except InvalidVersion:
        return None
    if not ordered:
        return None
    older = [version for version in ordered if version <= wanted]
    return str(older[-1] if older else ordered[0])


def why_not_valid(header: Header) -> str | None:
    """Return the reason why results are not about the package that is here; None if they are.

    Where the package reads Python's version, a Python on another side of the versions that it
    compares may launch other kernels.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if _launches_differ(header, python):
        return (
            f"{header.about} reads Python's version and was captured under Python {header.python}; "
            f"under {python} it may launch other kernels"
        )
    if header.package_digest is None:
        return None
    if header.version is None:
        if header.package_digest == matrix_digest(header.name):
            return None
        return f"flacheck's own kernels, or the matrix {header.name}, have changed since"
    package = packages.installed_package(header.about)
    if package is not None and package.digest != header.package_digest:
        return f"the {header.about} that is installed here has other files than the published one"
    return None


@cached
def matrix_digest(name: str) -> str | None:
    """Return the hash of a shipped matrix and of flacheck's own kernels; None for no such matrix.

    A shipped matrix compiles only flacheck's own kernels.
    """
    matrix = find_shipped_folder("matrices") / f"{name}.yaml"
    if not matrix.is_file():
        return None
    hashes = [hashlib.sha256(matrix.read_bytes()).hexdigest()]
    for path in sorted(find_shipped_folder("kernels").rglob("*.*")):
        if path.is_file() and path.suffix != ".pyc":
            hashes.append(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return digest(hashes)


def _launches_differ(header: Header, python: str) -> bool:
    """Return True if a package may launch other kernels under this Python."""
    if header.python == python:
        return False
    if header.reads_python_version:
        return True
    for bound in map(Version, header.python_bounds):
        if (Version(python) < bound) != (Version(header.python) < bound):
            return True
    return False


def _by_place(entry: FileEntry) -> tuple[Any, ...]:
    return (
        *_by_about(entry.about),
        entry.configs,
        by_version(entry.toolchain),
        by_target(entry.target),
    )


def _by_about(about: str) -> tuple[Any, ...]:
    name, _, version = about.partition("==")
    return name, by_version(version or "0")
