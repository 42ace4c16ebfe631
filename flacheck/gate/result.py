"""What a gate finds: pins, the Triton releases they admit, contradictions, waivers, and what to
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flacheck.analysis.exit_code import PRECEDENCE
from flacheck.analysis.order import by_version
from flacheck.config.waivers import Waiver
from flacheck.errors import Exit
from flacheck.gate.admitted import Admission, Conflict, Releases
from flacheck.gate.pinned import Installation, Pin, distinct
from flacheck.gate.states import ReleaseState, Standing
from flacheck.gate.suggest import PinChange
from flacheck.model import Json

SCHEMA = "flacheck.gate/1"


class WaiverUse(str, Enum):
    """What became of a waiver: it is `active`, or past its day, or its cells compile again, or
    nothing was seen of what it speaks of.
    """

    ACTIVE = "active"
    EXPIRED = "expired"
    MENDED = "mended"
    UNUSED = "unused"


@dataclass(frozen=True)
class JudgedWaiver:
    """A waiver with how many failing cells it lets pass."""

    waiver: Waiver
    use: WaiverUse
    cells: int = 0

    @property
    def is_finding(self) -> bool:
        """Whether the waiver has to go."""
        return self.use in (WaiverUse.EXPIRED, WaiverUse.MENDED)

    def to_json(self) -> Json:
        return {**self.waiver.to_json(), "use": self.use.value, "cells": self.cells}


@dataclass(frozen=True)
class AdmittedRelease:
    """A Triton release (or, as `>3.9.0`, releases nobody knows) that is admitted; `torch` are the
    releases that may come with it, `by` the installations that admit it.
    """

    standing: Standing
    torch: tuple[str, ...]
    by: tuple[str, ...]

    @property
    def triton(self) -> str:
        return self.standing.triton

    @property
    def state(self) -> ReleaseState:
        return self.standing.state

    def to_json(self) -> Json:
        lists = {"codes": self.standing.codes, "kernels": self.standing.kernels}
        return {
            "triton": self.triton,
            "torch": list(self.torch),
            "state": self.state.value,
            **lists,
        }


@dataclass(frozen=True)
class GateResult:
    """The contract's flacheck.gate/1. `helpless` are installations that no change of a pin would
    let pass, `about` says which records were asked, `known_good` what to require so that exactly
    the releases that are good by these records are admitted, those included that the pins exclude
    now.
    """

    admissions: tuple[Admission, ...]
    versions: tuple[AdmittedRelease, ...] = ()
    waived: tuple[JudgedWaiver, ...] = ()
    suggest: tuple[PinChange, ...] = ()
    helpless: tuple[str, ...] = ()
    about: str = ""
    known_good: tuple[str, ...] = ()

    @property
    def pins(self) -> tuple[Pin, ...]:
        return distinct(pin for admission in self.admissions for pin in admission.installation.pins)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Each contradiction once, though it may hold in a project and in all its extras."""
        found = {
            admission.conflict.pins: admission.conflict
            for admission in self.admissions
            if admission.conflict
        }
        return tuple(found.values())

    @property
    def unproven(self) -> tuple[Installation, ...]:
        """Installations of which no admitted release has a verdict."""
        decided = {
            version.triton
            for version in self.versions
            if version.state is not ReleaseState.UNTESTED
        }
        return tuple(
            admission.installation
            for admission in self.admissions
            if not admission.conflict and not decided & set(admission.triton)
        )

    def of(self, *states: ReleaseState) -> tuple[AdmittedRelease, ...]:
        """The admitted releases in any of these states."""
        return tuple(version for version in self.versions if version.state in states)

    def exit_code(self, strict: bool = False) -> Exit:
        """1 for a failing release, a contradiction or a waiver that has to go; 3 when nothing is
        known of what an installation admits. Strictly, an advisory is a finding and an untested
        release incomplete.
        """
        return min(_codes(self, strict), key=PRECEDENCE.index)

    def to_json(self) -> Json:
        lists: Mapping[str, Sequence[object]] = {
            "pins": self.pins,
            "versions": self.versions,
            "conflicts": self.conflicts,
            "waived": self.waived,
            "suggest": self.suggest,
        }
        return {
            "schema": SCHEMA,
            **{name: [entry.to_json() for entry in found] for name, found in lists.items()},
        }  # type: ignore[attr-defined]


def versions(
    admissions: Iterable[Admission], standing_of: Mapping[str, Standing], releases: Releases
) -> tuple[AdmittedRelease, ...]:
    """All admitted Triton releases, oldest first; where no torch is pinned, with the torch releases
    that pin them.
    """
    torch: dict[str, list[str]] = {}
    by: dict[str, list[str]] = {}
    for admission in admissions:
        for release in admission.triton:
            by.setdefault(release, []).append(admission.installation.name)
        for found, release in admission.pairs:
            torch.setdefault(release, []).extend([found] if found else releases.torch_for(release))
    order = sorted(by, key=lambda release: (not release[0].isdigit(), by_version(release)))
    return tuple(
        AdmittedRelease(
            standing_of[release],
            tuple(sorted(set(torch.get(release, ())), key=by_version)),
            tuple(by[release]),
        )
        for release in order
    )


def _codes(outcome: GateResult, strict: bool) -> Iterable[Exit]:
    yield Exit.OK
    findings = (ReleaseState.BAD, ReleaseState.ADVISED) if strict else (ReleaseState.BAD,)
    if (
        outcome.of(*findings)
        or outcome.conflicts
        or any(waived.is_finding for waived in outcome.waived)
    ):
        yield Exit.FINDINGS
    if outcome.unproven or (strict and outcome.of(ReleaseState.UNTESTED)):
        yield Exit.INCOMPLETE
