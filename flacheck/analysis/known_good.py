"""Which toolchains are known good for which targets, and the specifiers that pin them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flacheck.analysis.context import Context
from flacheck.analysis.order import by_target, by_version, split
from flacheck.analysis.standing import Standing
from flacheck.model import Json

K = TypeVar("K", bound=Hashable)
TRITON = "triton"
Place = tuple[str, str]


@dataclass(frozen=True)
class KnownGood:
    """A compiler that is known good for some targets; of a Triton release also the torch releases
    that pin it. `cells` counts the cells with evidence."""

    toolchain: str
    torch: tuple[str, ...]
    targets: tuple[str, ...]
    cells: int
    advisories: tuple[Any, ...] = ()

    @property
    def triton(self) -> str | None:
        """The release where the compiler is Triton."""
        name, version = split(self.toolchain)
        if name == TRITON:
            return version
        return None

    @property
    def has_index(self) -> bool:
        """Whether a requirement can name it: no index has a local build."""
        return "+" not in self.toolchain

    def to_json(self) -> Json:
        return {
            "toolchain": self.toolchain,
            "triton": self.triton,
            "torch": list(self.torch),
            "targets": list(self.targets),
            "cells": self.cells,
            "advisories": list(self.advisories),
        }


@dataclass(frozen=True)
class Specifier:
    """What to pin for a target (`triton>=3.4.0,<3.9`); `torch` is None if none fits."""

    target: str
    triton: str
    torch: str | None


def known_good(standings: Sequence[Standing], context: Context) -> list[KnownGood]:
    """The compilers that are known good for at least one target, oldest first: where every question
    that was asked of one there is answered well as a whole."""
    places = group_by_key((standing.place, standing) for standing in standings)
    good = {place: asked for place, asked in places.items() if all(one.is_good for one in asked)}
    targets = group_by_key((toolchain, target) for toolchain, target in good)
    releases = []
    for toolchain in sorted(targets, key=by_version):
        on = sorted(targets[toolchain], key=by_target)
        count = sum(len(standing.evidence) for target in on for standing in good[toolchain, target])
        torch: Sequence[str] = ()
        advisories: list[Any] = []
        name, version = split(toolchain)
        if name == TRITON:
            advisories = [said for target in on for said in context.advisories(version, target)]
        # No torch pins a local build, whatever its public version.
        if name == TRITON and "+" not in version:
            torch = sorted(context.torch_for(version), key=by_version)
        releases.append(KnownGood(toolchain, tuple(torch), tuple(on), count, tuple(advisories)))
    return releases


def collect_advisories(
    standings: Sequence[Standing], context: Context
) -> list[tuple[str, tuple[str, ...], str]]:
    """What is publicly known against each release that was asked, whatever came of it there:
    (Triton release, targets, advisory), oldest first."""
    told = [
        ((version, said), target)
        for version, target in _triton_places(standings)
        for said in context.advisories(version, target)
    ]
    groups = [
        (version, tuple(sorted(set(targets), key=by_target)), said)
        for (version, said), targets in group_by_key(told).items()
    ]
    return sorted(groups, key=lambda group: by_version(group[0]))


def specifiers(
    standings: Sequence[Standing], good: Sequence[KnownGood], context: Context
) -> list[Specifier]:
    """What to pin, for each target that has a known-good Triton from an index. A release that an
    advisory speaks against is pinned only where no other is good."""
    asked = sorted({version for version, _ in _triton_places(standings)}, key=by_version)
    # A requirement cannot name a local build: no index has it.
    known = [version for version in (context.known_triton or asked) if "+" not in version]
    known_torch = context.known_torch or sorted(
        {torch for version in known for torch in context.torch_for(version)}, key=by_version
    )
    specifiers = []
    for target in sorted({target for release in good for target in release.targets}, key=by_target):
        on_target = [release for release in good if target in release.targets]
        there = prefer_unadvised(on_target, target, context)
        triton = [release.triton for release in there if release.triton]
        torch = sorted({torch for release in there for torch in release.torch}, key=by_version)
        pinned, pinned_torch = None, None
        if triton:
            pinned = context.specifier("triton", triton, known)
        if torch:
            pinned_torch = context.specifier("torch", torch, known_torch)
        if pinned:
            specifiers.append(Specifier(target, pinned, pinned_torch))
    return specifiers


def prefer_unadvised(good: Sequence[KnownGood], target: str, context: Context) -> list[KnownGood]:
    """The good releases from an index that no advisory speaks against on the target; where there is
    none, those that an advisory does."""
    indexed = [release for release in good if release.has_index]
    clean = [
        release
        for release in indexed
        if release.triton is None or not context.advisories(release.triton, target)
    ]
    return clean or indexed


def group_by_key(pairs: Iterable[tuple[K, Any]]) -> Mapping[K, list[Any]]:
    """Values by key, in order of appearance."""
    out: defaultdict[K, list[Any]] = defaultdict(list)
    for key, value in pairs:
        out[key].append(value)
    return out


def _triton_places(standings: Iterable[Standing]) -> Mapping[Place, list[Standing]]:
    named = ((split(standing.toolchain), standing) for standing in standings)
    return group_by_key(
        ((version, standing.target), standing)
        for (name, version), standing in named
        if name == TRITON
    )
