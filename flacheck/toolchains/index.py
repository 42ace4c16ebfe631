"""The versions of a distribution in the user's own indexes, looked up once a day."""

import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags, sys_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from flacheck.toolchains import cache, connections, index_pages, wheels
from flacheck.toolchains.index_pages import IndexFile, UnreadPage
from flacheck.toolchains.index_sources import Sources

DAY = 86_400.0


class PartialAnswer(wheels.Offline):
    """Versions from some of the indexes only: `versions` are those of the readable ones."""

    def __init__(self, message: str, versions: Sequence[Version]) -> None:
        super().__init__(message)
        self.versions = versions


def available(name: str, python: str | None = None, binary_only: bool = True) -> list[Version]:
    """Return final versions with a file for this Python, oldest first.

    `python` ("3.13") selects another Python. Raises NotFound, PartialAnswer, Offline or another
    ToolchainError. A complete listing is kept for a day (--refresh replaces it), and longer while
    an index cannot be read.
    """
    book = f"index/{name}.json"
    kind = "all"
    if binary_only:
        kind = "wheels"
    page = f"{cache.python_tag()}:{python or 'here'}:{kind}"
    pages = cache.read_json(book)
    entry = pages.get(page, {})
    if entry and connections.is_current(entry["time"]):
        return parse_versions(entry["versions"])
    try:
        versions = _look_up(name, python, binary_only)
    except wheels.Offline as error:
        if not entry:
            raise
        others = getattr(error, "versions", ())
        return sorted({*parse_versions(entry["versions"]), *others})
    entry = {"time": time.time(), "versions": list(map(str, versions))}
    cache.write_json(book, {**pages, page: entry})
    return versions


def has(name: str, version: Version, python: str | None = None) -> bool:
    """Return True if an index has a file of this version for this Python (or for `python`).

    Raises the errors of `available`; PartialAnswer only if the readable indexes lack it.
    """
    try:
        return version in available(name, python)
    except PartialAnswer as error:
        if version not in error.versions:
            raise
        return True


def _look_up(name: str, python: str | None, binary_only: bool) -> list[Version]:
    """Return the versions in all indexes; see `available`."""
    if connections.is_offline():
        raise wheels.Offline(
            f"cannot look up {name}: --offline, and no earlier command has listed its releases"
        )
    pip = wheels.require_installers()[-1]
    sources = connections.sources(pip.pip)
    files: list[IndexFile] = []
    unread: list[UnreadPage] = []
    for place in sources.all:
        try:
            files += _read(place, name, sources)
        except UnreadPage as error:
            unread.append(error)
    versions = parse_versions(_list_versions(files, name, python, binary_only))
    if not unread and not versions:
        raise wheels.NotFound(
            f"cannot look up {name}: the package index has no such release for this Python and"
            " system"
        )
    if not unread:
        return versions
    message = (
        f"cannot look up {name}: {unread[0]}; check the network and the index settings of"
        f" {pip.name}, or work without it (--offline)"
    )
    if len(unread) == len(sources.all):
        raise wheels.Offline(message)
    raise PartialAnswer(message, versions)


def _read(place: str, name: str, sources: Sources) -> list[IndexFile]:
    """Return a source's files of a distribution, and others. Raises UnreadPage."""
    reason = connections.why_unreachable(place)
    if reason is not None:
        raise UnreadPage(place, reason, is_unreachable=True)
    try:
        if place in sources.indexes:
            return index_pages.read_project(place, str(canonicalize_name(name)), sources)
        return index_pages.read_links(place, sources)
    except UnreadPage as error:
        if error.is_unreachable:
            connections.note_unreachable(place, error.reason)
        raise


def _list_versions(
    files: Sequence[IndexFile], name: str, python: str | None, binary_only: bool
) -> Iterator[str]:
    """Yield the version of each file of a distribution that this Python can use."""
    tags = _tags_of(python)
    interpreter = platform.python_version()
    if python:
        interpreter = f"{python}.0"
    for file in files:
        if file.yanked or not _allows(file.requires_python, interpreter):
            continue
        with suppress(InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            if file.filename.endswith(".whl"):
                project, version, _, file_tags = parse_wheel_filename(file.filename)
                is_usable = not tags.isdisjoint(file_tags)
            else:
                project, version = parse_sdist_filename(file.filename)
                is_usable = not binary_only
            if is_usable and project == canonicalize_name(name):
                yield str(version)


def _tags_of(python: str | None) -> frozenset[Tag]:
    """Return the tags of wheels for this Python, or for another one on this system."""
    if python is None:
        return frozenset(sys_tags())
    major, minor = map(int, python.split("."))
    platforms = list(platform_tags())
    tags = set(cpython_tags((major, minor), platforms=platforms))
    tags.update(compatible_tags((major, minor), f"cp{major}{minor}", platforms))
    return frozenset(tags)


def _allows(requires_python: str | None, python: str) -> bool:
    """Return True if a file's metadata admits a Python; a malformed bound admits all."""
    try:
        return SpecifierSet(requires_python or "").contains(python, prereleases=True)
    except InvalidSpecifier:
        return True


def parse_versions(texts: Iterable[str]) -> list[Version]:
    """Return final versions without local parts among the texts, oldest first."""
    versions = set()
    for text in texts:
        with suppress(InvalidVersion):
            version = Version(text.strip())
            if not (version.is_prerelease or version.local):
                versions.add(version)
    return sorted(versions)


def near(version: Version, among: Sequence[Version], count: int = 4) -> list[Version]:
    """Return the versions nearest to one that does not exist, oldest first."""
    below = [v for v in among if v < version][-(count // 2) :]
    return below + [v for v in among if v > version][: count // 2]
