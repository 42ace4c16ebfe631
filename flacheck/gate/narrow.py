"""The narrowest change of a specifier that keeps some releases and loses others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

_LOWER = (">=", ">")
_UPPER = ("<=", "<")


def narrowed(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """A specifier contained in the given one that admits all of `keep` (at least one) and none of
    `lose`.

    Releases below or above all that are kept move a bound, those between are excluded one by one.
    `cap`, where the specifier is to be closed, is the first version that must not be admitted.
    """
    kept, lost = sorted(map(Version, keep)), sorted(map(Version, lose))
    clauses = _clauses(specifier)
    lower = [version for version in lost if version < kept[0]]
    upper = [version for version in lost if version > kept[-1]] + ([Version(cap)] if cap else [])
    if lower:
        clauses = [clause for clause in clauses if clause.operator not in _LOWER]
        clauses.insert(0, Specifier(f">={kept[0]}"))
    if upper:
        clauses = [clause for clause in clauses if clause.operator not in _UPPER]
    between = [Specifier(f"!={version}") for version in lost if kept[0] < version < kept[-1]]
    ending = [Specifier(f"<{_short(min(upper))}")] if upper else []
    bounds = [clause for clause in clauses if clause.operator in _UPPER] + ending
    rest = [
        clause
        for clause in clauses
        if clause.operator not in _UPPER and _matters(clause, kept, bool(lower), upper)
    ]
    return ",".join(map(str, [*rest, *between, *bounds]))


def alternatives(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """The same for alternatives (Poetry's `||`): those that admit nothing of `keep` go."""
    kept, lost = list(keep), list(lose)
    found = (
        (text, [v for v in kept if SpecifierSet(text).contains(v)])
        for text in specifier.split("||")
    )
    return " || ".join(narrowed(text, some, lost, cap) for text, some in found if some)


def _clauses(specifier: str) -> list[Specifier]:
    """The clauses in the order in which they were written."""
    return [Specifier(clause) for clause in re.split(r"\s*,\s*", specifier.strip()) if clause]


def _matters(
    clause: Specifier, kept: Sequence[Version], raised: bool, upper: Sequence[Version]
) -> bool:
    """Whether an exclusion still excludes something: one outside the new bounds does not."""
    if clause.operator != "!=" or clause.version.endswith(".*"):
        return True
    version = Version(clause.version)
    return not ((raised and version < kept[0]) or (upper and version >= min(upper)))


def _short(bound: Version) -> str:
    """`3.9` for 3.9.0: the two say the same."""
    minor = Version(f"{bound.major}.{bound.minor}")
    return str(minor) if bound == minor else str(bound)
