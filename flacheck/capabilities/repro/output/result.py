"""The result of a reduction."""

from collections.abc import Mapping
from dataclasses import dataclass

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import Effort
from flacheck.capabilities.repro.output.script import SHOWS
from flacheck.capabilities.repro.versions import ReleaseVerdict, Table
from flacheck.model import Cell, Json, Record


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


@dataclass(frozen=True)
class Reproduced:
    """A reproduction: the cell, its failure, the specimens before and after, and the verification.

    `runs` count the script's runs on the failing release in fresh processes. `exits` has its exit
    status on each release that ran it, `original_exit` that of the original's script on the failing
    release. `neighbours` are the nearest releases with other verdicts; `output` is the text that
    the script printed, `failing_pass` the last pass that the compiler began. `complete` is False if
    the search or the verification ended early; `ttir` is the module's text if the failure also
    shows from there.
    """

    cell: Cell
    record: Record
    original: Specimen
    reduction: Specimen
    script: str
    original_script: str
    effort: Effort
    runs: Runs
    original_table: Table
    reduced_table: Table
    exits: Mapping[str, int]
    neighbours: tuple[str, ...] = ()
    original_exit: int | None = None
    output: str = ""
    failing_pass: str | None = None
    complete: bool = True
    ttir: str | None = None
    log: tuple[str, ...] = ()

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

    @property
    def lost_neighbours(self) -> list[str]:
        """The neighbours whose verdicts on the reduction and the original differ."""
        names = []
        for name in self.neighbours:
            verdict = self.reduced_table.get(name)
            if verdict and not self.original_table[name].agrees(verdict):
                names.append(name)
        return names

    def to_json(self, files: list[str]) -> Json:
        """Return the document of `tables/schemas/repro-1.json`, with the names of the files."""
        return {
            "schema": "flacheck.repro/1",
            "cell": self.cell.key,
            "kernel": self.cell.kernel.name,
            "package": self.cell.kernel.package,
            "toolchain": self.cell.toolchain,
            "target": self.cell.target,
            "code": self.record.code,
            "signature": self.record.signature,
            "before": _size(self.original),
            "after": _size(self.reduction),
            "asked": self.effort.candidates,
            "ran": self.effort.ran,
            "slipped": self.effort.slips,
            "seconds": round(self.effort.seconds, 1),
            "complete": self.complete,
            "lost_neighbours": self.lost_neighbours,
            "failing_pass": self.failing_pass,
            "runs": {"reproduced": self.runs.failures, "of": self.runs.of},
            "versions": self._versions(),
            "files": files,
        }

    def _versions(self) -> list[Json]:
        versions: list[Json] = []
        for name, verdict in self.original_table.items():
            versions.append(
                {
                    "toolchain": name,
                    "original": _verdict(verdict),
                    "reduced": _verdict(self.reduced_table.get(name)),
                    "exit": self.exits.get(name),
                }
            )
        return versions


def _size(specimen: Specimen) -> Json:
    return {"lines": specimen.lines, "nodes": specimen.nodes}


def _verdict(verdict: ReleaseVerdict | None) -> Json | None:
    """Return a verdict without its seconds, which differ between runs."""
    if verdict is None:
        return None
    return {"verdict": verdict.verdict.value, "signature": verdict.signature}
