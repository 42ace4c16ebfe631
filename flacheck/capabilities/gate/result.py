"""What a gate finds out of pins, records and waivers, and its JSON."""

from dataclasses import asdict, dataclass
from enum import Enum

from msgspec import json, structs

from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.untested_cells import UntestedGroup
from flacheck.capabilities.gate.admission import Admission, Conflict
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.evidence import BaselineUse
from flacheck.capabilities.gate.pins import Installation, Pin, PinChange
from flacheck.config.waivers import Waiver
from flacheck.errors import Exit
from flacheck.model import Json

# What flacheck.gate/1 shows of a pin and of a release; the rest is told to people.
_PIN = ("file", "line", "name", "specifier")
_RELEASE = (
    *("triton", "torch", "state", "codes", "kernels"),
    *("why", "advisories", "answered", "asked", "known"),
)


class ReleaseState(str, Enum):
    """What the records come to, over all targets that count."""

    GOOD = "good"
    # Good, but something is known against it that no compile shows.
    ADVISED = "advised"
    # A kernel fails, and nothing makes up for it.
    BAD = "bad"
    # A question was asked of it and is not answered as a whole.
    PARTIAL = "partial"
    # Nothing was asked of it, or nothing that was asked came to a verdict.
    NO_RECORD = "no-record"


# What a scan could mend.
OPEN = (ReleaseState.PARTIAL, ReleaseState.NO_RECORD)


@dataclass(frozen=True)
class JudgedRelease:
    """A release, or `>3.9.0` and the like, by its records; `triton` names it, of whatever compiler
    the gate is. `failures` are those that count,
    `waived_cells` counts the cells that fail with leave, `known` those that a baseline lets pass; `why`
    says what keeps the release from being good; `cells` counts the cells with evidence, `unknown`
    those without a verdict, and `untested` the launches that are no evidence. `torch` are the
    releases that it may come with."""

    triton: str
    state: ReleaseState
    failures: tuple[SignatureGroup, ...] = ()
    advisories: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    cells: int = 0
    waived_cells: int = 0
    known: int = 0
    why: str = ""
    torch: tuple[str, ...] = ()
    unknown: int = 0
    untested: int = 0
    answered: int = 0
    asked: int | None = 0

    @property
    def let_pass(self) -> int:
        """How many cells fail and do not count."""
        return self.waived_cells + self.known

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(group.code for group in self.failures))

    @property
    def kernels(self) -> list[str]:
        return sorted({kernel for group in self.failures for kernel in group.kernels})


class WaiverUse(str, Enum):
    """What became of a waiver."""

    ACTIVE = "active"
    EXPIRED = "expired"
    # What it waives compiles again.
    MENDED = "mended"
    # Nothing was tried of what it speaks of.
    UNUSED = "unused"


@dataclass(frozen=True)
class JudgedWaiver:
    """A waiver with how many failing cells it lets pass; `renamed` are the signatures of today of
    those that it names by an older flacheck's."""

    waiver: Waiver
    use: WaiverUse
    cells: int = 0
    renamed: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        """Whether the waiver has to go."""
        return self.use in (WaiverUse.EXPIRED, WaiverUse.MENDED)


@dataclass(frozen=True)
class Gate:
    """What flacheck.gate/1 shows, and what else is told to people.

    `versions` are the admitted releases, `helpless` the installations that no change of a pin lets
    pass; `known_good` are the requirements that admit just the good releases, whatever the pins
    exclude now; `about` says which questions were chosen, `questions` names them; `untested` lists
    what the answers leave out."""

    admissions: tuple[Admission, ...]
    versions: tuple[JudgedRelease, ...] = ()
    judged_waivers: tuple[JudgedWaiver, ...] = ()
    suggest: tuple[PinChange, ...] = ()
    helpless: tuple[str, ...] = ()
    about: str = ""
    known_good: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    untested: tuple[UntestedGroup, ...] = ()
    baseline: BaselineUse | None = None
    compiler: GatedCompiler = TRITON

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The pins of all installations, each once."""
        pins = (pin for admission in self.admissions for pin in admission.installation.pins)
        return tuple(dict.fromkeys(pins))

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Each contradiction once, though it may hold in a project and in all its extras."""
        conflicts = [admission.conflict for admission in self.admissions if admission.conflict]
        return tuple({conflict.pins: conflict for conflict in conflicts}.values())

    @property
    def unproven(self) -> tuple[Installation, ...]:
        """Installations of which no admitted release is answered as a whole."""
        still_open = {release.triton for release in self.of(*OPEN)}
        return tuple(
            admission.installation
            for admission in self.admissions
            if not admission.conflict and still_open.issuperset(admission.triton)
        )

    @property
    def gaps(self) -> list[str]:
        """The admitted releases that exist and are not answered as a whole, oldest first."""
        still_open = (release.triton for release in self.of(*OPEN))
        return [triton for triton in still_open if triton[0].isdigit()]

    def of(self, *states: ReleaseState) -> tuple[JudgedRelease, ...]:
        """The admitted releases in any of these states."""
        return tuple(release for release in self.versions if release.state in states)

    def exit_code(self, strict: bool = False) -> Exit:
        """Findings come before what is incomplete; `strict` counts advisories and gaps too."""
        if self.of(ReleaseState.BAD) or self.conflicts:
            return Exit.FINDINGS
        if any(waived.is_finding for waived in self.judged_waivers):
            return Exit.FINDINGS
        if strict and any(release.advisories for release in self.versions):
            return Exit.FINDINGS
        if self.unproven or (strict and self.of(*OPEN)):
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """flacheck.gate/1."""
        document: Json = {
            "schema": "flacheck.gate/1",
            "pins": [_fields(pin, *_PIN) for pin in self.pins],
            "compiler": self.compiler.family,
            "versions": [_fields(release, *_RELEASE) for release in self.versions],
            "questions": list(self.questions),
            "untested": [each.to_json() for each in self.untested],
            "baseline": self.baseline and asdict(self.baseline),
            "conflicts": [
                {**asdict(conflict), "pins": [_fields(pin, *_PIN) for pin in conflict.pins]}
                for conflict in self.conflicts
            ],
            "waived": [
                {**structs.asdict(entry.waiver), **_fields(entry, "use", "cells")}
                for entry in self.judged_waivers
            ],
            "suggest": [
                {**_fields(change.pin, *_PIN), "to": change.to, "obstacle": change.pin.obstacle}
                for change in self.suggest
            ],
        }
        # Enums, dates and tuples as JSON has them.
        plain: Json = json.decode(json.encode(document))
        return plain


def _fields(entry: object, *names: str) -> Json:
    return {name: getattr(entry, name) for name in names}
