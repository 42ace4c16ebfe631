"""What came of a reduction, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flacheck.model import Cell, Json, Record
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.output.script import Symptom
from flacheck.repro.verification import SHOWS, Runs
from flacheck.repro.versions import Table, differing

SCHEMA = "flacheck.repro/1"


@dataclass(frozen=True)
class Tally:
    """What it cost: questions to the oracle, compiles, candidates that failed otherwise, seconds."""

    asked: int
    ran: int
    slipped: int
    seconds: float


@dataclass(frozen=True)
class Progress:
    """How far a reduction is: which pass found the newest best specimen, and its size."""

    by: str
    lines: int
    nodes: int
    tally: Tally


@dataclass(frozen=True)
class Result:
    """A reproduction: the cell, what it failed with, before and after, and what was verified.

    `runs` are those of the script on the failing release in fresh processes; `exits` its exit
    status on each release; `complete` is False when the reduction was ended early; `ttir` is the
    module text where the failure survives from there.
    """

    cell: Cell
    record: Record
    original: Specimen
    reduced: Specimen
    symptom: Symptom
    script: str
    original_script: str
    tally: Tally
    runs: Runs
    original_table: Table
    reduced_table: Table
    exits: Mapping[str, int]
    complete: bool = True
    ttir: str | None = None
    log: tuple[str, ...] = ()

    @property
    def reproduced(self) -> bool:
        return self.runs.reproduced > 0

    @property
    def differing(self) -> list[str]:
        """Releases that judge the reduction otherwise than the original, where they can read that."""
        return differing(self.original_table, self.reduced_table)

    @property
    def lost(self) -> list[str]:
        """Releases on which the original fails in this way and the script does not show it."""
        failing = [
            name
            for name, found in self.original_table.items()
            if found.signature == self.record.signature
        ]
        return [name for name in failing if self.exits.get(name) != SHOWS]

    def to_json(self, files: list[str]) -> Json:
        return {
            "schema": SCHEMA,
            "cell": self.cell.key,
            "kernel": self.cell.kernel.name,
            "package": self.cell.kernel.package,
            "toolchain": self.cell.toolchain,
            "target": self.cell.target,
            "code": self.record.code,
            "signature": self.record.signature,
            "before": _size(self.original),
            "after": _size(self.reduced),
            "asked": self.tally.asked,
            "ran": self.tally.ran,
            "slipped": self.tally.slipped,
            "seconds": round(self.tally.seconds, 1),
            "complete": self.complete,
            "runs": self.runs.to_json(),
            "versions": [self._version(name) for name in self.original_table],
            "files": files,
        }

    def _version(self, name: str) -> Json:
        reduced = self.reduced_table.get(name)
        return {
            "toolchain": name,
            "original": self.original_table[name].to_json(),
            "reduced": reduced.to_json() if reduced else None,
            "exit": self.exits.get(name),
        }


def _size(specimen: Specimen) -> Json:
    return {"lines": specimen.lines, "nodes": specimen.nodes}
