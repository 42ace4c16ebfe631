"""Judged releases, waivers and pins."""

from dataclasses import dataclass
from enum import Enum

from flacheck.capabilities.gate.admission import Admission, Conflict
from flacheck.capabilities.gate.compilers import TRITON, GatedCompiler
from flacheck.capabilities.gate.evidence import BaselineUse
from flacheck.capabilities.gate.pins import Installation, Pin, PinChange
from flacheck.errors import Exit
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.judgement import PackageFailure
from flacheck.evidence.analysis.untested_cells import UntestedGroup
from flacheck.evidence.published.answers import PublishedSource
from flacheck.tables.settings.waivers import Waiver


class ReleaseState(str, Enum):
    """The state of a release by its records on all targets that count."""

    GOOD = "good"
    # Nothing fails, but not every configuration and kernel was compiled.
    SCREENED = "screened"
    # Good or screened, but an advisory names a defect that no compile shows.
    ADVISED = "advised"
    # A kernel fails, and neither a waiver nor a baseline accepts it.
    BAD = "bad"
    # Records of some cells are missing.
    PARTIAL = "partial"
    # Nothing was scanned under it, or no cell came to a verdict.
    NO_RECORD = "no-record"


# The states that a scan can change.
OPEN = (ReleaseState.PARTIAL, ReleaseState.NO_RECORD)


@dataclass(frozen=True)
class JudgedRelease:
    """A release by its records.

    Attributes:
        triton: The release of the judged compiler, or a name such as `>3.9.0`.
        state: Its state.
        failures: The failures that count.
        advisories: The advisories against it for these kernels.
        targets: The targets with records.
        cells: The number of cells with evidence.
        waived_cells: The number of failing cells that a waiver accepts.
        known: The number of failing cells that a baseline accepts.
        why: The reason why the release is not good.
        torch: The torch releases that it may come with.
        unknown: The number of cells without a verdict.
        untested: The number of launches that are not evidence.
        answered: The number of cells with a record.
        asked: The number of cells in all questions; None if that is unknown.
        extent: The numbers of answered configurations and kernels, if something is unanswered.
        sizes: The sizes of the compiled launches; None if they are unknown.
        decides: False if no model meets its failures.
    """

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
    extent: str = ""
    sizes: CompiledSizes | None = None
    decides: bool = True

    @property
    def standing(self) -> ReleaseState:
        """The state without regard to advisories."""
        if self.state is not ReleaseState.ADVISED:
            return self.state
        if self.extent:
            return ReleaseState.SCREENED
        return ReleaseState.GOOD

    @property
    def let_pass(self) -> int:
        """The number of failing cells that do not count."""
        return self.waived_cells + self.known

    @property
    def codes(self) -> list[str]:
        """The codes of the failures, each once."""
        return list(dict.fromkeys(group.code for group in self.failures))

    @property
    def kernels(self) -> list[str]:
        """The failing kernels, in alphabetical order."""
        kernels: set[str] = set()
        for group in self.failures:
            kernels.update(group.kernels)
        return sorted(kernels)


class WaiverUse(str, Enum):
    """The effect of a waiver."""

    ACTIVE = "active"
    EXPIRED = "expired"
    # The waived cell compiles now.
    MENDED = "mended"
    # The waiver covers only cells that were not compiled.
    UNUSED = "unused"


@dataclass(frozen=True)
class JudgedWaiver:
    """A waiver with the number of failing cells that it accepts."""

    waiver: Waiver
    use: WaiverUse
    cells: int = 0

    @property
    def is_finding(self) -> bool:
        """True if the waiver has to be removed."""
        return self.use in (WaiverUse.EXPIRED, WaiverUse.MENDED)


@dataclass(frozen=True)
class JudgedPins:
    """The judgement of pins.

    Attributes:
        admissions: The releases that each installation allows.
        versions: The allowed releases, judged.
        judged_waivers: The waivers, judged.
        suggest: The changes after which the gate passes.
        helpless: The installations that no change of a pin makes pass.
        about: The subject of the questions that count.
        known_good: The requirements that allow the good releases only, whatever the pins exclude.
        questions: The names of the questions that count.
        untested: The launches that are not evidence.
        baseline: The use of a baseline; None without one.
        compiler: The judged compiler.
        published: The published results behind some releases; None without any.
        published_releases: Those releases.
        package_failures: The failures that every compiled release has.
    """

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
    published: PublishedSource | None = None
    published_releases: tuple[str, ...] = ()
    package_failures: tuple[PackageFailure, ...] = ()

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The pins of all installations, each once."""
        pins: dict[Pin, None] = {}
        for admission in self.admissions:
            pins.update(dict.fromkeys(admission.installation.pins))
        return tuple(pins)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts; a conflict of a project and of all its extras counts once."""
        by_pins: dict[tuple[Pin, ...], Conflict] = {}
        for admission in self.admissions:
            if admission.conflict:
                by_pins[admission.conflict.pins] = admission.conflict
        return tuple(by_pins.values())

    @property
    def unproven(self) -> tuple[Installation, ...]:
        """The installations without an allowed release whose records are complete."""
        still_open = {release.triton for release in self.of(*OPEN)}
        installations = []
        for admission in self.admissions:
            if not admission.conflict and still_open.issuperset(admission.triton):
                installations.append(admission.installation)
        return tuple(installations)

    @property
    def gaps(self) -> list[str]:
        """The existing allowed releases with missing records, oldest first."""
        names = [release.triton for release in self.of(*OPEN)]
        return [triton for triton in names if triton[0].isdigit()]

    def of(self, *states: ReleaseState) -> tuple[JudgedRelease, ...]:
        """Return the allowed releases in any of these states."""
        return tuple(release for release in self.versions if release.state in states)

    def exit_code(self, strict: bool = False) -> Exit:
        """Return the exit code: findings first; `strict` also counts advisories and gaps."""
        if self.of(ReleaseState.BAD) or self.conflicts:
            return Exit.FINDINGS
        if any(waiver.is_finding for waiver in self.judged_waivers):
            return Exit.FINDINGS
        if strict and any(release.advisories for release in self.versions):
            return Exit.FINDINGS
        is_screened = any(each.standing is ReleaseState.SCREENED for each in self.versions)
        if self.unproven or (strict and (is_screened or self.of(*OPEN))):
            return Exit.INCOMPLETE
        return Exit.OK
