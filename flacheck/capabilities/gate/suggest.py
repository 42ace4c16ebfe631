"""Which pins to change, and to what, so that the gate passes: as few and as little as possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from flacheck.analysis.known_good import group_by_key
from flacheck.capabilities.gate.admission import Admission, Pair, Releases, admit
from flacheck.capabilities.gate.pins import Installation, Pin, PinChange
from flacheck.capabilities.gate.result import ReleaseState

Changes = Mapping[Pin, str]
_LOWER = (">=", ">")
_UPPER = ("<=", "<")


@dataclass(frozen=True)
class Acceptance:
    """What passes, by the `states` of the Triton releases that have records."""

    releases: Releases
    states: Mapping[str, ReleaseState]
    # Whether all that is admitted has to be good.
    strict: bool = False

    def without_advised(self, admitted: Iterable[str]) -> Acceptance:
        """The same without releases that an advisory speaks against, where another is good."""
        if not any(self.states.get(triton) is ReleaseState.GOOD for triton in admitted):
            return self
        states = dict(self.states)
        for triton, state in self.states.items():
            if state is ReleaseState.ADVISED:
                states[triton] = ReleaseState.BAD
        return replace(self, states=states)

    def tolerates(self, triton: str) -> bool:
        """Whether a pin may admit the release."""
        state = self.states.get(triton, ReleaseState.NO_RECORD)
        if self.strict:
            return state is ReleaseState.GOOD
        return state is not ReleaseState.BAD

    def is_proven(self, triton: str) -> bool:
        """Whether the release is known to compile."""
        state = self.states.get(triton)
        if self.strict:
            return state is ReleaseState.GOOD
        return state in (ReleaseState.GOOD, ReleaseState.ADVISED)

    def is_harmless(self, admission: Admission) -> bool:
        """Whether nothing admitted is known to be wrong; what has no record wants a scan."""
        return not admission.conflict and all(map(self.tolerates, admission.triton))

    def passes(self, admission: Admission) -> bool:
        """Whether all that is admitted is tolerated, and something of it proven."""
        return self.is_harmless(admission) and any(map(self.is_proven, admission.triton))


def suggest(
    installations: Sequence[Installation], wanted: Acceptance
) -> tuple[tuple[PinChange, ...], tuple[str, ...]]:
    """The changes after which every installation passes, and the names of those beyond help. What
    is admitted is narrowed where some of it passes; else pins move to the nearest pair."""
    changes: dict[Pin, str] = {}
    helpless = []
    for installation in installations:
        # A pin may be part of several installations: what was changed for one holds for the next.
        changed = with_changes(installation, changes)
        admission = admit(changed, wanted.releases)
        if wanted.is_harmless(admission):
            continue
        original = dict(zip(changed.pins, installation.pins))
        # What is written anew need not admit what an advisory speaks against.
        better = wanted.without_advised(admission.triton)
        new = _narrow(admission, better) or _move(admission, wanted)
        changes |= {original[pin]: to for pin, to in new.items()}
        if not wanted.passes(admit(with_changes(installation, changes), wanted.releases)):
            helpless.append(installation.name)
    return tuple(PinChange(pin, to) for pin, to in changes.items()), tuple(helpless)


def with_changes(installation: Installation, changes: Changes) -> Installation:
    """The installation as it is after the changes, pin for pin."""
    pins = list(installation.pins)
    for index, pin in enumerate(pins):
        if pin in changes:
            pins[index] = replace(pin, specifier=changes[pin])
    return Installation(installation.name, tuple(pins))


def _narrow(admission: Admission, wanted: Acceptance) -> Changes:
    """One pin that admits less, of Triton or else of torch; nothing if nothing admitted passes."""
    if not any(map(wanted.is_proven, admission.triton)):
        return {}
    pins = admission.installation.of(wanted.releases.compiler.distribution)
    newest = wanted.releases.triton[-1]
    tolerated = {
        triton: wanted.tolerates(triton)
        for triton in admission.triton
        if triton not in admission.unknown
    }
    if not pins:
        # A torch is tolerated when every Triton release that it may come with is.
        pins = admission.installation.torch_with_triton
        newest = wanted.releases.newest_torch
        tolerated = {
            torch or "": all(map(wanted.tolerates, tritons))
            for torch, tritons in group_by_key(admission.pairs).items()
        }
    keep = [release for release, is_tolerated in tolerated.items() if is_tolerated]
    lose = [release for release, is_tolerated in tolerated.items() if not is_tolerated]
    if not keep or not pins:
        return {}
    cap = None
    if wanted.strict and admission.unknown:
        # Strictly, releases that are not there yet may not be admitted either.
        last = Version(newest)
        cap = f"{last.major}.{last.minor + 1}"
    # The last one that can be edited, for what comes last adds to what came before.
    pin = next((pin for pin in reversed(pins) if not pin.obstacle), pins[-1])
    return {pin: alternatives(pin.specifier, keep, lose, cap)}


def _move(admission: Admission, wanted: Acceptance) -> Changes:
    """The pins that exclude the nearest passing pair, each moved to its release."""
    installation, releases = admission.installation, wanted.releases
    proven = [triton for triton in releases.triton if wanted.is_proven(triton)]
    pairs: list[Pair] = [(None, triton) for triton in proven]
    if installation.torch_with_triton:
        pairs = [pair for pair in product(releases.torch, proven) if releases.goes(*pair)]
    moves: list[tuple[bool, int, int, int, int, dict[Pin, str]]] = []
    for torch, triton in pairs:
        to = {"torch": torch, releases.compiler.distribution: triton}
        move = {
            pin: f"=={to[pin.name]}"
            for pin in installation.pins
            if to[pin.name] and not pin.admits(to[pin.name] or "")
        }
        if wanted.passes(admit(with_changes(installation, move), releases)):
            is_advised = wanted.states.get(triton) is ReleaseState.ADVISED
            moves.append((is_advised, *_cost(move, releases), len(moves), move))
    # The count of those before decides between equals, so that mappings are never compared.
    return min(moves)[-1] if moves else {}


def _cost(move: Changes, releases: Releases) -> tuple[int, int, int]:
    """How many pins change, how many releases they leap in all and, to prefer the newer, how far
    back they go."""
    known = {
        releases.compiler.distribution: list(releases.triton),
        "torch": list(releases.torch),
    }
    leaps = []
    for pin, to in move.items():
        versions = known[pin.name]
        new = versions.index(to.removeprefix("=="))
        admitted = [place for place, version in enumerate(versions) if pin.admits(version)]
        # From the nearest release that the pin admits; without a known one it admits newer ones.
        leaps.append(min((new - old for old in admitted or [len(versions)]), key=abs))
    return len(move), sum(map(abs, leaps)), -sum(leaps)


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
        bound, minor = min(above), Version(f"{min(above).major}.{min(above).minor}")
        # 3.9 for 3.9.0: the two say the same.
        if bound == minor:
            bound = minor
        upper = [Specifier(f"<{bound}")]
    excluded = [Specifier(f"!={version}") for version in between]
    return ",".join(map(str, [*lower, *middle, *excluded, *upper]))


def alternatives(
    specifier: str, keep: Iterable[str], lose: Iterable[str], cap: str | None = None
) -> str:
    """The same for alternatives (Poetry's `||`): those that admit nothing of `keep` go."""
    kept, lost, narrow = list(keep), list(lose), []
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
