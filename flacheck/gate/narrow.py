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
    """A specifier within the given one that admits all of `keep` (at least one), none of `lose`.

    Releases below or above all that are kept move a bound, those between are excluded one by one.
    `cap`, where the specifier is to be closed, is the first version that must not be admitted."""
    kept, lost = sorted(map(Version, keep)), sorted(map(Version, lose))
    below = [version for version in lost if version < kept[0]]
    between = [version for version in lost if kept[0] < version < kept[-1]]
    above = [version for version in lost if version > kept[-1]]
    if cap:
        above.append(Version(cap))
    lower, middle, upper = [], [], []
    # In the order in which they were written.
    for text in filter(None, re.split(r"\s*,\s*", specifier.strip())):
        clause = Specifier(text)
        if clause.operator in _UPPER:
            upper.append(clause)
        elif not (clause.operator in _LOWER and below) and _matters(clause, kept, below, above):
            middle.append(clause)
    if below:
        lower = [Specifier(f">={kept[0]}")]
    if above:
        upper = [Specifier(f"<{_short(min(above))}")]
    excluded = [Specifier(f"!={version}") for version in between]
    return ",".join(map(str, [*lower, *middle, *excluded, *upper]))


def alternatives(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """The same for alternatives (Poetry's `||`): those that admit nothing of `keep` go."""
    kept, lost = list(keep), list(lose)
    narrow = []
    for text in specifier.split("||"):
        mine = [version for version in kept if SpecifierSet(text).contains(version)]
        if mine:
            narrow.append(narrowed(text, mine, lost, cap))
    return " || ".join(narrow)


def _matters(
    clause: Specifier, kept: Sequence[Version], below: Sequence[Version], above: Sequence[Version]
) -> bool:
    """Whether an exclusion still excludes something: one outside the new bounds does not."""
    if clause.operator != "!=" or clause.version.endswith(".*"):
        return True
    version = Version(clause.version)
    return not ((below and version < kept[0]) or (above and version >= min(above)))


def _short(bound: Version) -> str:
    """`3.9` for 3.9.0: the two say the same."""
    minor = Version(f"{bound.major}.{bound.minor}")
    if bound == minor:
        return str(minor)
    return str(bound)
