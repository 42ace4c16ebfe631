"""Which versions of a distribution exist: asked of the user's own index, once a day."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress

from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError
from flacheck.toolchains import cache, wheels

DAY = 86_400.0
_LISTED = re.compile(r"^Available versions:\s*(.+)$", re.MULTILINE)


def available(name: str, python: str | None = None, binary_only: bool = True) -> list[Version]:
    """Final versions with a file for this Python (or for `python`, "3.13"), oldest first.

    Raises NotFound, Offline or another ToolchainError. What was read is kept for a day, and longer
    while offline.
    """
    book = f"index/{name}.json"
    kind = "all"
    if binary_only:
        kind = "wheels"
    page = f"{cache.python_tag()}:{python or 'here'}:{kind}"
    known = cache.read_json(book)
    entry = known.get(page, {})
    if time.time() - entry.get("time", 0) < DAY:
        return parsed(entry["versions"])
    try:
        versions = _ask(name, python, binary_only)
    except wheels.Offline:
        if not entry:
            raise
        return parsed(entry["versions"])
    entry = {"time": time.time(), "versions": [str(version) for version in versions]}
    cache.write_json(book, {**known, page: entry})
    return versions


def _ask(name: str, python: str | None, binary_only: bool) -> list[Version]:
    # An index that does not answer must not hold up a scan that can do without.
    flags = ["--retries", "1", "--timeout", "15"]
    if python:
        flags += ["--python-version", python]
    if binary_only:
        flags += ["--only-binary", ":all:"]
    errors: list[ToolchainError] = []
    # `index versions` is pip's: with uv it takes an environment of its own, so pip is asked first.
    for installer in reversed(wheels.require_installers()):
        code, output = wheels.run([*installer.pip, "index", "versions", name, *flags], name)
        listed = _LISTED.search(output)
        if code == 0 and listed:
            return parsed(listed[1].split(","))
        doing, folder = f"look up {name}", cache.root() / "index"
        errors.append(wheels.diagnose(output, doing, folder, installer.name))
        if isinstance(errors[-1], wheels.Offline):
            raise errors[-1]
    raise errors[0]


def parsed(texts: Sequence[str]) -> list[Version]:
    """Final versions without local parts among the texts, oldest first."""
    versions = set()
    for text in texts:
        with suppress(InvalidVersion):
            versions.add(Version(text.strip()))
    return sorted(each for each in versions if not (each.is_prerelease or each.local))


def near(version: Version, among: Sequence[Version], count: int = 4) -> list[Version]:
    """The versions nearest to one that does not exist, oldest first."""
    below = [v for v in among if v < version][-(count // 2) :]
    return below + [v for v in among if v > version][: count // 2]
