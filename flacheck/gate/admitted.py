"""Which (torch, Triton) pairs an installation admits: its pins, and what each torch release itself
pins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.analysis.order import by_version
from flacheck.gate.pinned import Installation, Pin, is_version
from flacheck.model import Json

Pair = tuple[str | None, str]


@dataclass(frozen=True)
class Releases:
    """The releases there are, oldest first; `torch` maps each to the specifier that it puts on
    Triton.
    """

    triton: tuple[str, ...]
    torch: Mapping[str, str]

    @property
    def beyond(self) -> str:
        """How Triton releases are called that are newer than all known ones."""
        return f">{self.triton[-1]}"

    @property
    def before(self) -> str:
        """How Triton releases are called that are older than all known ones."""
        return f"<{self.triton[0]}"

    def and_those(self, triton: Iterable[str]) -> Releases:
        """With the final Triton releases among these, which have records though no index was asked."""
        new = {
            version for version in triton if is_version(version) and not _special(version)
        } - set(self.triton)
        return (
            replace(self, triton=tuple(sorted({*self.triton, *new}, key=by_version)))
            if new
            else self
        )

    def torch_for(self, triton: str) -> list[str]:
        """The torch releases that a Triton release goes with; no torch pins a local build, whatever
        its version.
        """
        return [] if "+" in triton else [torch for torch in self.torch if self.goes(torch, triton)]

    def goes(self, torch: str, triton: str) -> bool:
        """Whether a torch release can be installed with a Triton release; an unknown torch may go
        with any.
        """
        wanted = self.torch.get(_public(torch))
        return wanted is None or SpecifierSet(wanted).contains(_public(triton), prereleases=True)


@dataclass(frozen=True)
class Conflict:
    """Pins that no installer can satisfy together, and why."""

    installation: str
    pins: tuple[Pin, ...]
    reason: str

    def to_json(self) -> Json:
        return {
            "installation": self.installation,
            "pins": [pin.to_json() for pin in self.pins],
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Admission:
    """What an installation admits. `pairs` have no torch where none is pinned; `unknown` names, as
    `>3.9.0`, Triton releases that flacheck knows nothing of.
    """

    installation: Installation
    pairs: tuple[Pair, ...] = ()
    unknown: tuple[str, ...] = ()
    conflict: Conflict | None = None

    @property
    def triton(self) -> tuple[str, ...]:
        """The Triton releases that may be installed, oldest first, unknown ones included."""
        return tuple(sorted({triton for _, triton in self.pairs}, key=by_version)) + self.unknown


def admit(installation: Installation, releases: Releases) -> Admission:
    """The pairs that satisfy every pin, or the conflict that leaves none."""
    tritons = _satisfying(installation.of("triton"), releases.triton)
    torches = _satisfying(held(installation), list(releases.torch))
    pairs = tuple(_pairs(installation, releases, torches, tritons))
    unknown = _unknown(installation, releases, torches) or (
        () if pairs else _older(installation, releases)
    )
    if pairs or unknown:
        return Admission(installation, pairs, unknown)
    return Admission(installation, conflict=_conflict(installation, releases, tritons, torches))


def held(installation: Installation) -> tuple[Pin, ...]:
    """The pins of torch that say something of Triton; those of a build without it do not."""
    pins = installation.of("torch")
    return pins if all(pin.brings_triton for pin in pins) else ()


def satisfies(pins: Iterable[Pin], version: str) -> bool:
    """Whether every pin admits the version."""
    return all(pin.admits(version) for pin in pins)


def _satisfying(pins: Sequence[Pin], known: Sequence[str]) -> list[str]:
    """The known releases that all pins admit, and those that a pin names by itself."""
    named = {version for pin in pins for version in pin.exact} if pins else set()
    public = {Version(version) for version in known}
    every = [*known, *(version for version in named if Version(version) not in public)]
    return [version for version in sorted(every, key=by_version) if satisfies(pins, version)]


def _pairs(
    installation: Installation, releases: Releases, torches: Sequence[str], tritons: Sequence[str]
) -> Iterator[Pair]:
    if not held(installation):
        yield from ((None, triton) for triton in tritons)
        return
    # What an unknown torch requires nobody knows: it goes with what is pinned beside it, and says
    # nothing alone.
    known = [
        torch for torch in torches if installation.of("triton") or _public(torch) in releases.torch
    ]
    yield from (
        (torch, triton) for torch in known for triton in tritons if releases.goes(torch, triton)
    )


def _unknown(
    installation: Installation, releases: Releases, torches: Sequence[str]
) -> tuple[str, ...]:
    """Names for what may be installed besides the known Triton releases."""
    triton, torch = installation.of("triton"), held(installation)
    if not triton and not torch:
        return ()
    if _open(triton, releases.triton[-1]) and _open(torch, list(releases.torch)[-1]):
        return (releases.beyond,)
    strange = [name for name in torches if torch and _public(name) not in releases.torch]
    return () if triton else tuple(f"of torch {name}" for name in strange)


def _open(pins: Sequence[Pin], newest: str) -> bool:
    """Whether minor or major releases after the newest known one are admitted."""
    last = Version(newest)
    after = (f"{last.major}.{last.minor + 1}.0", f"{last.major + 1}.0.0", f"{last.major + 1}.1.0")
    return any(satisfies(pins, version) for version in after)


def _older(installation: Installation, releases: Releases) -> tuple[str, ...]:
    """The name for Triton releases before the oldest known one, when those are all that is
    admitted.
    """
    asked = (
        (installation.of("triton"), releases.triton[0]),
        (held(installation), next(iter(releases.torch))),
    )
    return (releases.before,) if all(_admits_older(pins, oldest) for pins, oldest in asked) else ()


def _admits_older(pins: Sequence[Pin], oldest: str) -> bool:
    first = Version(oldest)
    versions = (
        f"{major}.{minor}.{patch}"
        for major in range(1, first.major + 1)
        for minor in range(10)
        for patch in (0, 1)
    )
    return any(Version(version) < first and satisfies(pins, version) for version in versions)


def _special(version: str) -> bool:
    """Whether this is a local build or a pre-release, which no index offers by itself."""
    return Version(version).local is not None or Version(version).is_prerelease


def _public(version: str) -> str:
    return Version(version).public


def _conflict(
    installation: Installation, releases: Releases, tritons: Sequence[str], torches: Sequence[str]
) -> Conflict:
    for name, found, known in (
        ("triton", tritons, releases.triton),
        ("torch", torches, list(releases.torch)),
    ):
        pins = installation.of(name)
        if pins and not found:
            return _disjoint(installation, name, pins, known)
    wanted = dict.fromkeys(
        f"torch {torch} requires triton{releases.torch[_public(torch)]}" for torch in torches
    )
    pinned = " and ".join(f"{pin.where} pins {pin.said}" for pin in installation.of("triton"))
    reason = f"{_few(list(wanted))}, but {pinned}"
    return Conflict(
        installation.name, (*installation.of("torch"), *installation.of("triton")), reason
    )


def _disjoint(
    installation: Installation, name: str, pins: Sequence[Pin], known: Sequence[str]
) -> Conflict:
    """Pins of one name: the first two that exclude each other, else all of them."""
    pair = next((two for two in combinations(pins, 2) if not _satisfying(two, known)), tuple(pins))
    empty = next((pin for pin in pair if not _satisfying([pin], known)), None)
    if empty or len(pair) == 1:
        pin = empty or pair[0]
        return Conflict(
            installation.name, (pin,), f"no release of {name} satisfies {pin.said} ({pin.where})"
        )
    said = " and ".join(f"{pin.said} ({pin.where})" for pin in pair)
    return Conflict(installation.name, pair, f"no release of {name} satisfies {said}")


def _few(texts: Sequence[str]) -> str:
    return ", ".join(texts if len(texts) < 4 else (texts[0], "…", texts[-1]))
