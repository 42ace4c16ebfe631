"""General reducers on the same failures, with the oracle of `flacheck repro`: the same signature,
the same types, the same neighbouring releases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flacheck.capabilities.repro import versions
from flacheck.capabilities.repro.compilers import LONGEST, Compilers, provide_releases
from flacheck.capabilities.repro.reproduction import begin
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.model import Purpose, Verdict
from flacheck.pipeline import resolved_cell as cells
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from tests.benchmarks.failures.cases import Case
from tests.benchmarks.rivals import RIVALS, reduced_by


@dataclass(frozen=True)
class RivalResult:
    """What one reducer left of a case, and how its run ended."""

    case: str
    reducer: str
    lines: int
    nodes: int
    compiles: int
    ended: str


def compared(case: Case, folder: Path, python: str, seconds: float) -> Iterator[RivalResult]:
    """A row for each reducer on a case that was reduced into this folder, each given so many
    seconds."""
    selection = Selection(targets=(case.target,), toolchains=(case.triton,))
    with Store.open(folder / "store") as store:
        what = f"{folder}/launch.jsonl:2"
        chosen = cells.resolve_cell(what, selection, store, Purpose.REPRO, trust=True)
    cell = chosen.cell
    releases = provide_releases(cell.toolchain, cell.target, _kept(folder, cell.toolchain))
    with Compilers(releases, chosen.packages) as compilers:
        begun = begin(cell, compilers)
        begun.compare()
        # What the reducer's own clock ends, no other limit should.
        compilers.patience = LONGEST
        size = begun.original.lines, begun.original.nodes
        yield RivalResult(case.name, "(original)", *size, 0, "")
        for rival in RIVALS:
            before = compilers.budget.ran
            got = reduced_by(rival, python, begun.original, begun.oracle, seconds)
            ran = compilers.budget.ran - before
            yield RivalResult(case.name, rival.name, got.best.lines, got.best.nodes, ran, got.ended)


def _kept(folder: Path, own: str) -> list[str]:
    """The releases that flacheck's own reduction of this case was held to."""
    about = json.loads((folder / "repro.json").read_text())
    table = {}
    for entry in about["versions"]:
        verdict = entry["original"]
        table[entry["toolchain"]] = ReleaseVerdict(
            Verdict(verdict["verdict"]), verdict["signature"]
        )
    return [*versions.contrasts(table, own), *versions.neighbours(table, own)]
