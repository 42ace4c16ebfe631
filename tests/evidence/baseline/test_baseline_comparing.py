"""What is known now against a baseline: new failures, mended ones, and another subject."""

from __future__ import annotations

import pytest

from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.baseline.comparing import BaselineComparison, compare, contains_failure
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.model import KeySet, Question, Record, RequestedCells
from tests.made_records import DELTA, failure, record, whole

SPEC = "shop==1.0"
OTHER = {"kernel": "m:other"}


def of(records: list[Record], about: str = SPEC) -> list[Standing]:
    return whole(records, about=about)


def written(records: list[Record], about: str = SPEC) -> Baseline:
    return baseline_of(of(records, about), "1.0")


def compared(
    before: list[Record], now: list[Record], about: str = SPEC, flacheck: str = "1.0"
) -> BaselineComparison:
    return compare(written(before), of(now, about), "b.json", flacheck)


def test_a_failure_that_the_baseline_has_is_known() -> None:
    """In whatever config, and however often."""
    now = [record(), *(failure(options={"num_warps": warps}) for warps in (8, 16))]
    found = compared([record(), failure(options={"num_warps": 8})], now)
    assert (found.new, found.known_count, found.fixed_failures) == ((), 2, ())


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "m:other"},
        {"line": "Assertion `other' failed."},
        {"target": "sm80"},
        {"toolchain": "triton==3.4.0"},
    ],
)
def test_another_kernel_signature_target_or_release_is_new(change: dict[str, str]) -> None:
    """Each of them fails the run."""
    found = compared([failure()], [failure(), failure(**change)])  # type: ignore[arg-type]
    (new,) = found.new
    assert found.known_count == 1
    assert new.kernel == change.get("kernel", DELTA)
    assert new.line == change.get("line", "Assertion `reshapeOuts' failed.")


def test_a_cell_is_known_or_not() -> None:
    """As the exit code asks it."""
    baseline = written([failure()])
    cells = of([failure(), failure(line="other")])[0].failing
    assert [contains_failure(baseline, cell) for cell in cells] == [
        cell.line != "other" for cell in cells
    ]


def test_a_failure_that_is_gone_is_mended() -> None:
    """Where its kernel was asked about on the same place, as a whole."""
    before = [record(), failure(options={"num_warps": 8})]
    compiles = [record(), record(options={"num_warps": 8})]
    (mended,) = compared(before, compiles).fixed_failures
    assert (mended.toolchain, mended.target, mended.kernel) == ("triton==3.2.0", "sm90", DELTA)
    assert compared(before, [record(toolchain="triton==3.4.0")]).fixed_failures == ()
    assert compared(before, [record(**OTHER)]).fixed_failures == ()


def test_a_partial_question_mends_nothing() -> None:
    """The failing cell may be among those that have no record."""
    keys = KeySet({record().key: DELTA, "missing": DELTA})
    place = RequestedCells("triton==3.2.0", "sm90", 2, keys.digest)
    partial = standing(Question(SPEC), place, keys, [record()])
    assert compare(written([failure()]), [partial], "b.json", "1.0").fixed_failures == ()


def test_a_baseline_of_the_same_says_nothing() -> None:
    """Neither of what it holds beside it."""
    before = [record(), record(toolchain="triton==3.4.0")]
    assert compared(before, [record()]).notes == ()


def test_a_baseline_of_another_flacheck_says_so() -> None:
    """Its rules may give a failure another name."""
    assert compared([record()], [record()], flacheck="1.1").notes == (
        "b.json was written by flacheck 1.0, this is 1.1: a failure may have another signature",
    )


def test_a_baseline_of_another_package_says_so() -> None:
    """It knows no failure of this one by its question."""
    assert compared([record()], [record()], "mill==2.0").notes == (
        "b.json is not about mill==2.0; it is about shop==1.0",
    )


def test_a_baseline_of_another_version_says_so_where_cells_differ() -> None:
    """A version that launches the same cells is the same capture."""
    assert compared([record()], [record()], "shop==1.1").notes == ()
    assert compared([record()], [record(**OTHER)], "shop==1.1").notes == (
        "b.json is of shop==1.0 on Triton 3.2.0 (sm90), this is 1.1: "
        "failures are compared by kernel and signature",
    )


def test_a_baseline_of_another_capture_says_so() -> None:
    """The same package, asked for other cells."""
    assert compared([record()], [record(), record(**OTHER)]).notes == (
        "b.json is of another capture of shop on Triton 3.2.0 (sm90): "
        "it has other cells; failures are compared by kernel and signature",
    )


def test_a_release_that_the_baseline_does_not_know_is_named() -> None:
    """Every failure on it is new."""
    now = [record(), record(toolchain="triton==3.10.0"), record(toolchain="triton==3.9.0")]
    assert compared([record()], now).notes == (
        "b.json contains nothing about shop on Triton 3.9.0, 3.10.0 (sm90)",
    )


def test_an_empty_baseline_is_about_nothing() -> None:
    """As a scan of nothing leaves it."""
    found = compare(Baseline(flacheck="1.0"), of([failure()]), "b.json", "1.0")
    assert found.notes == ("b.json is not about shop==1.0; it is about nothing",)
    assert len(found.new) == 1


def test_a_comparison_is_plain_json() -> None:
    """As flacheck.run/1 has it."""
    plain = compared([failure()], [failure(), failure(**OTHER)]).to_json()
    assert (plain["file"], plain["known"], plain["mended"]) == ("b.json", 1, [])
    assert set(plain["new"][0]) == {"toolchain", "target", "kernel", "signature", "line"}
