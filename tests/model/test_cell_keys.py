"""Keys of stored cells, which stay byte-identical."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flacheck.model import Cell, Kernel, Launch, Stubbed
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "cell-keys.json"
ROWS: list[dict[str, Any]] = json.loads(GOLDEN.read_text())


def cell(row: dict[str, Any]) -> Cell:
    """Return the cell of a golden row; the origin of its kernel is not in the key."""
    launch = None
    if row["launch"]:
        launch = Launch.from_json(row["launch"])
    return Cell(
        kernel=Kernel(row["kernel"], row["package"], row["digest"], Stubbed("m", "k")),
        toolchain=row["toolchain"],
        target=row["target"],
        launch=launch,
        options=row["options"],
        stage=row["stage"],
        until=row["until"],
    )


def test_there_are_a_hundred_keys_to_hold() -> None:
    """The golden keys cover corpus, packages, compiles and autotuner runs."""
    assert len({row["key"] for row in ROWS}) >= 100
    assert {row["stage"] for row in ROWS} == {"compile", "autotune"}
    assert {row["package"] is None for row in ROWS} == {True, False}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"][:8])
def test_a_key_stays_what_it_was(row: dict[str, Any]) -> None:
    """The same cell has the same key."""
    assert cell(row).key == row["key"]


def test_what_is_planned_for_our_own_kernels_has_the_same_keys() -> None:
    """Planned cells of the corpus have the golden keys."""
    own = {row["key"] for row in ROWS if row["package"] is None}
    kernels = {row["kernel"] for row in ROWS if row["package"] is None}
    selection = Selection(kernels=tuple(sorted(kernels)), toolchains=("3.5.1", "3.2.0"))
    keys = {cell.key for cell in planning.plan_job(Job(Subject("full"), selection)).cells}
    assert len(own) >= 50
    assert own <= keys
