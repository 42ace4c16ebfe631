"""The (torch, Triton) pairs that an installation allows, by its pins and by torch's own pins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.pins import Installation, Pin, is_version
from flacheck.evidence.analysis.order import by_version

Pair = tuple[str | None, str]


@dataclass(frozen=True)
class Releases:
    """The existing releases, oldest first.

    `torch` maps each torch release to its specifier for Triton. For another `compiler` than Triton,
    `triton` holds the releases of that compiler and `torch` is empty.
    """

    triton: tuple[str, ...]
    torch: Mapping[str, str]
    compiler: GatedCompiler = TRITON

    @property
    def newest_torch(self) -> str:
        """The newest torch release, "0" if there is none."""
        return next(reversed(list(self.torch)), "0")

    @property
    def beyond(self) -> str:
        """The name for releases that are newer than all listed ones, `>3.9.0`."""
        return f">{self.triton[-1]}"

    @property
    def before(self) -> str:
        """The name for releases that are older than all listed ones, `<3.0.0`."""
        return f"<{self.triton[0]}"

    def with_recorded(self, triton: Iterable[str]) -> Releases:
        """Return the releases with those that have records but are missing from the index."""
        releases = set(self.triton)
        for text in filter(is_version, triton):
            version = Version(text)
            # An index lists local builds never, and pre-releases on request only.
            if version.local is None and not version.is_prerelease:
                releases.add(text)
        return replace(self, triton=tuple(sorted(releases, key=by_version)))

    def torch_for(self, triton: str) -> list[str]:
        """Return the torch releases that can be installed with a Triton release."""
        # No torch requires a local build, whatever its version.
        if "+" in triton:
            return []
        return [torch for torch in self.torch if self.goes(torch, triton)]

    def goes(self, torch: str, triton: str) -> bool:
        """Return True if the two can be installed together.

        An unlisted torch is compatible with any Triton.
        """
        specifier = self.torch.get(_public(torch))
        if specifier is None:
            return True
        return SpecifierSet(specifier).contains(_public(triton), prereleases=True)


@dataclass(frozen=True)
class Conflict:
    """Pins that cannot be satisfied together, and the reason."""

    installation: str
    pins: tuple[Pin, ...]
    reason: str


@dataclass(frozen=True)
class Admission:
    """The releases that an installation allows.

    The torch of `pairs` is None if torch is not pinned; `unknown` are names for unlisted Triton
    releases, such as `>3.9.0`.
    """

    installation: Installation
    pairs: tuple[Pair, ...] = ()
    unknown: tuple[str, ...] = ()
    conflict: Conflict | None = None

    @property
    def triton(self) -> tuple[str, ...]:
        """The allowed Triton releases, oldest first and unlisted ones last."""
        return tuple(sorted({triton for _, triton in self.pairs}, key=by_version)) + self.unknown


def admit(installation: Installation, releases: Releases) -> Admission:
    """Return the pairs that satisfy every pin, or the conflict if there is none."""
    triton_pins = installation.of(releases.compiler.distribution)
    torch_pins = installation.torch_with_triton
    tritons = _satisfying(triton_pins, releases.triton)
    torches = _satisfying(torch_pins, releases.torch)
    pairs = tuple(_pairs(installation, releases, torches, tritons))
    unknown = _unknown(installation, releases, torches)
    if not pairs and not unknown:
        older_triton = _admits_older(triton_pins, releases.triton)
        if older_triton and _admits_older(torch_pins, releases.torch):
            unknown = (releases.before,)
    if pairs or unknown:
        return Admission(installation, pairs, unknown)
    return Admission(installation, conflict=_conflict(installation, releases, tritons, torches))


def satisfies(pins: Iterable[Pin], version: str) -> bool:
    """Return True if every pin allows the version."""
    return all(pin.admits(version) for pin in pins)


def _satisfying(pins: Sequence[Pin], releases: Iterable[str]) -> list[str]:
    """Return the releases that all pins allow; versions named with `==` count as releases."""
    by_release = {Version(version): version for version in releases}
    for pin in pins:
        for version in pin.exact:
            by_release.setdefault(Version(version), version)
    ordered_releases = sorted(by_release.values(), key=by_version)
    return [version for version in ordered_releases if satisfies(pins, version)]


def _pairs(
    installation: Installation, releases: Releases, torches: Sequence[str], tritons: Sequence[str]
) -> Iterable[Pair]:
    """Yield the pairs that can be installed together."""
    if not installation.torch_with_triton:
        for triton in tritons:
            yield None, triton
        return
    if not installation.of(releases.compiler.distribution):
        # The Triton requirement of an unlisted torch is unknown: it goes with a pinned Triton,
        # and alone it allows no pair.
        torches = [torch for torch in torches if _public(torch) in releases.torch]
    for torch, triton in product(torches, tritons):
        if releases.goes(torch, triton):
            yield torch, triton


def _unknown(
    installation: Installation, releases: Releases, torches: Sequence[str]
) -> tuple[str, ...]:
    """Return names for unlisted Triton releases that the pins allow."""
    triton = installation.of(releases.compiler.distribution)
    torch = installation.torch_with_triton
    if not triton and not torch:
        return ()
    if _is_open(triton, releases.triton[-1]) and _is_open(torch, releases.newest_torch):
        return (releases.beyond,)
    if triton:
        return ()
    return tuple(f"of torch {name}" for name in torches if _public(name) not in releases.torch)


def _is_open(pins: Sequence[Pin], newest: str) -> bool:
    """Return True if the pins allow minor or major releases after the newest listed one."""
    last = Version(newest)
    after = (f"{last.major}.{last.minor + 1}.0", f"{last.major + 1}.0.0", f"{last.major + 1}.1.0")
    return any(satisfies(pins, version) for version in after)


def _admits_older(pins: Sequence[Pin], releases: Iterable[str]) -> bool:
    """Return True if the pins allow releases before the oldest listed one."""
    # These numbers stand for older releases, which no table lists. A version that a pin names
    # with `==` has been considered before.
    oldest = Version(next(iter(releases)))
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
    """Return the conflict of an installation that allows no pair."""
    triton_pins = installation.of(releases.compiler.distribution)
    torch_pins = installation.of("torch")
    if triton_pins and not tritons:
        return _disjoint(installation, triton_pins, releases.triton)
    if torch_pins and not torches:
        return _disjoint(installation, torch_pins, releases.torch)
    needs = [f"torch {torch} requires triton{releases.torch[_public(torch)]}" for torch in torches]
    if len(needs) > 3:
        needs = [needs[0], "…", needs[-1]]
    pin_texts = " and ".join(f"{pin.where} pins {pin.requirement}" for pin in triton_pins)
    reason = f"{', '.join(needs)}, but {pin_texts}"
    return Conflict(installation.name, (*torch_pins, *triton_pins), reason)


def _disjoint(installation: Installation, pins: Sequence[Pin], releases: Iterable[str]) -> Conflict:
    """Return the conflict of pins of one distribution that no release satisfies.

    It names a single pin that nothing satisfies if there is one, else the first two pins that
    exclude each other, else all.
    """
    culprits: tuple[Pin, ...] = tuple(pins)
    for pair in combinations(pins, 2):
        if not _satisfying(pair, releases):
            culprits = pair
            break
    for pin in culprits:
        if not _satisfying([pin], releases):
            culprits = (pin,)
            break
    requirements = " and ".join(f"{pin.requirement} ({pin.where})" for pin in culprits)
    reason = f"no release of {culprits[0].name} satisfies {requirements}"
    return Conflict(installation.name, culprits, reason)
