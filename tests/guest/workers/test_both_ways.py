"""A kernel that is imported from its package and its cut-out source are one kernel."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flacheck.model import Cell, Cut, Imported, Record
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]
# Where the front end is done: what differs between the two ways, differs there.
UNTIL = "ttir"


def as_cut(cell: Cell) -> Cell:
    """The cell with its kernel's source as the capture cut it out."""
    origin = cell.kernel.origin
    assert isinstance(origin, Imported)
    assert origin.cut is not None
    assert origin.qualname is not None
    cut = Cut(origin.cut, origin.qualname.rpartition(".")[2], origin.made_up)
    digest = f"cut {cell.kernel.digest}"
    return replace(cell, kernel=replace(cell.kernel, origin=cut, digest=digest))


def settle(plan: Plan, cells: Sequence[Cell], folder: Path) -> list[Record]:
    """The records of cells of the plan, in their order."""
    records = records_of(replace(plan, cells=cells), Store.open(folder))
    by_key = {record.key: record for record in records}
    return [by_key[cell.key] for cell in cells]


@pytest.mark.parametrize(
    "package",
    ["lightning-attn==0.0.5", "liger-kernel==0.8.5", "native-sparse-attention-pytorch==0.2.2"],
)
def test_an_import_and_its_cut_source_end_alike(package: str, tmp_path: Path) -> None:
    """One configuration of each kernel and dtype that the package launches, and extreme ones."""
    selection = Selection(toolchains=("triton==3.6.0",))
    plan = planning.plan_job(Job(Subject(package=package, configs="edges"), selection, until=UNTIL))
    cells = [
        cell
        for cell in plan.cells
        if isinstance(cell.kernel.origin, Imported) and cell.kernel.origin.cut is not None
    ]
    assert len({cell.kernel.name for cell in cells}) > 1
    import_records = settle(plan, cells, tmp_path / "imported")
    cut = settle(plan, list(map(as_cut, cells)), tmp_path / "cut")
    different = [
        (one.kernel, one.verdict, one.message, other.verdict, other.message)
        for one, other in zip(import_records, cut)
        if (one.verdict, one.signature) != (other.verdict, other.signature)
    ]
    assert different == []
