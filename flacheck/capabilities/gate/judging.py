"""The gate: installations, evidence and waivers in, the result out; pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from flacheck.analysis.groups import by_signature
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.order import by_target, by_version, split
from flacheck.analysis.standing import Standing, is_good
from flacheck.analysis.untested_cells import group_untested
from flacheck.capabilities.gate.admission import Admission, Releases, admit
from flacheck.capabilities.gate.evidence import Evidence, cell_identity
from flacheck.capabilities.gate.pins import Installation
from flacheck.capabilities.gate.result import (
    Gate,
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.capabilities.gate.suggest import Acceptance, suggest
from flacheck.config import waivers
from flacheck.config.waivers import Waivable, Waiver
from flacheck.model import Record, Verdict
from flacheck.toolchains import torch_pins

# (kernels, triton, target, packages) → what is known against some of these kernels there.
Advise = Callable[[Iterable[str], str, str, Collection[str]], Sequence[str]]


@dataclass(frozen=True)
class Judge:
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
    ) -> Gate:
        """Judge every release that the installations admit, and look for what to change."""
        evidence = _of_family(evidence, self.releases.compiler.family)
        recorded = self._recorded(evidence)
        releases = self.releases.with_recorded(recorded)
        admissions = tuple(admit(installation, releases) for installation in installations)
        states = {triton: release.state for triton, release in recorded.items()}
        changes, helpless = suggest(installations, Acceptance(releases, states, self.strict))
        return Gate(
            admissions=admissions,
            versions=self._admitted_releases(admissions, recorded, releases, evidence),
            judged_waivers=tuple(self._judged(waiver, evidence) for waiver in self.waivers),
            suggest=changes,
            helpless=helpless,
            about=about,
            known_good=_known_good(recorded, releases),
            questions=_named(evidence),
            untested=tuple(
                group_untested([c for each in evidence.standings for c in each.untested_cells])
            ),
            baseline=evidence.baseline,
            compiler=self.releases.compiler,
        )

    def _recorded(self, evidence: Evidence) -> dict[str, JudgedRelease]:
        """Each release that a question was asked of, by its version."""
        asked = ((split(each.toolchain), each) for each in evidence.standings)
        return {
            triton: self._judged_release(triton, mine, evidence)
            for (compiler, triton), mine in group_by_key(asked).items()
            if compiler == self.releases.compiler.family
        }

    def _judged_release(
        self, triton: str, standings: Sequence[Standing], evidence: Evidence
    ) -> JudgedRelease:
        asked = [each for each in standings if not self.targets or each.target in self.targets]
        valid = waivers.in_force(self.waivers, self.today)
        failing = [cell for each in asked for cell in each.failing]
        waived = {cell.key for cell in failing if waivers.are_waived(valid, cell)}
        known = {cell.key for cell in failing if cell.key not in waived and evidence.accepts(cell)}
        let_pass = waived | known
        blocking = {cell.key: cell for cell in failing if cell.key not in let_pass}
        advisories: list[str] = []
        for target, there in group_by_key((each.target, each) for each in asked).items():
            advisories += self._advice(there, triton, target)
        tried = {cell.key: cell for each in asked for cell in each.cells if _was_tried(cell)}
        wanted = [each.requested_count for each in asked if each.requested_count is not None]
        # A sum with an unknown part is unknown.
        total = None
        if len(wanted) == len(asked):
            total = sum(wanted)
        release = JudgedRelease(
            triton=triton,
            state=ReleaseState.GOOD,
            failures=tuple(by_signature(list(blocking.values()))),
            advisories=tuple(dict.fromkeys(advisories)),
            targets=tuple(sorted({cell.target for cell in tried.values()}, key=by_target)),
            cells=sum(cell.is_evidence for cell in tried.values()),
            waived_cells=len(waived),
            known=len(known),
            unknown=sum(cell.verdict is Verdict.UNKNOWN for cell in tried.values()),
            untested=sum(len(each.untested_cells) for each in asked),
            answered=sum(each.answered_count for each in asked),
            asked=total,
        )
        partial = [_progress(each) for each in asked if each.is_partial]
        if blocking:
            return replace(release, state=ReleaseState.BAD, why="; ".join(partial))
        if partial:
            return replace(release, state=ReleaseState.PARTIAL, why="; ".join(partial))
        missing = "; ".join(self._missing(asked, let_pass))
        if missing:
            return replace(release, state=ReleaseState.NO_RECORD, why=missing)
        if advisories:
            return replace(release, state=ReleaseState.ADVISED)
        return release

    def _missing(self, asked: Sequence[Standing], let_pass: set[str]) -> Iterator[str]:
        """Why not every question that is answered as a whole, or not every target, is known to
        compile."""
        answered = [each for each in asked if any(map(_was_tried, each.cells))]
        targets = {each.target for each in answered}
        for target in self.targets:
            if target not in targets:
                yield f"no record on {target}"
        for each in sorted(answered, key=lambda one: by_target(one.target)):
            rest = replace(each, cells=tuple(c for c in each.cells if c.key not in let_pass))
            # Where every cell is let pass, there is nothing left to ask of the target.
            if rest.cells and not is_good(rest.cells):
                yield f"{each.target}: {rest.obstacle}"
        if not self.targets and not answered:
            yield _nothing_tried(asked)

    def _admitted_releases(
        self,
        admissions: Sequence[Admission],
        recorded: Mapping[str, JudgedRelease],
        releases: Releases,
        evidence: Evidence,
    ) -> tuple[JudgedRelease, ...]:
        """All admitted Triton releases, oldest first, with the torch releases that may come
        along."""
        tritons = {triton for admission in admissions for triton in admission.triton}
        torches = group_by_key(
            (triton, torch) for admission in admissions for torch, triton in admission.pairs
        )
        admitted = []
        # Those that have a number first, then `<3.0.0`, `>3.9.0` and `of torch 2.15.0`.
        for triton in sorted(tritons, key=lambda name: (not name[0].isdigit(), by_version(name))):
            beside = set(torches.get(triton, ()))
            # Where torch is not pinned, any that requires this Triton may come.
            if None in beside:
                beside = beside - {None} | set(releases.torch_for(triton))
            release = recorded.get(triton)
            if release is None:
                release = self._advised(_unrecorded(triton, releases), evidence)
            admitted.append(replace(release, torch=tuple(sorted(beside, key=by_version))))
        return tuple(admitted)

    def _advised(self, release: JudgedRelease, evidence: Evidence) -> JudgedRelease:
        """A release that nothing was asked of, with what is publicly known against the kernels that
        other releases were asked about."""
        if not release.triton[0].isdigit():
            return release
        asked = evidence.standings
        targets = self.targets or tuple(dict.fromkeys(each.target for each in asked))
        told = [said for target in targets for said in self._advice(asked, release.triton, target)]
        return replace(release, advisories=tuple(dict.fromkeys(told)))

    def _advice(self, asked: Sequence[Standing], triton: str, target: str) -> Sequence[str]:
        """What is publicly known there against the kernels of these questions."""
        kernels = frozenset[str]().union(*(each.kernels for each in asked))
        packages = frozenset[str]().union(*(each.packages for each in asked))
        return self.advise(kernels, triton, target, packages)

    def _judged(self, waiver: Waiver, evidence: Evidence) -> JudgedWaiver:
        failing: list[Waivable] = [r for r in evidence.records if r.verdict is Verdict.FAILS]
        failing += [cell for each in evidence.baseline_standings for cell in each.failing]
        covered = [each for each in failing if waiver.covers(each)]
        # A waiver by a kernel's name is about signatures of any time.
        renamed = {
            c.signature or "" for c in covered if waiver.signature not in (None, c.signature)
        }
        use = WaiverUse.UNUSED
        if waiver.has_expired(self.today):
            use = WaiverUse.EXPIRED
        elif covered:
            use = WaiverUse.ACTIVE
        elif _is_mended(waiver, evidence):
            use = WaiverUse.MENDED
        return JudgedWaiver(waiver, use, len(covered), tuple(sorted(renamed)))


def _of_family(evidence: Evidence, family: str) -> Evidence:
    """What speaks of releases of one compiler."""
    own = [
        [each for each in standings if split(each.toolchain)[0] == family]
        for standings in (evidence.standings, evidence.baseline_standings)
    ]
    return replace(evidence, standings=own[0], baseline_standings=own[1])


def _unrecorded(triton: str, releases: Releases) -> JudgedRelease:
    """A release without a record, with the reason why nothing is known of it."""
    why = "nobody knows which Triton that torch requires"
    if triton == releases.beyond:
        why = "newer than every known release"
    elif triton == releases.before:
        why = f"flacheck drives {releases.triton[0]} and newer"
    elif triton[0].isdigit():
        why = "no record"
    return JudgedRelease(triton, ReleaseState.NO_RECORD, why=why)


def _was_tried(cell: ObservedCell) -> bool:
    """Whether a cell was asked of the compiler; a skipped one says nothing."""
    return cell.verdict is not Verdict.SKIPPED


def _progress(standing: Standing) -> str:
    """How much of a question is answered, and why no more is known."""
    said = f"{standing.progress} cells of {standing.question.name} on {standing.target}"
    if standing.note:
        return f"{said} ({standing.note})"
    return said


def _nothing_tried(asked: Sequence[Standing]) -> str:
    if any(each.untested_cells for each in asked):
        return "only untested cells"
    return "only skipped cells"


def _named(evidence: Evidence) -> tuple[str, ...]:
    """The questions that were judged by, each once; a narrower one says so."""
    return tuple(dict.fromkeys(each.question.name for each in evidence.standings))


def _known_good(recorded: Mapping[str, JudgedRelease], releases: Releases) -> tuple[str, ...]:
    """The requirements that admit just the good releases, and the torch that brings them."""
    # A waiver or a baseline lets a failure pass; neither makes a release good.
    good = {
        triton
        for triton, release in recorded.items()
        if release.state is ReleaseState.GOOD and not release.let_pass
    }
    # One that an advisory speaks against only where no other is good.
    good = good or {
        triton
        for triton, release in recorded.items()
        if release.state is ReleaseState.ADVISED and not release.let_pass
    }
    tritons = [triton for triton in releases.triton if triton in good]
    torches = [torch for triton in tritons for torch in releases.torch_for(triton)]
    requirements = (
        torch_pins.specifier(releases.compiler.distribution, tritons, releases.triton),
        torch_pins.specifier("torch", torches, releases.torch),
    )
    return tuple(filter(None, requirements))


def _is_mended(waiver: Waiver, evidence: Evidence) -> bool:
    """Whether a cell compiles now that failed so before, or one of the waiver's kernel."""
    asked: Sequence[Record] = evidence.records
    # A baseline remembers no other failures than its own.
    if waiver.signature is None:
        compiled = (c for each in evidence.baseline_standings for c in each.cells if c.compiles)
        if any(waiver.names(cell.kernel) for cell in compiled):
            return True
    else:
        cells = set(map(cell_identity, evidence.failed_with(waiver.signature)))
        asked = [record for record in evidence.records if cell_identity(record) in cells]
    return any(
        record.verdict is Verdict.COMPILES for record in asked if waiver.names(record.kernel)
    )
