"""The smallest changes of pins after which a gate passes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from flacheck.capabilities.gate.admission import Admission, Pair, Releases, admit
from flacheck.capabilities.gate.judged_pins import ReleaseState
from flacheck.capabilities.gate.pins import Installation, Pin, PinChange
from flacheck.evidence.analysis.known_good import group_by_key

Changes = Mapping[Pin, str]
_PASSING = (ReleaseState.GOOD, ReleaseState.SCREENED)
_LOWER = (">=", ">")
_UPPER = ("<=", "<")


@dataclass(frozen=True)
class Acceptance:
    """The rule for releases that pins may allow, by the `states` of those with records.

    With `strict` every allowed release must be good.
    """

    releases: Releases
    states: Mapping[str, ReleaseState]
    strict: bool = False

    def without_advised(self, tritons: Iterable[str]) -> Acceptance:
        """Return a rule that rejects releases with an advisory, if an allowed one is good."""
        if not any(self.states.get(triton) in _PASSING for triton in tritons):
            return self
        states = dict(self.states)
        for triton, state in self.states.items():
            if state is ReleaseState.ADVISED:
                states[triton] = ReleaseState.BAD
        return replace(self, states=states)

    def tolerates(self, triton: str) -> bool:
        """Return True if a pin may allow the release."""
        state = self.states.get(triton, ReleaseState.NO_RECORD)
        if self.strict:
            return state is ReleaseState.GOOD
        return state is not ReleaseState.BAD

    def is_proven(self, triton: str) -> bool:
        """Return True if records show that the release compiles."""
        state = self.states.get(triton)
        if self.strict:
            return state is ReleaseState.GOOD
        return state in (*_PASSING, ReleaseState.ADVISED)

    def is_harmless(self, admission: Admission) -> bool:
        """Return True if no allowed release is bad; releases without a record need a scan only."""
        return not admission.conflict and all(map(self.tolerates, admission.triton))

    def passes(self, admission: Admission) -> bool:
        """Return True if every allowed release is tolerated, and one is proven."""
        return self.is_harmless(admission) and any(map(self.is_proven, admission.triton))


def suggest(
    installations: Sequence[Installation], rule: Acceptance
) -> tuple[tuple[PinChange, ...], tuple[str, ...]]:
    """Return the changes after which the installations pass, and the names of those that cannot.

    A pin is narrowed if a release that it allows passes; else the pins move to the nearest pair.
    """
    changes: dict[Pin, str] = {}
    helpless = []
    for installation in installations:
        # Installations share pins: the change of a pin for one holds for the next.
        new_installation = with_changes(installation, changes)
        admission = admit(new_installation, rule.releases)
        if rule.is_harmless(admission):
            continue
        original = dict(zip(new_installation.pins, installation.pins))
        # A new specifier should not allow releases with an advisory.
        strict_rule = rule.without_advised(admission.triton)
        new = _narrow(admission, strict_rule) or _move(admission, rule)
        for pin, to in new.items():
            changes[original[pin]] = to
        if not rule.passes(admit(with_changes(installation, changes), rule.releases)):
            helpless.append(installation.name)
    pin_changes = tuple(PinChange(pin, to) for pin, to in changes.items())
    return pin_changes, tuple(helpless)


def with_changes(installation: Installation, changes: Changes) -> Installation:
    """Return the installation after the changes, its pins in their order."""
    pins = list(installation.pins)
    for index, pin in enumerate(pins):
        if pin in changes:
            pins[index] = replace(pin, specifier=changes[pin])
    return Installation(installation.name, tuple(pins))


def _narrow(admission: Admission, rule: Acceptance) -> Changes:
    """Return a narrower pin of Triton or else of torch; empty if no allowed release is proven."""
    if not any(map(rule.is_proven, admission.triton)):
        return {}
    pins = admission.installation.of(rule.releases.compiler.distribution)
    newest = rule.releases.triton[-1]
    tolerance: dict[str, bool] = {}
    for triton in admission.triton:
        if triton not in admission.unknown:
            tolerance[triton] = rule.tolerates(triton)
    if not pins:
        # A torch is tolerated if every Triton release that it may come with is.
        pins = admission.installation.torch_with_triton
        newest = rule.releases.newest_torch
        tolerance = {}
        for torch, tritons in group_by_key(admission.pairs).items():
            tolerance[torch or ""] = all(map(rule.tolerates, tritons))
    keep = [release for release, is_tolerated in tolerance.items() if is_tolerated]
    lose = [release for release, is_tolerated in tolerance.items() if not is_tolerated]
    if not keep or not pins:
        return {}
    cap = None
    if rule.strict and admission.unknown:
        # In strict mode the pin must not allow future releases either.
        last = Version(newest)
        cap = f"{last.major}.{last.minor + 1}"
    pin = _editable(pins)
    return {pin: alternatives(pin.specifier, keep, lose, cap)}


def _editable(pins: Sequence[Pin]) -> Pin:
    """Return the last pin that can be edited, because later files override earlier ones."""
    for pin in reversed(pins):
        if not pin.obstacle:
            return pin
    return pins[-1]


def _move(admission: Admission, rule: Acceptance) -> Changes:
    """Return changes of the pins that exclude the nearest passing pair, each to its release."""
    installation, releases = admission.installation, rule.releases
    proven = [triton for triton in releases.triton if rule.is_proven(triton)]
    pairs: list[Pair] = [(None, triton) for triton in proven]
    if installation.torch_with_triton:
        pairs = [pair for pair in product(releases.torch, proven) if releases.goes(*pair)]
    moves: list[tuple[bool, int, int, int, int, dict[Pin, str]]] = []
    for torch, triton in pairs:
        move = _pins_moved_to(installation, torch, triton, releases.compiler.distribution)
        if rule.passes(admit(with_changes(installation, move), releases)):
            has_advisory = rule.states.get(triton) is ReleaseState.ADVISED
            moves.append((has_advisory, *_cost(move, releases), len(moves), move))
    if not moves:
        return {}
    # The number before the mapping is unique, so that mappings are never compared.
    return min(moves)[-1]


def _pins_moved_to(
    installation: Installation, torch: str | None, triton: str, distribution: str
) -> dict[Pin, str]:
    """Return the pins that exclude one of the two releases, each with `==` its release."""
    versions = {"torch": torch, distribution: triton}
    moves = {}
    for pin in installation.pins:
        version = versions[pin.name]
        if version and not pin.admits(version):
            moves[pin] = f"=={version}"
    return moves


def _cost(move: Changes, releases: Releases) -> tuple[int, int, int]:
    """Return the number of changed pins, of releases in between, and the distance back.

    The last number makes newer releases cheaper than older ones.
    """
    versions_of = {
        releases.compiler.distribution: list(releases.triton),
        "torch": list(releases.torch),
    }
    leaps = []
    for pin, to in move.items():
        versions = versions_of[pin.name]
        new = versions.index(to.removeprefix("=="))
        indexes = [index for index, version in enumerate(versions) if pin.admits(version)]
        # From the nearest release that the pin allows; a pin without one allows newer releases.
        distances = [new - old for old in indexes or [len(versions)]]
        leaps.append(min(distances, key=abs))
    return len(move), sum(map(abs, leaps)), -sum(leaps)


def narrow_specifier(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """Return a narrower specifier that allows all of `keep` (not empty), and none of `lose`.

    Releases to lose below or above those to keep move a bound; those between are excluded with
    `!=`. With `cap` the specifier also excludes this version and every later one.
    """
    to_keep = sorted(map(Version, keep))
    to_lose = sorted(map(Version, lose))
    below = [version for version in to_lose if version < to_keep[0]]
    between = [version for version in to_lose if to_keep[0] < version < to_keep[-1]]
    above = [version for version in to_lose if version > to_keep[-1]]
    if cap:
        above.append(Version(cap))
    lower, middle, upper = [], [], []
    if below:
        lower = [Specifier(f">={to_keep[0]}")]
    # The clauses stay in the order of the file.
    for text in filter(None, re.split(r"\s*,\s*", specifier.strip())):
        clause = Specifier(text)
        if clause.operator in _UPPER:
            upper.append(clause)
        elif _matters(clause, to_keep, below, above):
            middle.append(clause)
    if above:
        upper = [_bound_below(min(above))]
    exclusions = [Specifier(f"!={version}") for version in between]
    return ",".join(map(str, [*lower, *middle, *exclusions, *upper]))


def _bound_below(version: Version) -> Specifier:
    """Return `<` a version; 3.9.0 is written as 3.9, which is the same version."""
    minor = Version(f"{version.major}.{version.minor}")
    return Specifier(f"<{minor if version == minor else version}")


def alternatives(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """Narrow each alternative (Poetry's `||`), and drop those that allow none of `keep`."""
    keep, lose = list(keep), list(lose)
    narrow = []
    for text in specifier.split("||"):
        own = [version for version in keep if SpecifierSet(text).contains(version)]
        if own:
            narrow.append(narrow_specifier(text, own, lose, cap))
    return " || ".join(narrow)


def _matters(
    clause: Specifier,
    to_keep: Sequence[Version],
    below: Sequence[Version],
    above: Sequence[Version],
) -> bool:
    """Return False for a replaced lower bound, and for an exclusion outside the new bounds."""
    if clause.operator in _LOWER:
        return not below
    if clause.operator != "!=" or clause.version.endswith(".*"):
        return True
    version = Version(clause.version)
    return not ((below and version < to_keep[0]) or (above and version >= min(above)))
