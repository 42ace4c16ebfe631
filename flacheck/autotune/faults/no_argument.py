"""A key that is no argument of the kernel."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from packaging.version import Version

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults.base import Case

REFUSED_FROM = Version("3.9.0")
BY_NAME_FROM = Version("3.2.0")


def find(case: Case) -> Iterator[KeyFault]:
    keys = case.tuned.keys
    if case.tuned.declared is None:
        return
    for name in keys:
        if name not in case.arguments:
            near = _near(
                name, [a for a in case.arguments if a not in keys and a not in case.tuned_names]
            )
            yield KeyFault(name, "no-argument", near, None, _consequence(case.version))


def _near(name: str, arguments: list[str]) -> str | None:
    """The argument that was meant, where one is spelt almost alike."""
    return next(iter(difflib.get_close_matches(name, arguments, 1, 0.8)), None)


def _consequence(version: Version) -> str:
    if version >= REFUSED_FROM:
        return "is no argument of the kernel: the module raises ValueError when it is imported"
    if version >= BY_NAME_FROM:
        return "is no argument of the kernel: this release drops it silently, 3.9.0 refuses to import the module"
    return "is no argument of the kernel: the module raises ValueError when it is imported"
