"""The result of a reduction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import Effort
from flacheck.capabilities.repro.output.script import SHOWS
from flacheck.capabilities.repro.versions import ReleaseVerdict, Table
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.model.wire import CellKey, Code, Count, JsonStruct, Natural, Seconds


@dataclass(frozen=True)
class Improvement:
    """An event of a reduction: the pass that found the newest best specimen, and its size."""

    by: str
    lines: int
    nodes: int
    effort: Effort


@dataclass(frozen=True)
class Runs:
    """The number of the script's runs in fresh processes that showed the failure."""

    failures: int
    of: int

    def __str__(self) -> str:
        return f"{self.failures} of {self.of}"


class SpecimenSize(JsonStruct, frozen=True):
    """The lines of the bodies of a kernel and its helpers, and the nodes of the syntax tree."""

    lines: Natural
    nodes: Count


class ScriptRuns(JsonStruct, frozen=True):
    """Runs of repro.py in fresh processes on the failing release."""

    reproduced: Natural
    of: Natural


class SpecimenVerdict(JsonStruct, frozen=True):
    """The verdict of a release on a specimen."""

    verdict: Verdict
    signature: str | None


class VerifiedRelease(JsonStruct, frozen=True):
    """The verdicts of a release on the original and on the reduction.

    A verdict is null where the time or the budget did not suffice. `exit` is the script's exit
    status: 0 shows the failure, 1 does not, 125 cannot tell.
    """

    toolchain: str
    original: SpecimenVerdict | None
    reduced: SpecimenVerdict | None
    exit: int | None


class ReproDocument(JsonStruct, frozen=True):
    """A failing cell reduced to a standalone script, and its verification.

    `cell` is the cell's key, `toolchain` the release on which it fails. `asked` counts the
    candidates that the oracle judged, `ran` their compiles on all releases, `slipped` the
    candidates that failed in another way. `complete` is false if the search or the verification was
    interrupted, ran out of budget, or did not reach a release. `lost_neighbours` are the nearest
    releases on which the script and the original differ; `failing_pass` is the compiler's pass in
    which the script ends, if the compiler names it.
    """

    schema: Literal["flacheck.repro/1"]
    cell: CellKey
    kernel: str
    package: str | None
    toolchain: str
    target: str
    code: Code | None
    signature: str | None
    before: SpecimenSize
    after: SpecimenSize
    asked: Natural
    ran: Natural
    slipped: Natural
    seconds: Seconds
    complete: bool
    lost_neighbours: list[str]
    failing_pass: str | None
    runs: ScriptRuns
    versions: list[VerifiedRelease]
    files: list[str]


@dataclass(frozen=True)
class Reproduced:
    """A reproduction: the cell, its failure, the specimens before and after, and the verification.

    `runs` count the script's runs on the failing release in fresh processes. `exits` has its exit
    status on each release that ran it. `lost_neighbours` are the nearest releases that judge the
    two unlike each other up to the failing stage. `releases` are all that were to be verified;
    `original_table` lacks those that did not compile the original. `output` is the text that the
    script printed, `failing_pass` the last pass that the compiler began. `complete` is False if the
    search or the verification ended early or left a release out; `ttir` is the module's text if the
    failure also shows from there, `short_script` a script without any check that was seen to fail
    in this way. `changes` are sentences about the launch, `operations` those of the reduction on
    values of known types.
    """

    cell: Cell
    record: Record
    original: Specimen
    reduction: Specimen
    script: str
    original_script: str
    effort: Effort
    runs: Runs
    releases: tuple[str, ...]
    original_table: Table
    reduced_table: Table
    exits: Mapping[str, int]
    lost_neighbours: tuple[str, ...] = ()
    output: str = ""
    failing_pass: str | None = None
    complete: bool = True
    ttir: str | None = None
    short_script: str | None = None
    log: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    @property
    def is_reproduced(self) -> bool:
        """True if a run of the script showed the failure."""
        return self.runs.failures > 0

    @property
    def lost_releases(self) -> list[str]:
        """The releases on which the original fails in this way and the script does not."""
        names = []
        for name, verdict in self.original_table.items():
            has_failure = verdict.signature == self.record.signature
            if has_failure and self.exits.get(name, SHOWS) != SHOWS:
                names.append(name)
        return names

    def to_json(self, files: list[str]) -> Json:
        """Return the document flacheck.repro/1, with the names of the files."""
        document = ReproDocument.from_value(
            self,
            schema="flacheck.repro/1",
            cell=self.cell.key,
            kernel=self.cell.kernel.name,
            package=self.cell.kernel.package,
            toolchain=self.cell.toolchain,
            target=self.cell.target,
            code=self.record.code,
            signature=self.record.signature,
            before=SpecimenSize(self.original.lines, self.original.nodes),
            after=SpecimenSize(self.reduction.lines, self.reduction.nodes),
            asked=self.effort.candidates,
            ran=self.effort.ran,
            slipped=self.effort.slips,
            seconds=round(self.effort.seconds, 1),
            runs=ScriptRuns(self.runs.failures, self.runs.of),
            versions=self._versions(),
            files=files,
        )
        return document.to_json()

    def _versions(self) -> list[VerifiedRelease]:
        versions = []
        for name in self.releases:
            original = _verdict(self.original_table.get(name))
            reduced = _verdict(self.reduced_table.get(name))
            versions.append(VerifiedRelease(name, original, reduced, self.exits.get(name)))
        return versions


def _verdict(verdict: ReleaseVerdict | None) -> SpecimenVerdict | None:
    """Return a verdict without its seconds, which differ between runs."""
    if verdict is None:
        return None
    return SpecimenVerdict(verdict.verdict, verdict.signature)
