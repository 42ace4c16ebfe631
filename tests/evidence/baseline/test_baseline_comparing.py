"""Current standings compared with a baseline."""

from __future__ import annotations

from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.baseline.comparing import BaselineComparison, compare
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import baseline_of
from flacheck.model import KeySet, Question, Record, RequestedCells
from tests.made_records import DELTA, failure, record, whole

SPEC = "shop==1.0"
OTHER = {"kernel": "m:other"}


def of(records: list[Record], about: str = SPEC) -> list[Standing]:
    return whole(records, about=about)


def baseline_from(records: list[Record], about: str = SPEC) -> Baseline:
    return baseline_of(of(records, about), "1.0")


def compare_records(
    before: list[Record], now: list[Record], about: str = SPEC, flacheck: str = "1.0"
) -> BaselineComparison:
    return compare(baseline_from(before), of(now, about), "b.json", flacheck)


def test_a_failure_that_the_baseline_has_is_known() -> None:
    """A known failure's configuration and number do not matter."""
    now = [record(), *(failure(options={"num_warps": warps}) for warps in (8, 16))]
    comparison = compare_records([record(), failure(options={"num_warps": 8})], now)
    assert (comparison.new, comparison.known_count, comparison.fixed_failures) == ((), 2, ())


def test_a_failure_that_is_gone_is_mended() -> None:
    """A known failure is fixed if its kernel compiles completely on the same place."""
    before = [record(), failure(options={"num_warps": 8})]
    compiles = [record(), record(options={"num_warps": 8})]
    (fix,) = compare_records(before, compiles).fixed_failures
    assert (fix.toolchain, fix.target, fix.kernel) == ("triton==3.2.0", "sm90", DELTA)
    assert compare_records(before, [record(toolchain="triton==3.4.0")]).fixed_failures == ()
    assert compare_records(before, [record(**OTHER)]).fixed_failures == ()


def test_a_partial_question_mends_nothing() -> None:
    """A partial question does not fix a failure."""
    keys = KeySet({record().key: DELTA, "missing": DELTA})
    place = RequestedCells("triton==3.2.0", "sm90", 2, keys.digest)
    partial = standing(Question(SPEC), place, keys, [record()])
    assert compare(baseline_from([failure()]), [partial], "b.json", "1.0").fixed_failures == ()


def test_a_baseline_of_another_flacheck_says_so() -> None:
    """The note names both flacheck versions."""
    assert compare_records([record()], [record()], flacheck="1.1").notes == (
        "b.json was written by flacheck 1.0, this is 1.1: a failure may have another signature",
    )


def test_a_baseline_of_another_package_says_so() -> None:
    """The note names both packages."""
    assert compare_records([record()], [record()], "mill==2.0").notes == (
        "b.json is not about mill==2.0; it is about shop==1.0",
    )


def test_a_baseline_of_another_version_says_so_where_cells_differ() -> None:
    """A version with the same cells gives no note."""
    assert compare_records([record()], [record()], "shop==1.1").notes == ()
    assert compare_records([record()], [record(**OTHER)], "shop==1.1").notes == (
        "b.json is of shop==1.0 on Triton 3.2.0 (sm90), this is 1.1: "
        "failures are compared by kernel and signature",
    )


def test_a_baseline_of_another_capture_says_so() -> None:
    """The note names the capture with other cells."""
    assert compare_records([record()], [record(), record(**OTHER)]).notes == (
        "b.json is of another capture of shop on Triton 3.2.0 (sm90): "
        "it has other cells; failures are compared by kernel and signature",
    )


def test_a_release_that_the_baseline_does_not_know_is_named() -> None:
    """The note names releases without an entry."""
    now = [record(), record(toolchain="triton==3.10.0"), record(toolchain="triton==3.9.0")]
    assert compare_records([record()], now).notes == (
        "b.json contains nothing about shop on Triton 3.9.0, 3.10.0 (sm90)",
    )


def test_an_empty_baseline_is_about_nothing() -> None:
    """Every failure is new to an empty baseline."""
    comparison = compare(Baseline(flacheck="1.0"), of([failure()]), "b.json", "1.0")
    assert comparison.notes == ("b.json is not about shop==1.0; it is about nothing",)
    assert len(comparison.new) == 1


def test_a_comparison_is_plain_json() -> None:
    """The comparison has the fields of flacheck.run/1."""
    plain = compare_records([failure()], [failure(), failure(**OTHER)]).to_json()
    assert (plain["file"], plain["known"], plain["mended"]) == ("b.json", 1, [])
    assert set(plain["new"][0]) == {"toolchain", "target", "kernel", "signature", "line"}
