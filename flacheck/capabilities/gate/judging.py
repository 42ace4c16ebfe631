"""The judgement of pins by evidence and waivers, without any I/O."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain

from flacheck.capabilities.gate.admission import Admission, Releases, admit
from flacheck.capabilities.gate.evidence import Evidence, cell_identity
from flacheck.capabilities.gate.judged_pins import (
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.capabilities.gate.pins import Installation
from flacheck.capabilities.gate.result import Gate
from flacheck.capabilities.gate.suggest import Acceptance, suggest
from flacheck.evidence.analysis.compiled_sizes import join_sizes
from flacheck.evidence.analysis.groups import by_signature
from flacheck.evidence.analysis.judgement import package_failures
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.order import by_target, by_version, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import add_shares, describe_extent
from flacheck.evidence.analysis.untested_cells import group_untested
from flacheck.evidence.analysis.weight import Reach, weigh
from flacheck.evidence.published.answers import source
from flacheck.model import Record, Verdict
from flacheck.tables.settings import waivers
from flacheck.tables.settings.waivers import Waivable, Waiver
from flacheck.toolchains import torch_pins

# (kernels, triton, target, packages) → the advisories against some of these kernels there.
Advise = Callable[[Iterable[str], str, str, Collection[str]], Sequence[str]]


@dataclass(frozen=True)
class Judge:
    """The rules of a gate.

    Attributes:
        releases: The existing releases.
        advise: Looks up advisories.
        targets: The targets that must all be good; empty for those with records.
        waivers: The project's waivers.
        today: The date by which waivers expire.
        strict: True if only good releases pass.
        find_slowdowns: Returns what is too slow under a release on GPUs, by measurements.
    """

    releases: Releases
    advise: Advise
    targets: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: date = date.min
    strict: bool = False
    find_slowdowns: Callable[[str], Sequence[str]] = lambda release: ()

    def judge(
        self, installations: Sequence[Installation], evidence: Evidence, about: str = ""
    ) -> Gate:
        """Judge every release that the installations allow, and suggest changes of pins."""
        evidence = _of_family(evidence, self.releases.compiler.family).judged()
        headers = evidence.published.deciding(evidence.standings)
        with_records = self._releases_with_records(evidence)
        releases = self.releases.with_recorded(with_records)
        admissions = tuple(admit(installation, releases) for installation in installations)
        states = {triton: release.state for triton, release in with_records.items()}
        changes, helpless = suggest(installations, Acceptance(releases, states, self.strict))
        not_evidence: list[ObservedCell] = []
        for standing in evidence.standings:
            not_evidence += standing.untested_cells
        return Gate(
            admissions=admissions,
            versions=self._allowed_releases(admissions, with_records, releases, evidence),
            judged_waivers=tuple(self._judge_waiver(each, evidence) for each in self.waivers),
            suggest=changes,
            helpless=helpless,
            about=about,
            known_good=_known_good(with_records, releases),
            questions=_question_names(evidence),
            untested=tuple(group_untested(not_evidence)),
            baseline=evidence.baseline,
            published=source(headers) if headers else None,
            published_releases=_releases({header.toolchain for header in headers}),
            package_failures=package_failures(evidence.standings),
            compiler=self.releases.compiler,
        )

    def _releases_with_records(self, evidence: Evidence) -> dict[str, JudgedRelease]:
        """Return each release that a question is about, judged, by its version."""
        by_toolchain = group_by_key((split(each.toolchain), each) for each in evidence.standings)
        releases = {}
        for (compiler, triton), standings in by_toolchain.items():
            if compiler == self.releases.compiler.family:
                releases[triton] = self._judge_release(triton, standings, evidence)
        return releases

    def _judge_release(
        self, triton: str, standings: Sequence[Standing], evidence: Evidence
    ) -> JudgedRelease:
        if self.targets:
            standings = [each for each in standings if each.target in self.targets]
        failing = list(chain.from_iterable(each.failing for each in standings))
        waiver_keys, baseline_keys = self._accepted_keys(failing, evidence)
        let_pass = waiver_keys | baseline_keys
        blocking = {cell.key: cell for cell in failing if cell.key not in let_pass}
        cells = _compiled_cells(standings)
        advisories = self._advisories(standings, triton)
        state, why, extent = self._state(standings, let_pass, bool(blocking))
        state, why = self._lower(state, why, triton, advisories)
        return JudgedRelease(
            triton=triton,
            state=state,
            why=why,
            extent=extent,
            failures=tuple(by_signature(list(blocking.values()))),
            advisories=advisories,
            targets=tuple(sorted({cell.target for cell in cells}, key=by_target)),
            cells=sum(cell.is_evidence for cell in cells),
            waived_cells=len(waiver_keys),
            known=len(baseline_keys),
            unknown=sum(cell.verdict is Verdict.UNKNOWN for cell in cells),
            untested=sum(len(each.untested_cells) for each in standings),
            answered=sum(each.answered_count for each in standings),
            asked=_total_cells(standings),
            sizes=join_sizes(each.sizes for each in standings),
            decides=_models_meet(standings, {cell.kernel for cell in blocking.values()}),
        )

    def _accepted_keys(
        self, failing: Iterable[ObservedCell], evidence: Evidence
    ) -> tuple[set[str], set[str]]:
        """Return the keys of the failures that a waiver accepts, and of those in a baseline."""
        valid = waivers.in_force(self.waivers, self.today)
        waiver_keys, baseline_keys = set(), set()
        for cell in failing:
            if waivers.are_waived(valid, cell):
                waiver_keys.add(cell.key)
            elif evidence.accepts(cell):
                baseline_keys.add(cell.key)
        return waiver_keys, baseline_keys - waiver_keys

    def _state(
        self, standings: Sequence[Standing], let_pass: set[str], has_failures: bool
    ) -> tuple[ReleaseState, str, str]:
        """Return the state of a release before advisories, the reason, and the compiled extent."""
        partial = "; ".join(_progress(each) for each in standings if each.is_partial)
        if has_failures:
            return ReleaseState.BAD, partial, ""
        if partial:
            return ReleaseState.PARTIAL, partial, ""
        missing = "; ".join(self._missing(standings, let_pass))
        if missing:
            return ReleaseState.NO_RECORD, missing, ""
        # A target that a release does not support has nothing to compile.
        with_cells = [each for each in standings if any(map(_was_compiled, each.cells))]
        if all(each.is_good for each in _accept(with_cells, let_pass)):
            return ReleaseState.GOOD, "", ""
        extent = _extent(with_cells)
        return ReleaseState.SCREENED, f"compiled: {extent}", extent

    def _lower(
        self, state: ReleaseState, why: str, triton: str, advisories: Sequence[str]
    ) -> tuple[ReleaseState, str]:
        """Return the state and its reason after measurements and advisories."""
        slow = "; ".join(self.find_slowdowns(triton))
        if slow:
            return ReleaseState.BAD, "; ".join(filter(None, (why, slow)))
        if advisories and state in (ReleaseState.GOOD, ReleaseState.SCREENED):
            return ReleaseState.ADVISED, why
        return state, why

    def _advisories(self, standings: Sequence[Standing], triton: str) -> tuple[str, ...]:
        """Return the advisories against a release on the targets of some standings."""
        advisories: list[str] = []
        by_place = group_by_key((each.target, each) for each in standings)
        for target, there in by_place.items():
            advisories += self._advice(there, triton, target)
        return tuple(dict.fromkeys(advisories))

    def _missing(self, standings: Sequence[Standing], let_pass: set[str]) -> Iterator[str]:
        """Yield the reasons why complete questions or targets are not known to compile."""
        with_cells = [each for each in standings if any(map(_was_compiled, each.cells))]
        targets = {each.target for each in with_cells}
        for target in self.targets:
            if target not in targets:
                yield f"no record on {target}"
        with_cells.sort(key=lambda one: by_target(one.target))
        for rest in _accept(with_cells, let_pass):
            if not rest.is_passing:
                yield f"{rest.target}: {rest.obstacle}"
        if not self.targets and not with_cells:
            yield _nothing_compiled(standings)

    def _allowed_releases(
        self,
        admissions: Sequence[Admission],
        with_records: Mapping[str, JudgedRelease],
        releases: Releases,
        evidence: Evidence,
    ) -> tuple[JudgedRelease, ...]:
        """Return all allowed Triton releases, oldest first, with the torch that may come along."""
        tritons: set[str] = set()
        torch_of: dict[str, set[str | None]] = {}
        for admission in admissions:
            tritons.update(admission.triton)
            for torch, triton in admission.pairs:
                torch_of.setdefault(triton, set()).add(torch)
        judged_releases = []
        # Version numbers come first, then `<3.0.0`, `>3.9.0` and `of torch 2.15.0`.
        for triton in sorted(tritons, key=lambda name: (not name[0].isdigit(), by_version(name))):
            torches = torch_of.get(triton, set())
            # An installation without a pin of torch may have any torch for this Triton.
            if None in torches:
                torches = torches - {None} | set(releases.torch_for(triton))
            release = with_records.get(triton)
            if release is None:
                release = self._with_advisories(_without_record(triton, releases), evidence)
            torch_names = sorted(filter(None, torches), key=by_version)
            judged_releases.append(replace(release, torch=tuple(torch_names)))
        return tuple(judged_releases)

    def _with_advisories(self, release: JudgedRelease, evidence: Evidence) -> JudgedRelease:
        """Add the advisories against the kernels of all questions to a release."""
        if not release.triton[0].isdigit():
            return release
        targets = self.targets or tuple(dict.fromkeys(each.target for each in evidence.standings))
        advisories: list[str] = []
        for target in targets:
            advisories += self._advice(evidence.standings, release.triton, target)
        return replace(release, advisories=tuple(dict.fromkeys(advisories)))

    def _advice(self, standings: Sequence[Standing], triton: str, target: str) -> Sequence[str]:
        """Return the advisories for a release and target against the kernels of these questions."""
        kernels: set[str] = set()
        packages: set[str] = set()
        for standing in standings:
            kernels |= standing.kernels
            packages |= standing.packages
        return self.advise(frozenset(kernels), triton, target, frozenset(packages))

    def _judge_waiver(self, waiver: Waiver, evidence: Evidence) -> JudgedWaiver:
        failing: list[Waivable] = []
        for record in evidence.records:
            if record.verdict is Verdict.FAILS:
                failing.append(record)
        for standing in evidence.baseline_standings:
            failing += standing.failing
        cells = [each for each in failing if waiver.covers(each)]
        use = WaiverUse.UNUSED
        if waiver.has_expired(self.today):
            use = WaiverUse.EXPIRED
        elif cells:
            use = WaiverUse.ACTIVE
        elif _compiles_again(waiver, evidence):
            use = WaiverUse.MENDED
        return JudgedWaiver(waiver, use, len(cells))


def _releases(toolchains: Iterable[str]) -> tuple[str, ...]:
    """Return the releases of toolchains, oldest first."""
    return tuple(split(toolchain)[1] for toolchain in sorted(toolchains, key=by_version))


def _of_family(evidence: Evidence, family: str) -> Evidence:
    """Return the evidence about releases of one compiler."""

    def is_own(standing: Standing) -> bool:
        return split(standing.toolchain)[0] == family

    return replace(
        evidence,
        standings=list(filter(is_own, evidence.standings)),
        beside=list(filter(is_own, evidence.beside)),
        baseline_standings=list(filter(is_own, evidence.baseline_standings)),
    )


def _accept(standings: Sequence[Standing], let_pass: set[str]) -> list[Standing]:
    """Return the standings with accepted failures; drop those with only accepted failures.

    `let_pass` are the keys of the failures that a waiver or a baseline accepts.
    """
    remaining = []
    for each in standings:
        if not all(cell.key in let_pass for cell in each.cells):
            remaining.append(replace(each, accepted_keys=frozenset(let_pass)))
    return remaining


def _extent(standings: Sequence[Standing]) -> str:
    """Return the numbers of answered configurations and kernels."""
    configurations = add_shares(each.configurations for each in standings)
    kernels = add_shares(each.kernel_share for each in standings)
    return describe_extent(configurations, kernels)


def _compiled_cells(standings: Iterable[Standing]) -> list[ObservedCell]:
    """Return the cells that reached a compiler, each key once."""
    cells: dict[str, ObservedCell] = {}
    for standing in standings:
        for cell in filter(_was_compiled, standing.cells):
            cells[cell.key] = cell
    return list(cells.values())


def _total_cells(standings: Sequence[Standing]) -> int | None:
    """Return the number of cells in all questions; None if that of one is unknown."""
    total = 0
    for standing in standings:
        if standing.requested_count is None:
            return None
        total += standing.requested_count
    return total


def _without_record(triton: str, releases: Releases) -> JudgedRelease:
    """Return a release without a record, with the reason."""
    why = "the Triton requirement of that torch is unknown"
    if triton == releases.beyond:
        why = "newer than every known release"
    elif triton == releases.before:
        why = f"flacheck drives {releases.triton[0]} and newer"
    elif triton[0].isdigit():
        why = "no record"
    return JudgedRelease(triton, ReleaseState.NO_RECORD, why=why)


def _was_compiled(cell: ObservedCell) -> bool:
    """Return True unless the cell was skipped before it reached the compiler."""
    return cell.verdict is not Verdict.SKIPPED


def _progress(standing: Standing) -> str:
    """Return the number of cells with a record, and the reason for the missing ones."""
    progress = f"{standing.progress} cells of {standing.question.name} on {standing.target}"
    if standing.note:
        return f"{progress} ({standing.note})"
    return progress


def _nothing_compiled(standings: Sequence[Standing]) -> str:
    if any(each.untested_cells for each in standings):
        return "only untested cells"
    return "only skipped cells"


def _question_names(evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the questions, each once; the name of a narrower one shows it."""
    return tuple(dict.fromkeys(each.question.name for each in evidence.standings))


