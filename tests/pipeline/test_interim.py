"""The result after the usual configurations, and an estimate of the time for the others."""

from __future__ import annotations

from flacheck.model import Cell, Record
from flacheck.pipeline import interim
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
    assert description(records, remaining * 200)[-1].endswith("about 2.7 h")


def test_a_failure_that_the_autotuner_skips_does_not_count() -> None:
    """The failure does not count if another configuration of the launch compiles."""
    records = [
        record(kernel="m:a"),
        record("fails", kernel="m:a", options={"num_warps": 8}, code="FC501", tolerated=True),
    ]
    assert description(records, []) == ["so far, triton==3.2.0 on sm90: 1 of 1 kernel compile"]
