"""Which (torch, Triton) pairs an installation admits, by its pins and by what torch itself pins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.analysis.order import by_version
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.pins import Installation, Pin, is_version

Pair = tuple[str | None, str]


@dataclass(frozen=True)
class Releases:
    """The releases there are, oldest first; `torch` maps each to its specifier for Triton. Of
    another `compiler` `triton` are the releases, and no torch goes with them."""

    triton: tuple[str, ...]
    torch: Mapping[str, str]
    compiler: GatedCompiler = TRITON

    @property
    def newest_torch(self) -> str:
        return next(reversed(list(self.torch)), "0")

    @property
    def beyond(self) -> str:
        """How Triton releases are called that are newer than all known ones."""
        return f">{self.triton[-1]}"

    @property
    def before(self) -> str:
        """How Triton releases are called that are older than all known ones."""
        return f"<{self.triton[0]}"

    def with_recorded(self, triton: Iterable[str]) -> Releases:
        """With releases that have records, though no index that was asked lists them."""
        known = set(self.triton)
        for text in filter(is_version, triton):
            version = Version(text)
            # No index offers a local build, nor a pre-release unless it is asked for.
            if version.local is None and not version.is_prerelease:
                known.add(text)
        return replace(self, triton=tuple(sorted(known, key=by_version)))

    def torch_for(self, triton: str) -> list[str]:
        """The torch releases that a Triton release goes with."""
        # No torch pins a local build, whatever its version.
        if "+" in triton:
            return []
        return [torch for torch in self.torch if self.goes(torch, triton)]

    def goes(self, torch: str, triton: str) -> bool:
        """Whether the two can be installed together; an unknown torch may go with any Triton."""
        wanted = self.torch.get(_public(torch))
        return wanted is None or SpecifierSet(wanted).contains(_public(triton), prereleases=True)


@dataclass(frozen=True)
class Conflict:
    """Pins that no installer can satisfy together, and why."""

    installation: str
    pins: tuple[Pin, ...]
    reason: str


@dataclass(frozen=True)
class Admission:
    """`pairs` have no torch where none is pinned; `unknown` are Triton releases, as `>3.9.0`."""

    installation: Installation
    pairs: tuple[Pair, ...] = ()
    unknown: tuple[str, ...] = ()
    conflict: Conflict | None = None

    @property
    def triton(self) -> tuple[str, ...]:
        """All Triton releases that may be installed, oldest first and unknown ones last."""
        return tuple(sorted({triton for _, triton in self.pairs}, key=by_version)) + self.unknown


def admit(installation: Installation, releases: Releases) -> Admission:
    """The pairs that satisfy every pin, or the conflict that leaves none."""
    tritons = _satisfying(installation.of(releases.compiler.distribution), releases.triton)
    torches = _satisfying(installation.torch_with_triton, releases.torch)
    pairs = tuple(_pairs(installation, releases, torches, tritons))
    unknown = _unknown(installation, releases, torches)
    if not pairs and not unknown:
        older_triton = _admits_older(
            installation.of(releases.compiler.distribution), releases.triton
        )
        if older_triton and _admits_older(installation.torch_with_triton, releases.torch):
            unknown = (releases.before,)
    if pairs or unknown:
        return Admission(installation, pairs, unknown)
    return Admission(installation, conflict=_conflict(installation, releases, tritons, torches))


def satisfies(pins: Iterable[Pin], version: str) -> bool:
    """Whether every pin admits the version."""
    return all(pin.admits(version) for pin in pins)


def _satisfying(pins: Sequence[Pin], known: Iterable[str]) -> list[str]:
    """The known releases that all pins admit, and those that a pin names by itself."""
    by_release = {Version(version): version for version in known}
    for pin in pins:
        for version in pin.exact:
            by_release.setdefault(Version(version), version)
    known = sorted(by_release.values(), key=by_version)
    return [version for version in known if satisfies(pins, version)]


def _pairs(
    installation: Installation, releases: Releases, torches: Sequence[str], tritons: Sequence[str]
) -> Iterable[Pair]:
    if not installation.torch_with_triton:
        return [(None, triton) for triton in tritons]
    if not installation.of(releases.compiler.distribution):
        # What an unknown torch requires nobody knows: it goes with what is pinned beside it, and
        # says nothing alone.
        torches = [torch for torch in torches if _public(torch) in releases.torch]
    return (pair for pair in product(torches, tritons) if releases.goes(*pair))


def _unknown(
    installation: Installation, releases: Releases, torches: Sequence[str]
) -> tuple[str, ...]:
    """Names for what may be installed besides the known Triton releases."""
    triton, torch = installation.of(releases.compiler.distribution), installation.torch_with_triton
    if not triton and not torch:
        return ()
    if _is_open(triton, releases.triton[-1]) and _is_open(torch, releases.newest_torch):
        return (releases.beyond,)
    if triton:
        return ()
    return tuple(f"of torch {name}" for name in torches if _public(name) not in releases.torch)


def _is_open(pins: Sequence[Pin], newest: str) -> bool:
    """Whether minor or major releases after the newest known one are admitted."""
    last = Version(newest)
    after = (f"{last.major}.{last.minor + 1}.0", f"{last.major + 1}.0.0", f"{last.major + 1}.1.0")
    return any(satisfies(pins, version) for version in after)


def _admits_older(pins: Sequence[Pin], known: Iterable[str]) -> bool:
    """Whether releases before the oldest known one are admitted."""
    # Older releases are in no table: these numbers stand for them. A release that a pin names by
    # itself was found before.
    oldest = Version(next(iter(known)))
    for numbers in product(range(1, oldest.major + 1), range(10), (0, 1)):
        version = ".".join(map(str, numbers))
        if Version(version) < oldest and satisfies(pins, version):
            return True
    return False


def _public(version: str) -> str:
    return Version(version).public


def _conflict(
    installation: Installation, releases: Releases, tritons: Sequence[str], torches: Sequence[str]
) -> Conflict:
    triton_pins, torch_pins = (
        installation.of(releases.compiler.distribution),
        installation.of("torch"),
    )
    if triton_pins and not tritons:
        return _disjoint(installation, triton_pins, releases.triton)
    if torch_pins and not torches:
        return _disjoint(installation, torch_pins, releases.torch)
    needs = [f"torch {torch} requires triton{releases.torch[_public(torch)]}" for torch in torches]
    if len(needs) > 3:
        needs = [needs[0], "…", needs[-1]]
    pinned = " and ".join(f"{pin.where} pins {pin.requirement}" for pin in triton_pins)
    reason = f"{', '.join(needs)}, but {pinned}"
    return Conflict(installation.name, (*torch_pins, *triton_pins), reason)


def _disjoint(installation: Installation, pins: Sequence[Pin], known: Iterable[str]) -> Conflict:
    """The conflict of pins of one name: two that exclude each other (or one of them that nothing
    satisfies), else all."""
    pairs = (pair for pair in combinations(pins, 2) if not _satisfying(pair, known))
    culprits: tuple[Pin, ...] = next(pairs, tuple(pins))
    alone = ((pin,) for pin in culprits if not _satisfying([pin], known))
    culprits = next(alone, culprits)
    said = " and ".join(f"{pin.requirement} ({pin.where})" for pin in culprits)
    reason = f"no release of {culprits[0].name} satisfies {said}"
    return Conflict(installation.name, culprits, reason)
