"""Which pins to change, and to what, so that the gate passes: as few and as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from packaging.version import Version

from flacheck.gate.admitted import Admission, Releases, admit, held, satisfies
from flacheck.gate.narrow import alternatives
from flacheck.gate.pinned import Installation, Pin
from flacheck.gate.states import ReleaseState
from flacheck.model import Json

Changes = Mapping[Pin, str]


@dataclass(frozen=True)
class PinChange:
    """`pin` should read `to` (a PEP 440 specifier) instead."""

    pin: Pin
    to: str

    def to_json(self) -> Json:
        return {**self.pin.to_json(), "to": self.to, "obstacle": self.pin.obstacle}


@dataclass(frozen=True)
class Wanted:
    """What passes: `state_of` a Triton release; `strict` wants all that is admitted to be good."""

    releases: Releases
    state_of: Callable[[str], ReleaseState]
    strict: bool = False

    def tolerable(self, triton: str) -> bool:
        """Whether a pin may admit the release."""
        state = self.state_of(triton)
        return state is ReleaseState.GOOD if self.strict else state is not ReleaseState.BAD

    def proven(self, triton: str) -> bool:
        """Whether the release is known to compile."""
        return self.state_of(triton) is ReleaseState.GOOD or (
            self.state_of(triton) is ReleaseState.ADVISED and not self.strict
        )

    def harmless(self, admission: Admission) -> bool:
        """Whether nothing that an installation admits is known to be wrong; what is untested wants
        a scan instead.
        """
        return not admission.conflict and all(map(self.tolerable, admission.triton))

    def passes(self, admission: Admission) -> bool:
        """Whether an installation is fine: all it admits is tolerable, and something of it is
        proven.
        """
        return self.harmless(admission) and any(map(self.proven, admission.triton))


def suggest(
    installations: Sequence[Installation], wanted: Wanted
) -> tuple[tuple[PinChange, ...], tuple[str, ...]]:
    """The changes after which every installation passes, and the names of those that no change can
    help.

    What is admitted is narrowed where something of it passes; else pins are moved to the nearest
    pair that does.
    """
    changes: dict[Pin, str] = {}
    helpless = []
    for installation in installations:
        changed = with_changes(installation, changes)
        admission = admit(changed, wanted.releases)
        if wanted.harmless(admission):
            continue
        found = _narrow(admission, wanted) or _move(admission, wanted)
        original = dict(zip(changed.pins, installation.pins))
        changes |= {original[pin]: to for pin, to in found.items()}
        helpless += (
            []
            if wanted.passes(admit(with_changes(installation, changes), wanted.releases))
            else [installation.name]
        )
    return tuple(PinChange(pin, to) for pin, to in changes.items()), tuple(helpless)


def with_changes(installation: Installation, changes: Changes) -> Installation:
    """The installation as it is after the changes, pin for pin."""
    pins = (
        replace(pin, specifier=changes[pin]) if pin in changes else pin for pin in installation.pins
    )
    return Installation(installation.name, tuple(pins))


def _narrow(admission: Admission, wanted: Wanted) -> Changes:
    """One pin that admits less: of Triton where it is pinned, else of torch; nothing when nothing
    admitted passes.
    """
    triton = admission.installation.of("triton")
    if not any(map(wanted.proven, admission.triton)):
        return {}
    known = [release for release in admission.triton if release not in admission.unknown]
    if triton:
        pin, keep = _editable(triton), [release for release in known if wanted.tolerable(release)]
        lose = [release for release in known if release not in keep]
        newest = wanted.releases.triton[-1]
    else:
        pin, (keep, lose) = _editable(held(admission.installation)), _torches(admission, wanted)
        newest = list(wanted.releases.torch)[-1]
    cap = _next_minor(newest) if wanted.strict and admission.unknown else None
    return {pin: alternatives(pin.specifier, keep, lose, cap)} if keep else {}


def _torches(admission: Admission, wanted: Wanted) -> tuple[list[str], list[str]]:
    """The admitted torch releases all of whose Triton releases are tolerable, and the others."""
    brought: dict[str, list[str]] = {}
    for torch, triton in admission.pairs:
        brought.setdefault(torch or "", []).append(triton)
    keep = [torch for torch, found in brought.items() if all(map(wanted.tolerable, found))]
    return keep, [torch for torch in brought if torch not in keep]


def _move(admission: Admission, wanted: Wanted) -> Changes:
    """The pins that exclude the nearest passing pair, each moved to its release; nothing when no
    pair passes.
    """
    installation, releases = admission.installation, wanted.releases
    good = [triton for triton in releases.triton if wanted.proven(triton)]
    pairs: list[tuple[str | None, str]] = [(None, triton) for triton in good]
    if held(installation):
        pairs = [
            (torch, triton)
            for torch, triton in product(releases.torch, good)
            if releases.goes(torch, triton)
        ]
    moves = [_moved(installation, torch, triton) for torch, triton in pairs]
    moves = [
        move for move in moves if wanted.passes(admit(with_changes(installation, move), releases))
    ]
    return min(moves, key=lambda move: (len(move), _steps(move, releases)), default={})


def _moved(installation: Installation, torch: str | None, triton: str) -> Changes:
    to = {"triton": triton, "torch": torch}
    return {
        pin: f"=={to[pin.name]}"
        for pin in installation.pins
        if to[pin.name] and not pin.admits(str(to[pin.name]))
    }


def _steps(changes: Changes, releases: Releases) -> tuple[int, int]:
    """How many releases the changes leap over in all, and (to prefer the newer) how far back they
    go.
    """
    known = {"triton": releases.triton, "torch": tuple(releases.torch)}
    leaps = [_leap(pin, to.removeprefix("=="), known[pin.name]) for pin, to in changes.items()]
    return sum(map(abs, leaps)), -sum(leaps)


def _leap(pin: Pin, to: str, known: Sequence[str]) -> int:
    """How many releases on (or back) from what the pin admits."""
    admitted = [place for place, version in enumerate(known) if satisfies([pin], version)] or [
        len(known)
    ]
    place = known.index(to)
    return min((place - old for old in admitted), key=abs)


def _editable(pins: Sequence[Pin]) -> Pin:
    """The last pin that can be changed in its file: what comes last adds to what came before."""
    return next((pin for pin in reversed(pins) if not pin.obstacle), pins[-1])


def _next_minor(version: str) -> str:
    last = Version(version)
    return f"{last.major}.{last.minor + 1}"
