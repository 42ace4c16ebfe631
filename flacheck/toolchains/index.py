"""Which versions of a distribution exist: asked of the user's own index, once a day."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

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
    page = f"{cache.python_tag()}:{python or 'here'}:{'wheels' if binary_only else 'all'}"
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
    cache.write_json(
        book, {**known, page: {"time": time.time(), "versions": [str(v) for v in versions]}}
    )
    return versions


def _ask(name: str, python: str | None, binary_only: bool) -> list[Version]:
    errors: list[ToolchainError] = []
    for installer in reversed(wheels.require_installers()):
        flags = ["--retries", "1", "--timeout", "15"]
        flags += ["--python-version", python] if python else []
        flags += ["--only-binary", ":all:"] if binary_only else []
        code, output = wheels.run([*installer.pip, "index", "versions", name, *flags], name)
        found = _LISTED.search(output)
        if code == 0 and found:
            return parsed(found[1].split(","))
        errors.append(
            wheels.diagnose(output, f"look up {name}", cache.root() / "index", installer.name)
        )
        if isinstance(errors[-1], wheels.Offline):
            break
    raise errors[-1] if isinstance(errors[-1], wheels.Offline) else errors[0]


def parsed(texts: Sequence[str]) -> list[Version]:
    """Final versions without local parts among the texts, oldest first."""
    found = set()
    for text in texts:
        try:
            version = Version(text.strip())
        except InvalidVersion:
            continue
        if not (version.is_prerelease or version.local):
            found.add(version)
    return sorted(found)


def near(version: Version, among: Sequence[Version], count: int = 4) -> list[Version]:
    """The versions nearest to one that does not exist, oldest first."""
    below = [v for v in among if v < version][-(count // 2) :]
    return below + [v for v in among if v > version][: count // 2]
