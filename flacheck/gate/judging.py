"""The gate: installations, evidence and waivers in, the outcome out; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from flacheck.analysis.observed import observe
from flacheck.config import waivers
from flacheck.config.waivers import Waiver
from flacheck.gate.admitted import Admission, Releases, admit
from flacheck.gate.evidence import Evidence, place
from flacheck.gate.pinned import Installation
from flacheck.gate.result import GateResult, JudgedWaiver, WaiverUse, versions
from flacheck.gate.states import NO_RECORD, Advise, Judge, ReleaseState, Standing, untested
from flacheck.gate.suggest import Wanted, suggest
from flacheck.model import Record, Verdict
from flacheck.toolchains import torch_pins as pins


@dataclass(frozen=True)
class Gate:
    """What a gate goes by. `targets` must all be good where any are named; `strict` lets only good
    releases pass.
    """

    releases: Releases
    advise: Advise
    targets: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: date = date.min
    strict: bool = False

    def outcome(
        self, installations: Sequence[Installation], evidence: Evidence, about: str = ""
    ) -> GateResult:
        """Judge every Triton release that the installations admit, and look for what to change."""
        known = self.standings(evidence)
        releases = self.releases.and_those(known)
        admissions = tuple(admit(installation, releases) for installation in installations)
        standing_of = {
            triton: known.get(triton) or _unrecorded(triton, releases)
            for triton in _named(admissions)
        }
        changes, helpless = suggest(installations, Wanted(releases, _state_of(known), self.strict))
        return GateResult(
            admissions=admissions,
            versions=versions(admissions, standing_of, releases),
            waived=tuple(self._waived(waiver, evidence) for waiver in self.waivers),
            suggest=changes,
            helpless=helpless,
            about=about,
            known_good=_known_good(known, releases),
        )

    def standings(self, evidence: Evidence) -> dict[str, Standing]:
        """Each Triton release that has a record."""
        valid = waivers.in_force(self.waivers, self.today)
        judge = Judge(self.targets, lambda cell: waivers.waived(valid, cell), self.advise)
        return judge.standings(observe(evidence.records))

    def _waived(self, waiver: Waiver, evidence: Evidence) -> JudgedWaiver:
        cells = sum(
            waiver.covers(record) for record in evidence.records if record.verdict is Verdict.FAILS
        )
        if waiver.expired(self.today):
            return JudgedWaiver(waiver, WaiverUse.EXPIRED, cells)
        if cells:
            return JudgedWaiver(waiver, WaiverUse.ACTIVE, cells)
        return JudgedWaiver(
            waiver, WaiverUse.MENDED if _mended(waiver, evidence) else WaiverUse.UNUSED
        )


def _named(admissions: Sequence[Admission]) -> list[str]:
    return [triton for admission in admissions for triton in admission.triton]


def _state_of(known: Mapping[str, Standing]) -> Callable[[str], ReleaseState]:
    return lambda triton: known[triton].state if triton in known else ReleaseState.UNTESTED


def _unrecorded(triton: str, releases: Releases) -> Standing:
    """A release without a record, with the reason why nothing is known of it."""
    if triton == releases.beyond:
        return untested(triton, "newer than every known release")
    if triton == releases.before:
        return untested(triton, f"flacheck drives {releases.triton[0]} and newer")
    return untested(
        triton,
        NO_RECORD if triton[0].isdigit() else "nobody knows which Triton that torch requires",
    )


def _known_good(known: Mapping[str, Standing], releases: Releases) -> tuple[str, ...]:
    """The requirements that admit exactly the good releases, and the torch releases that bring
    them.
    """
    # A waiver lets a failure pass; it makes no release good.
    plain = {
        triton
        for triton, standing in known.items()
        if standing.state is ReleaseState.GOOD and not standing.waived
    }
    good = [triton for triton in releases.triton if triton in plain]
    torch = [torch for triton in good for torch in releases.torch_for(triton)]
    found = (
        pins.specifier("triton", good, releases.triton),
        pins.specifier("torch", torch, releases.torch),
    )
    return tuple(requirement for requirement in found if requirement)


def _mended(waiver: Waiver, evidence: Evidence) -> bool:
    """Whether a cell that the waiver let pass compiles now: one that failed so before, or one of
    its kernel.
    """
    if waiver.signature is None:
        return any(
            waiver.names(record.kernel) and _compiles(record) for record in evidence.newest.values()
        )
    failed = (record for record in evidence.failed_with(waiver.signature) if waiver.covers(record))
    return any(_compiles(evidence.newest.get(place(record))) for record in failed)


def _compiles(record: Record | None) -> bool:
    return record is not None and record.verdict is Verdict.COMPILES
