"""The versions of a distribution in the user's own indexes, looked up once a day."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from textwrap import shorten
from urllib.parse import urlsplit, urlunsplit

from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError
from flacheck.toolchains import cache, wheels

DAY = 86_400.0
# Characters of pip's reason in a message.
_REASON = 160
_VERSIONS_LINE = re.compile(r"^Available versions:\s*(.+)$", re.MULTILINE)
# pip skips an index, or a page of links, that it cannot read, and exits with 0 if another lists the
# distribution. With -vv it prints a line for each skipped page, in these words since 2020.
_UNREAD = re.compile(
    r"^\s*(?:Could not fetch URL (?P<fetched>\S+): (?P<failure>.+)"
    r"|(?:WARNING: )?Skipping page (?P<skipped>\S+) because (?P<reason>.+))$",
    re.MULTILINE,
)
# These mean that the index lacks the distribution.
_HAS_NONE = re.compile(r"^(?:404|410) Client Error")


# The error of the first look-up of this process that reached no index: further ones would only wait
# for their own timeouts.
_UNREACHABLE: list[wheels.Offline] = []


class PartialAnswer(wheels.Offline):
    """Versions from some of the indexes only: `versions` are those of the readable ones."""

    def __init__(self, message: str, versions: Sequence[Version]) -> None:
        super().__init__(message)
        self.versions = versions


def available(name: str, python: str | None = None, binary_only: bool = True) -> list[Version]:
    """Return final versions with a file for this Python, oldest first.

    `python` ("3.13") selects another Python. Raises NotFound, PartialAnswer, Offline or another
    ToolchainError. A complete listing is kept for a day, and longer while an index cannot be read.
    """
    book = f"index/{name}.json"
    kind = "all"
    if binary_only:
        kind = "wheels"
    page = f"{cache.python_tag()}:{python or 'here'}:{kind}"
    pages = cache.read_json(book)
    entry = pages.get(page, {})
    if time.time() - entry.get("time", 0) < DAY:
        return parse_versions(entry["versions"])
    try:
        if _UNREACHABLE:
            raise _UNREACHABLE[0]
        versions = _look_up(name, python, binary_only)
    except wheels.Offline as error:
        if not isinstance(error, PartialAnswer) and not _UNREACHABLE:
            _UNREACHABLE.append(error)
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
    # An unreachable index must not delay a scan that does not need it.
    flags = ["--retries", "1", "--timeout", "15", "-vv"]
    if python:
        flags += ["--python-version", python]
    if binary_only:
        flags += ["--only-binary", ":all:"]
    errors: list[ToolchainError] = []
    # `index versions` is a command of pip: with uv it runs in an environment of its own, so pip
    # comes first.
    for installer in reversed(wheels.require_installers()):
        code, output = wheels.run([*installer.pip, "index", "versions", name, *flags], name)
        match = _VERSIONS_LINE.search(output)
        unread = _find_unread(output)
        doing = f"look up {name}"
        partly = (
            f"cannot {doing}: {unread}; check the network and the index settings of"
            f" {installer.name}, and try again"
        )
        if code == 0 and match:
            versions = parse_versions(match[1].split(","))
            if unread:
                raise PartialAnswer(partly, versions)
            return versions
        error = wheels.diagnose(output, doing, cache.root() / "index", installer.name)
        if unread and isinstance(error, wheels.NotFound):
            error = PartialAnswer(partly, ())
        if isinstance(error, wheels.Offline):
            raise error
        errors.append(error)
    raise errors[0]


def _find_unread(output: str) -> str:
    """Return the first index that pip could not read, with the reason; empty if it read all."""
    for match in _UNREAD.finditer(output):
        url = match["fetched"] or match["skipped"]
        reason = match["failure"] or match["reason"]
        if not _HAS_NONE.match(reason):
            parts = urlsplit(url)
            # A URL may hold a password.
            host = parts.netloc.rpartition("@")[2]
            page = urlunsplit((parts.scheme, host, parts.path, "", ""))
            cause = reason.removesuffix(" - skipping").partition(" for url:")[0]
            return f"{page} did not answer ({shorten(cause, _REASON, placeholder=' …')})"
    return ""


def parse_versions(texts: Sequence[str]) -> list[Version]:
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
