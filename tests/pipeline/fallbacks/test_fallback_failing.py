"""The failures of a scan that need a fallback, and equal calls elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flacheck.engine.judge import judge
from flacheck.model import Alternative, Attempt, Cell, Outcome, Record, Resources
from flacheck.pipeline.fallbacks.candidates import Candidate
from flacheck.pipeline.fallbacks.failing import Failing, ScanResult
from flacheck.pipeline.plan import Plan
from tests import fake

LOG = "f.cpp:1: int f(int) const: Assertion `size == want' failed."
BLOCK_POINTERS = "Block pointers have been removed in favor of tensor descriptors"


def compile_cell(cell: Cell) -> Record:
    return judge(cell, Attempt(Outcome.FINISHED, stage="cubin"))


def fail_cell(cell: Cell, stage: str = "ttgir", log: str = LOG) -> Record:
    return judge(cell, Attempt(Outcome.RAISED, stage=stage, exit_code=1, log=log))


def over_shared(cell: Cell) -> Record:
    return judge(
        cell, Attempt(Outcome.FINISHED, stage="cubin", resources=Resources(shared=300_000))
    )


def scan_of(records: Sequence[Record]) -> ScanResult:
    return ScanResult(Plan("m", [record.cell for record in records], {}), records)


def only(failures: Sequence[Failing]) -> Failing:
    (failing,) = failures
    return failing


def test_a_configuration_whose_alternative_compiles_wants_none() -> None:
    """A configuration whose alternative compiles needs no fallback."""
    split = {name: Alternative({"SPLIT": value}, {}) for name, value in (("one", 1), ("two", 2))}
    cell = replace(fake.cell("k"), alternatives=(split["two"],))
    cell = replace(cell, launch=cell.launch and cell.launch.with_constants(split["one"].constants))
    (other,) = cell.others()
    plan = Plan("m", [cell], {})
    assert ScanResult(plan, [over_shared(cell), compile_cell(other)]).failing() == []
    assert [each.key for each in ScanResult(plan, [over_shared(cell)]).failing()] == [cell.key]


@pytest.mark.parametrize("change", [{"until": "ttir"}, {"stage": "autotune"}])
def test_a_cell_that_was_not_compiled_to_the_end_has_none(change: dict[str, str]) -> None:
    """A compile stopped by --until, or an autotuner run, has no fallback."""
    cell = replace(fake.cell("k", num_warps=8), **change)  # type: ignore[arg-type]
    assert scan_of([fail_cell(cell)]).failing() == []


@pytest.mark.parametrize(
    ("stage", "log", "adjustable", "changes_options"),
    [
        ("ttgir", LOG, True, True),
        ("ast", "error: types differ", True, False),
        ("import", "ImportError: no name", False, False),
        ("ast", BLOCK_POINTERS, False, False),
    ],
)
def test_the_stage_says_what_can_matter(
    stage: str, log: str, adjustable: bool, changes_options: bool
) -> None:
    """Options matter after the front end, and no setting restores a removed API."""
    failing = only(scan_of([fail_cell(fake.cell("k", num_warps=8), stage, log)]).failing())
    assert failing.adjustable is adjustable
    assert ("num_warps" in failing.space.axes) is changes_options


def test_the_same_call_is_found_on_other_releases_and_targets() -> None:
    """Another configuration or kernel is another call."""
    here = fake.cell("k", num_warps=8)
    newer, smaller = fake.cell("k", "2.0", num_warps=8), fake.cell("k", target="sm80", num_warps=8)
    others = [fake.cell("k", "2.0", num_warps=4), fake.cell("other", "2.0", num_warps=8)]
    scan = scan_of([fail_cell(here), *map(compile_cell, (newer, smaller, *others))])
    failing = only(scan.failing())
    assert [each.key for each in scan.elsewhere(failing)] == [newer.key, smaller.key]
    places = [failing.place, ("fake==2.0", "sm90")]
    assert scan.at(failing, places) == [here, newer]


def test_settings_in_another_dtype_have_no_estimate() -> None:
    """A fallback in another dtype has no estimate."""
    scan = scan_of([fail_cell(fake.cell("k", num_warps=8))])
    failing = only(scan.failing())
    fallback = scan.other_settings(failing, Candidate({"dtype": "fp16"}, loss=0.5), [])
    assert fallback.loss is None
