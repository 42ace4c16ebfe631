"""The gate: installations, evidence and waivers in, the outcome out; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from flacheck import waivers
from flacheck.analysis.observed import observe
from flacheck.gate.admitted import Admission, Releases, admit
from flacheck.gate.evidence import Evidence, place
from flacheck.gate.outcome import Outcome, Use, Waived, versions
from flacheck.gate.pinned import Installation
from flacheck.gate.states import NO_RECORD, Advise, Judge, Standing, State, untested
from flacheck.gate.suggest import Wanted, suggest
from flacheck.model import Record, Verdict
from flacheck.waivers import Waiver


@dataclass(frozen=True)
class Gate:
    """What a gate goes by. `targets` must all be good where any are named; `strict` lets only good releases pass."""

    releases: Releases
    advise: Advise
    targets: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: date = date.min
    strict: bool = False

    def outcome(self, installations: Sequence[Installation], evidence: Evidence, about: str = "") -> Outcome:
        """Judge every Triton release that the installations admit, and look for what to change."""
        known = self.standings(evidence)
        admissions = tuple(admit(installation, self.releases) for installation in installations)
        torch_for = {triton: self._torch_for(triton) for triton in known.keys() | set(self.releases.triton)}
        all_of = {triton: known.get(triton) or untested(triton, self._why(triton)) for triton in _named(admissions)}
        changes, helpless = suggest(installations, Wanted(self.releases, _state_of(known), self.strict))
        return Outcome(
            admissions=admissions,
            versions=versions(admissions, all_of, torch_for),
            waived=tuple(self._waived(waiver, evidence) for waiver in self.waivers),
            suggest=changes,
            helpless=helpless,
            about=about,
            known=known,
        )

    def standings(self, evidence: Evidence) -> dict[str, Standing]:
        """Each Triton release that has a record."""
        valid = waivers.in_force(self.waivers, self.today)
        judge = Judge(self.targets, lambda cell: waivers.waived(valid, cell), self.advise)
        return judge.standings(observe(evidence.records))

    def _torch_for(self, triton: str) -> list[str]:
        # No torch pins a local build, whatever its public version.
        return [] if "+" in triton else [torch for torch in self.releases.torch if self.releases.goes(torch, triton)]

    def _why(self, triton: str) -> str:
        """Why nothing is known of a release without a record."""
        if triton == self.releases.beyond:
            return "newer than every known release"
        if triton == self.releases.before:
            return f"flacheck drives {self.releases.triton[0]} and newer"
        return NO_RECORD if triton[0].isdigit() else "nobody knows which Triton that torch requires"

    def _waived(self, waiver: Waiver, evidence: Evidence) -> Waived:
        cells = sum(waiver.covers(record) for record in evidence.records if record.verdict is Verdict.FAILS)
        if waiver.expired(self.today):
            return Waived(waiver, Use.EXPIRED, cells)
        if cells:
            return Waived(waiver, Use.ACTIVE, cells)
        return Waived(waiver, Use.MENDED if _mended(waiver, evidence) else Use.UNUSED)


def _named(admissions: Sequence[Admission]) -> list[str]:
    return [triton for admission in admissions for triton in admission.triton]


def _state_of(known: Mapping[str, Standing]) -> Callable[[str], State]:
    return lambda triton: known[triton].state if triton in known else State.UNTESTED


def _mended(waiver: Waiver, evidence: Evidence) -> bool:
    """Whether a cell that the waiver let pass compiles now: one that failed so before, or one of its kernel."""
    if waiver.signature is None:
        return any(waiver.names(record.kernel) and _compiles(record) for record in evidence.newest.values())
    failed = (record for record in evidence.failed_with(waiver.signature) if waiver.covers(record))
    return any(_compiles(evidence.newest.get(place(record))) for record in failed)


def _compiles(record: Record | None) -> bool:
    return record is not None and record.verdict is Verdict.COMPILES
