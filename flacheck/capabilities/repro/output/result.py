"""What came of a reduction, as values."""

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
    """How many of the script's runs in fresh processes showed the failure."""

    failures: int
    of: int

    def __str__(self) -> str:
        return f"{self.failures} of {self.of}"


@dataclass(frozen=True)
class Reproduced:
    """A reproduction: the cell, what it failed with, before and after, and what was verified.
    `runs` are those of the script on the failing release in fresh processes; `exits` its exit
    status on each release that was asked, `original_exit` that of the original's script where the
    cell fails. `neighbours` are the nearest releases that tell the failure from others; `said` is
    what the script printed, `failing_pass` the compiler's pass that was begun last. `complete` is
    False when the search or the verification was ended early; `ttir` is the module text where the
    failure survives from there."""

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
        """Whether any run of the script showed the failure."""
        return self.runs.failures > 0

    @property
    def lost_releases(self) -> list[str]:
        """Releases on which the original fails in this way and the script does not show it."""
        return [
            name
            for name, verdict in self.original_table.items()
            if verdict.signature == self.record.signature and self.exits.get(name, SHOWS) != SHOWS
        ]

    @property
    def lost_neighbours(self) -> list[str]:
        """Neighbouring releases that do not do with the script what they do with the original."""
        known = self.reduced_table
        asked = [name for name in self.neighbours if name in known]
        return [name for name in asked if not self.original_table[name].agrees(known[name])]

    def to_json(self, files: list[str]) -> Json:
        """The document that `tables/schemas/repro-1.json` describes, with the files written."""
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
            "versions": [
                {
                    "toolchain": name,
                    "original": _verdict(verdict),
                    "reduced": _verdict(self.reduced_table.get(name)),
                    "exit": self.exits.get(name),
                }
                for name, verdict in self.original_table.items()
            ],
            "files": files,
        }


def _size(specimen: Specimen) -> Json:
    return {"lines": specimen.lines, "nodes": specimen.nodes}


def _verdict(verdict: ReleaseVerdict | None) -> Json | None:
    """Without its seconds, which differ from one run to the next."""
    if verdict is None:
        return None
    return {"verdict": verdict.verdict.value, "signature": verdict.signature}
