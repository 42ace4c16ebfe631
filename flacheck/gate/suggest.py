"""Which pins to change, and to what, so that the gate passes: as few and as little as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from packaging.version import Version

from flacheck.analysis.known_good import grouped
from flacheck.gate.admitted import Admission, Pair, Releases, admit, satisfies
from flacheck.gate.narrow import alternatives
from flacheck.gate.pinned import Installation, Pin, PinChange
from flacheck.gate.result import ReleaseState

Changes = Mapping[Pin, str]


@dataclass(frozen=True)
class Acceptance:
    """What passes, by the `states` of the Triton releases that have records."""

    releases: Releases
    states: Mapping[str, ReleaseState]
    # Whether all that is admitted has to be good.
    strict: bool = False

    def tolerates(self, triton: str) -> bool:
        """Whether a pin may admit the release."""
        state = self.states.get(triton, ReleaseState.UNTESTED)
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
        """Whether nothing admitted is known to be wrong; what is untested wants a scan instead."""
        return not admission.conflict and all(map(self.tolerates, admission.triton))

    def passes(self, admission: Admission) -> bool:
        """Whether all that is admitted is tolerated, and something of it proven."""
        return self.is_harmless(admission) and any(map(self.is_proven, admission.triton))


def suggest(
    installations: Sequence[Installation], wanted: Acceptance
) -> tuple[tuple[PinChange, ...], tuple[str, ...]]:
    """The changes after which every installation passes, and the names of those beyond help.

    What is admitted is narrowed where some of it passes; else pins move to the nearest pair that
    does.
    """
    changes: dict[Pin, str] = {}
    helpless = []
    for installation in installations:
        # A pin may be part of several installations: what was changed for one holds for the next.
        changed = with_changes(installation, changes)
        admission = admit(changed, wanted.releases)
        if wanted.is_harmless(admission):
            continue
        original = dict(zip(changed.pins, installation.pins))
        new = _narrow(admission, wanted) or _move(admission, wanted)
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
    pins = admission.installation.of("triton")
    newest = wanted.releases.triton[-1]
    tolerated = {
        triton: wanted.tolerates(triton)
        for triton in admission.triton
        if triton not in admission.unknown
    }
    if not pins:
        # A torch is tolerated when every Triton release that it may come with is.
        pins = admission.installation.torch_with_triton
        newest = list(wanted.releases.torch)[-1]
        tolerated = {
            torch or "": all(map(wanted.tolerates, tritons))
            for torch, tritons in grouped(admission.pairs).items()
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
    pin = _editable(pins)
    return {pin: alternatives(pin.specifier, keep, lose, cap)}


def _move(admission: Admission, wanted: Acceptance) -> Changes:
    """The pins that exclude the nearest passing pair, each moved to its release."""
    installation, releases = admission.installation, wanted.releases
    proven = [triton for triton in releases.triton if wanted.is_proven(triton)]
    pairs: list[Pair] = [(None, triton) for triton in proven]
    if installation.torch_with_triton:
        pairs = [pair for pair in product(releases.torch, proven) if releases.goes(*pair)]
    moves = []
    for torch, triton in pairs:
        move = _moves_to(installation, torch, triton)
        if wanted.passes(admit(with_changes(installation, move), releases)):
            moves.append(move)
    return min(moves, key=lambda move: (len(move), _steps(move, releases)), default={})


def _moves_to(installation: Installation, torch: str | None, triton: str) -> Changes:
    """The changes that make every pin admit these releases."""
    moves = {}
    for pin in installation.pins:
        release = triton if pin.name == "triton" else torch
        if release and not pin.admits(release):
            moves[pin] = f"=={release}"
    return moves


def _steps(changes: Changes, releases: Releases) -> tuple[int, int]:
    """How many releases the changes leap in all and, to prefer the newer, how far back they go."""
    known = {"triton": list(releases.triton), "torch": list(releases.torch)}
    leaps = [_leap(pin, to.removeprefix("=="), known[pin.name]) for pin, to in changes.items()]
    return sum(map(abs, leaps)), -sum(leaps)


def _leap(pin: Pin, to: str, known: Sequence[str]) -> int:
    """How many releases on (or back) from the nearest one that the pin admits."""
    new = known.index(to)
    admitted = [index for index, version in enumerate(known) if satisfies([pin], version)]
    # A pin that admits no known release admits newer ones.
    return min((new - old for old in admitted or [len(known)]), key=abs)


def _editable(pins: Sequence[Pin]) -> Pin:
    """The last pin that can be changed in its file: what comes last adds to what came before."""
    return next((pin for pin in reversed(pins) if not pin.obstacle), pins[-1])
