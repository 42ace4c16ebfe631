"""The gate: installations, evidence and waivers in, the result out; pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from flacheck.analysis.groups import by_signature
from flacheck.analysis.known_good import grouped, is_good, unserved
from flacheck.analysis.observed import Observed, observe
from flacheck.analysis.order import by_target, by_version, split
from flacheck.config import waivers
from flacheck.config.waivers import Waiver
from flacheck.gate.admitted import Admission, Releases, admit
from flacheck.gate.evidence import Evidence, cell_identity
from flacheck.gate.pinned import Installation
from flacheck.gate.result import GateResult, JudgedRelease, JudgedWaiver, ReleaseState, WaiverUse
from flacheck.gate.suggest import Acceptance, suggest
from flacheck.model import Record, Verdict
from flacheck.toolchains import torch_pins

# (kernels, triton, target) → what is known against some of these kernels there.
Advise = Callable[[Iterable[str], str, str], Sequence[str]]


@dataclass(frozen=True)
class Gate:
    """What a gate goes by. `targets` must all be good, where any are named; `strict` lets only good
    releases pass."""

    releases: Releases
    advise: Advise
    targets: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: date = date.min
    strict: bool = False

    def judge(
        self, installations: Sequence[Installation], evidence: Evidence, about: str = ""
    ) -> GateResult:
        """Judge every Triton release that the installations admit, and look for what to change."""
        recorded = self._recorded(evidence)
        releases = self.releases.with_recorded(recorded)
        admissions = tuple(admit(installation, releases) for installation in installations)
        states = {triton: release.state for triton, release in recorded.items()}
        changes, helpless = suggest(installations, Acceptance(releases, states, self.strict))
        return GateResult(
            admissions=admissions,
            versions=_admitted_releases(admissions, recorded, releases),
            waived=tuple(self._judged(waiver, evidence) for waiver in self.waivers),
            suggest=changes,
            helpless=helpless,
            about=about,
            known_good=_known_good(recorded, releases),
        )

    def _recorded(self, evidence: Evidence) -> dict[str, JudgedRelease]:
        """Each Triton release that has a record, by its version."""
        cells = ((split(cell.toolchain), cell) for cell in observe(evidence.records))
        return {
            triton: self._judged_release(triton, mine)
            for (compiler, triton), mine in grouped(cells).items()
            if compiler == "triton"
        }

    def _judged_release(self, triton: str, cells: Sequence[Observed]) -> JudgedRelease:
        on_target = grouped(
            (cell.target, cell) for cell in cells if not self.targets or cell.target in self.targets
        )
        valid = waivers.in_force(self.waivers, self.today)
        failing = [cell for mine in on_target.values() for cell in unserved(mine)]
        waived = {
            cell.key for cell in failing if waivers.waived(valid, cell.kernel, cell.signature)
        }
        blocking = [cell for cell in failing if cell.key not in waived]
        # A skipped cell was not asked, so it says nothing.
        tried = grouped(
            (target, cell)
            for target, mine in on_target.items()
            for cell in mine
            if cell.verdict is not Verdict.SKIPPED
        )
        release = JudgedRelease(
            triton=triton,
            state=ReleaseState.BAD,
            failures=tuple(by_signature(blocking)),
            targets=tuple(sorted(tried, key=by_target)),
            cells=sum(map(len, tried.values())),
            waived=len(waived),
        )
        if blocking:
            return release
        missing = "; ".join(self._missing(tried, waived))
        if missing:
            return replace(release, state=ReleaseState.UNTESTED, why=missing)
        advisories: list[str] = []
        for target in tried:
            advisories += self.advise({cell.kernel for cell in on_target[target]}, triton, target)
        if not advisories:
            return replace(release, state=ReleaseState.GOOD)
        told = tuple(dict.fromkeys(advisories))
        return replace(release, state=ReleaseState.ADVISED, advisories=told)

    def _missing(self, tried: Mapping[str, Sequence[Observed]], waived: set[str]) -> Iterator[str]:
        """Why no target, or not every one that must be, is known to compile."""
        for target in self.targets or sorted(tried, key=by_target):
            if target not in tried:
                yield f"no record on {target}"
                continue
            # Where every cell is waived, there is nothing left to ask of the target.
            rest = [cell for cell in tried[target] if cell.key not in waived]
            if rest and not is_good(rest):
                undecided = sum(cell.verdict is Verdict.UNKNOWN for cell in rest)
                cells = "cell" if undecided == 1 else "cells"
                yield f"{target}: {undecided} {cells} without a verdict"
        if not self.targets and not tried:
            yield "only skipped cells"

    def _judged(self, waiver: Waiver, evidence: Evidence) -> JudgedWaiver:
        failing = (record for record in evidence.records if record.verdict is Verdict.FAILS)
        cells = sum(waiver.covers(record.kernel, record.signature) for record in failing)
        use = WaiverUse.UNUSED
        if waiver.expired(self.today):
            use = WaiverUse.EXPIRED
        elif cells:
            use = WaiverUse.ACTIVE
        elif _is_mended(waiver, evidence):
            use = WaiverUse.MENDED
        return JudgedWaiver(waiver, use, cells)


def _admitted_releases(
    admissions: Sequence[Admission], recorded: Mapping[str, JudgedRelease], releases: Releases
) -> tuple[JudgedRelease, ...]:
    """All admitted Triton releases, oldest first, with the torch releases that may come along."""
    tritons = {triton for admission in admissions for triton in admission.triton}
    torches = grouped(
        (triton, torch) for admission in admissions for torch, triton in admission.pairs
    )
    admitted = []
    # Those that have a number first, then `<3.0.0`, `>3.9.0` and `of torch 2.15.0`.
    for triton in sorted(tritons, key=lambda name: (not name[0].isdigit(), by_version(name))):
        beside = set(torches.get(triton, ()))
        # Where torch is not pinned, any that requires this Triton may come.
        if None in beside:
            beside = beside - {None} | set(releases.torch_for(triton))
        release = recorded.get(triton) or _unrecorded(triton, releases)
        admitted.append(replace(release, torch=tuple(sorted(beside, key=by_version))))
    return tuple(admitted)


def _unrecorded(triton: str, releases: Releases) -> JudgedRelease:
    """A release without a record, with the reason why nothing is known of it."""
    why = "nobody knows which Triton that torch requires"
    if triton == releases.beyond:
        why = "newer than every known release"
    elif triton == releases.before:
        why = f"flacheck drives {releases.triton[0]} and newer"
    elif triton[0].isdigit():
        why = "no record"
    return JudgedRelease(triton, ReleaseState.UNTESTED, why=why)


def _known_good(recorded: Mapping[str, JudgedRelease], releases: Releases) -> tuple[str, ...]:
    """The requirements that admit just the good releases, and the torch that brings them."""
    # A waiver lets a failure pass; it makes no release good.
    good = {
        triton
        for triton, release in recorded.items()
        if release.state is ReleaseState.GOOD and not release.waived
    }
    tritons = [triton for triton in releases.triton if triton in good]
    torches = [torch for triton in tritons for torch in releases.torch_for(triton)]
    requirements = (
        torch_pins.specifier("triton", tritons, releases.triton),
        torch_pins.specifier("torch", torches, releases.torch),
    )
    return tuple(filter(None, requirements))


def _is_mended(waiver: Waiver, evidence: Evidence) -> bool:
    """Whether a cell compiles now that failed so before, or one of the waiver's kernel."""
    asked: list[Record] = evidence.records
    if waiver.signature is not None:
        cells = map(cell_identity, evidence.failed_with(waiver.signature))
        asked = [evidence.newest[cell] for cell in cells if cell in evidence.newest]
    return any(
        record.verdict is Verdict.COMPILES for record in asked if waiver.names(record.kernel)
    )
