"""What a gate finds: pins, the Triton releases they admit, contradictions, waivers, and what to
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from flacheck.config.waivers import Waiver
from flacheck.errors import Exit
from flacheck.gate.admitted import Admission, Conflict
from flacheck.gate.pinned import Installation, Pin
from flacheck.gate.states import ReleaseState, Standing
from flacheck.gate.suggest import PinChange
from flacheck.model import Json

SCHEMA = "flacheck.gate/1"
# What flacheck.gate/1 shows of each, in its order.
_PIN = ("file", "line", "name", "specifier")
_RELEASE = ("triton", "torch", "state", "codes", "kernels")


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


@dataclass(frozen=True)
class AdmittedRelease:
    """A Triton release (or, as `>3.9.0`, releases nobody knows) that is admitted; `torch` are the
    releases that may come with it.
    """

    standing: Standing
    torch: Sequence[str]

    @property
    def triton(self) -> str:
        return self.standing.triton

    @property
    def state(self) -> ReleaseState:
        return self.standing.state

    @property
    def codes(self) -> list[str]:
        return self.standing.codes

    @property
    def kernels(self) -> list[str]:
        return self.standing.kernels


@dataclass(frozen=True)
class GateResult:
    """What flacheck.gate/1 shows. `helpless` are installations that no change of a pin would let
    pass, `about` says which records were asked, `known_good` what to require so that exactly the
    releases that are good by these records are admitted, those included that the pins exclude now.
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
        """The pins of all installations, each once."""
        pins = (pin for admission in self.admissions for pin in admission.installation.pins)
        return tuple(dict.fromkeys(pins))

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Each contradiction once, though it may hold in a project and in all its extras."""
        by_pins = {
            admission.conflict.pins: admission.conflict
            for admission in self.admissions
            if admission.conflict
        }
        return tuple(by_pins.values())

    @property
    def unproven(self) -> tuple[Installation, ...]:
        """Installations of which no admitted release has a verdict."""
        untested = {release.triton for release in self.of(ReleaseState.UNTESTED)}
        return tuple(
            admission.installation
            for admission in self.admissions
            if not admission.conflict and untested.issuperset(admission.triton)
        )

    @property
    def gaps(self) -> list[str]:
        """The admitted releases that exist and have no verdict, oldest first."""
        untested = [release.triton for release in self.of(ReleaseState.UNTESTED)]
        return [triton for triton in untested if triton[0].isdigit()]

    def of(self, *states: ReleaseState) -> tuple[AdmittedRelease, ...]:
        """The admitted releases in any of these states."""
        return tuple(release for release in self.versions if release.state in states)

    def exit_code(self, strict: bool = False) -> Exit:
        """1 for a failing release, a contradiction or a waiver that has to go; 3 when nothing is
        known of what an installation admits. Strictly, an advisory is a finding and an untested
        release incomplete.
        """
        has_to_go = any(waived.is_finding for waived in self.waived)
        if self.of(ReleaseState.BAD) or self.conflicts or has_to_go:
            return Exit.FINDINGS
        if strict and self.of(ReleaseState.ADVISED):
            return Exit.FINDINGS
        if self.unproven or (strict and self.of(ReleaseState.UNTESTED)):
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """flacheck.gate/1."""
        document: Json = msgspec.to_builtins(
            {
                "schema": SCHEMA,
                "pins": [_fields(pin, _PIN) for pin in self.pins],
                "versions": [_fields(release, _RELEASE) for release in self.versions],
                "conflicts": [
                    {
                        "installation": conflict.installation,
                        "pins": [_fields(pin, _PIN) for pin in conflict.pins],
                        "reason": conflict.reason,
                    }
                    for conflict in self.conflicts
                ],
                "waived": [
                    {**msgspec.structs.asdict(entry.waiver), "use": entry.use, "cells": entry.cells}
                    for entry in self.waived
                ],
                "suggest": [
                    {**_fields(change.pin, _PIN), "to": change.to, "obstacle": change.pin.obstacle}
                    for change in self.suggest
                ],
            }
        )
        return document


def _fields(entry: Any, names: Iterable[str]) -> Json:
    return {name: getattr(entry, name) for name in names}
