"""The result after the usual configurations, and an estimate of the time for the others."""

from __future__ import annotations

import time
from dataclasses import replace

from flacheck.model import Cell, Record
from flacheck.pipeline import interim
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.published_times import published_costs
from flacheck.pipeline.schedule import Costs, StoredCost
from tests import fake
from tests.made_records import record


def description(records: list[Record], remaining: list[Cell], workers: int = 1) -> list[str]:
    return list(interim.describe(records, remaining, workers))


def test_each_release_and_gpu_has_its_answer() -> None:
    """The summary counts the kernels that compile and the codes of those that fail."""
    records = [
        record(kernel="m:a"),
        record(kernel="m:b", options={"num_warps": 4}),
        record("fails", kernel="m:b", options={"num_warps": 8}, code="FC302"),
        record(kernel="m:a", toolchain="triton==3.3.0"),
    ]
    assert description(records, []) == [
        "so far, triton==3.2.0 on sm90: 1 of 2 kernels compile; failing: m:b (FC302)",
        "so far, triton==3.3.0 on sm90: 1 of 1 kernel compile",
    ]


def test_the_time_of_the_rest_follows_from_the_kernels_so_far() -> None:
    """Shared by the workers; a kernel without a record takes the mean of the others."""
    records = [record(kernel="fake.slow", seconds=30.0), record(kernel="fake.fast", seconds=2.0)]
    remaining = [fake.cell("slow"), fake.cell("fast"), fake.cell("other")]
    assert description(records, remaining)[-1] == (
        "compiling 3 further configurations, which takes about 48 s"
    )
    assert description(records, remaining * 20, workers=2)[-1].endswith("about 8 min")
    assert description(records, remaining * 200)[-1].endswith("about 3 h")


def test_a_failure_that_the_autotuner_skips_does_not_count() -> None:
    """The failure does not count if another configuration of the launch compiles."""
    records = [
        record(kernel="m:a"),
        record("fails", kernel="m:a", options={"num_warps": 8}, code="FC501", tolerated=True),
    ]
    assert description(records, []) == ["so far, triton==3.2.0 on sm90: 1 of 1 kernel compile"]


def test_a_budget_is_announced_and_told_once() -> None:
    """The size comes before the compiles, the answer so far at the end of the budget alone."""
    cells = [fake.cell("slow"), fake.cell("fast")]
    records = [record(kernel="fake.slow", seconds=30.0)]
    options = RunOptions(jobs=2, budget=0.0)
    partial = interim.AnswerSoFar(options, cells)
    assert list(partial.announce(Costs(), "stored times")) == [
        "2 cells to compile; nothing is known of their time yet"
    ]
    stored = StoredCost("fake.slow", None, "sm90", "bf16", "", "", 60.0, False)
    assert list(partial.announce(Costs.of([stored]), "stored times")) == [
        "2 cells to compile, which takes about 1 min by stored times"
    ]
    told = list(partial.sentences(records))
    assert told[:2] == [
        "Not known yet: after 0 s 1 of 2 kernels are tried; the scan goes on",
        "so far, triton==3.2.0 on sm90: 1 of 1 kernel compile",
    ]
    assert told[2].startswith("compiling ")
    assert list(partial.sentences(records)) == []


def test_a_budget_counts_from_the_start_of_the_command() -> None:
    """A capture uses it up, but for a sixth."""
    cells, records = [fake.cell("slow"), fake.cell("fast")], [record(kernel="fake.slow")]
    began = time.monotonic() - 600
    assert not list(interim.AnswerSoFar(RunOptions(budget=900, began=began), cells).sentences([]))
    spent = interim.AnswerSoFar(RunOptions(budget=0.6, began=began), cells)
    assert list(spent.sentences(records)) == []
    time.sleep(0.11)
    told = next(iter(spent.sentences(records)))
    assert told.startswith("Not known yet: after 10 min 1 of 2 ")


def test_the_nearest_published_gpu_estimates_the_time_of_a_package() -> None:
    """sm89 takes the times of sm90, which is nearer than sm80 and sm120; others have none."""
    name = "fla.ops.attn.parallel:parallel_attn_fwd_kernel"
    cell = replace(fake.cell("slow"), toolchain="triton==3.9.0", target="sm89")
    kernel = replace(cell.kernel, name=name, package="flash-linear-attention==0.6.0")
    costs = published_costs([replace(cell, kernel=kernel)])
    assert Costs.of(costs).has_times_of([replace(cell, kernel=kernel)])
    assert {each.target for each in costs} == {"sm89"}
    assert published_costs([cell]) == []


def test_without_a_budget_nothing_is_told() -> None:
    """A run that nobody watches prints no partial answer."""
    partial = interim.AnswerSoFar(RunOptions(), [fake.cell("slow")])
    assert list(partial.announce(Costs(), "stored times")) == []
    assert list(partial.sentences([record()])) == []