def _known_good(with_records: Mapping[str, JudgedRelease], releases: Releases) -> tuple[str, ...]:
    """Return the requirements that allow the good releases only, and the torch for them."""
    # Releases with an advisory count if no other release is good.
    for states in ((ReleaseState.GOOD, ReleaseState.SCREENED), (ReleaseState.ADVISED,)):
        # A waiver or a baseline accepts a failure, but does not make a release good.
        good = set()
        for triton, release in with_records.items():
            if release.state in states and not release.let_pass:
                good.add(triton)
        if good:
            break
    tritons = [triton for triton in releases.triton if triton in good]
    torches: list[str] = []
    for triton in tritons:
        torches += releases.torch_for(triton)
    requirements = (
        torch_pins.specifier(releases.compiler.distribution, tritons, releases.triton),
        torch_pins.specifier("torch", torches, releases.torch),
    )
    return tuple(filter(None, requirements))


def _compiles_again(waiver: Waiver, evidence: Evidence) -> bool:
    """Return True if a cell with the waiver's failure, or of its kernel, compiles now."""
    records: Sequence[Record] = evidence.records
    if waiver.signature is None:
        # A baseline lists cells that compile, without their earlier failures.
        for standing in evidence.baseline_standings:
            for cell in standing.cells:
                if cell.compiles and waiver.names(cell.kernel):
                    return True
    else:
        cells = set(map(cell_identity, evidence.failed_with(waiver.signature)))
        records = [record for record in evidence.records if cell_identity(record) in cells]
    for record in records:
        if record.verdict is Verdict.COMPILES and waiver.names(record.kernel):
            return True
    return False


def _models_meet(standings: Iterable[Standing], kernels: Collection[str]) -> bool:
    """Return True if models meet a failure of one of these kernels."""
    weighed = chain.from_iterable(map(weigh, standings))
    return any(each.reach is Reach.MODELS and each.kernel in kernels for each in weighed)
