"""The versions of a distribution in the user's own indexes, looked up once a day."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from textwrap import shorten

from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError
from flacheck.toolchains import cache, connections, index_settings, wheels

# From `pip index versions`.
_VERSIONS = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
# From pip's debug log: the pages that it could not read, without those whose status means that the
# index lacks the distribution.
_UNREAD = re.compile(
    r"^\s*(?:WARNING: )?(?:Could not fetch URL|Skipping page) (\S+?):? (?!404 |410 )(?:because )?"
    r"(.*?)(?: - skipping)?$",
    re.MULTILINE,
)
# The pages of indexes that pip is about to read.
_PLACE = re.compile(r"^\* (http\S+)", re.MULTILINE)
_STATUS = re.compile(r"[1-5]\d\d \w+ Error: [^:]*?(?= for url)")
_CAUSE = re.compile(r"\[Errno [^'\")]+|[Cc]onnect(?:ion)? timed? ?out|SSL\w*Error\([^)]*\)")
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]*@")
# Characters of a reason in a message.
_REASON = 160


class PartialAnswer(wheels.Offline):
    """Versions from some of the indexes only: `versions` are those of the readable ones."""

    def __init__(self, message: str, versions: Sequence[Version]) -> None:
        super().__init__(message)
        self.versions = versions


def available(name: str, python: str | None = None) -> list[Version]:
    """Return final versions with a file for this Python, oldest first.

    `python` ("3.13") selects another Python, and versions with a wheel for it. Raises NotFound,
    PartialAnswer, Offline or another ToolchainError. A complete listing is kept for a day
    (--refresh replaces it), and longer while an index cannot be read.
    """
    book = f"index/{name}.json"
    page = f"{cache.python_tag()}:{python or 'here'}"
    pages = cache.read_json(book)
    entry = pages.get(page, {})
    if entry and connections.is_current(entry["time"]):
        return parse_versions(entry["versions"])
    try:
        versions = _look_up(name, python)
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


def _look_up(name: str, python: str | None) -> list[Version]:
    """Return the versions in all indexes; see `available`."""
    if connections.is_offline():
        raise wheels.Offline(
            f"cannot look up {name}: --offline, and no earlier command has listed its releases"
        )
    if connections.has_no_index():
        raise wheels.Offline(f"cannot look up {name}: no package index answers")
    pip = wheels.require_installers()[-1].pip
    # Only the debug log has the pages that could not be read.
    command = [*pip, "-vv", "index", "versions", name]
    if python:
        command += ["--python-version", python, "--only-binary", ":all:"]
    code, output = wheels.run(
        command, f"listing the releases of {name}", index_settings.variables(pip)
    )
    match = _VERSIONS.search(output)
    versions = parse_versions(match[1].split(",")) if match else []
    unread = dict(_UNREAD.findall(output))
    if unread:
        _note_unreachable(unread, _PLACE.findall(output))
        raise PartialAnswer(f"cannot look up {name}: {_describe(unread)}", versions)
    if code != 0:
        raise _without_versions(output, name)
    return versions


def _note_unreachable(unread: Mapping[str, str], places: Sequence[str]) -> None:
    """Remember that no index answers, if each failed without an HTTP status."""
    is_dead = [place in unread and not _STATUS.search(unread[place]) for place in places]
    if all(is_dead):
        connections.note_unreachable()


def _describe(unread: Mapping[str, str]) -> str:
    """Return the first page that could not be read, with the cause and a remedy."""
    url, reason = next(iter(unread.items()))
    match = _STATUS.search(reason) or _CAUSE.search(reason)
    cause = shorten(match[0] if match else reason, _REASON, placeholder=" …")
    return (
        f"{_CREDENTIALS.sub('', url)} did not answer ({cause}); check the network and the index"
        " settings of pip, or work without it (--offline)"
    )


def _without_versions(output: str, name: str) -> ToolchainError:
    """Return the error of a look-up in which every index answered."""
    error = wheels.diagnose(output, f"look up {name}", cache.root(), "pip")
    if not isinstance(error, wheels.NotFound):
        return error
    return wheels.NotFound(
        f"cannot look up {name}: the package index has no such release for this Python and system"
    )


def parse_versions(texts: Iterable[str]) -> list[Version]:
    """Return final versions without local parts among the texts, oldest first."""
    versions = set()
    for text in texts:
        with suppress(InvalidVersion):
            version = Version(text.strip())
            if not (version.is_prerelease or version.local):
                versions.add(version)
    return sorted(versions)


def near(version: Version, among: Sequence[Version]) -> list[Version]:
    """Return the versions nearest to one that does not exist, oldest first."""
    below = [v for v in among if v < version][-2:]
    return below + [v for v in among if v > version][:2]
