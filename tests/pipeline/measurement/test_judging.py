"""The meaning of timings, as properties of the comparison."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.evidence.measured.ratios import (
    best_results,
    change_of,
    kernel_ratios,
    operator_ratios,
    summarise,
)
from flacheck.evidence.measured.results import LaunchResult, Result, State, Times
from flacheck.model import Json
from flacheck.pipeline.measurement.judging import judge_launch, spacing, tolerance
from tests.pipeline.measurement.bundles import launch

RATIOS = st.floats(min_value=0.01, max_value=100)
SPREADS = st.floats(min_value=0, max_value=1)
TIMES = st.floats(min_value=0.5, max_value=1e4)
RELEASES = ("triton==3.5.1", "triton==3.7.1")


@given(RATIOS, SPREADS)
def test_slower_and_faster_mirror_each_other(ratio: float, spread: float) -> None:
    """Exchanging the two releases exchanges the words."""
    mirror = {"slower": "faster", "faster": "slower", "equal": "equal"}
    assert change_of(1 / ratio, spread) in (mirror[change_of(ratio, spread)], "equal")


@given(RATIOS, SPREADS, SPREADS)
def test_a_larger_spread_makes_nothing_a_change(ratio: float, one: float, two: float) -> None:
    """A change under a larger spread is also a change under a smaller one."""
    small, large = sorted((one, two))
    if change_of(ratio, large) != "equal":
        assert change_of(ratio, small) == change_of(ratio, large)


@given(SPREADS)
def test_an_equal_time_is_no_change(spread: float) -> None:
    """A ratio of up to 1.1 is noise of code generation."""
    assert change_of(1.0, spread) == change_of(1.1, spread) == "equal"


def _result(release: str, microseconds: float, state: State = State.SAME) -> Result:
    times = Times(microseconds, microseconds)
    return Result(release, "0" * 32, {}, state, None, False, times, None, 32, 0)


def _launch(kernel: str, operators: tuple[str, ...], *results: Result) -> LaunchResult:
    facts = ("package==1.0", "bf16", None, None, operators, (1,), 0, "normal", 0.0)
    return LaunchResult(kernel, *facts, results)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=8))
def test_an_operators_ratio_lies_between_those_of_its_kernels(
    times: list[tuple[float, float]],
) -> None:
    """It is the ratio of sums, and so a mean of the kernels' ratios."""
    launches = []
    for number, pair in enumerate(times):
        results = [_result(release, each) for release, each in zip(RELEASES, pair)]
        launches.append(_launch(f"m:k{number}", ("op",), *results))
    kernels = list(kernel_ratios(launches, RELEASES))
    (operator,) = operator_ratios(launches, RELEASES)
    ratios = [each.ratio for each in kernels]
    assert min(ratios) - 1e-3 <= operator.ratio <= max(ratios) + 1e-3
    summary = list(summarise(launches, kernels, [operator], RELEASES))[1]
    assert summary.geometric_mean is not None
    assert summary.total == pytest.approx(operator.ratio, abs=1e-3)
    assert min(ratios) - 1e-3 <= summary.geometric_mean <= max(ratios) + 1e-3


def test_a_release_is_judged_by_its_quickest_configuration() -> None:
    """A configuration that faults is not chosen by an autotuner."""
    results = [
        _result(RELEASES[0], 10),
        _result(RELEASES[0], 5),
        _result(RELEASES[0], 1, State.FAULTS),
    ]
    best = best_results(_launch("m:k", (), *results))
    assert best[RELEASES[0]].times == Times(5, 5)


def test_the_narrowest_dtype_decides_what_rounding_explains(tmp_path: Path) -> None:
    """fp32 dots compute in tf32, with ten bits."""
    bundled = launch(tmp_path, "double")
    assert spacing(bundled) == 2.0**-10
    assert tolerance(bundled) == 2.0**-8


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_race_of_most_releases_is_the_kernels(are_stable: list[bool]) -> None:
    """A release whose two runs agree by luck makes the others no wrong results."""
    same: Json = {"broken_guard": None, "written": 9, "not_finite": 0, "class": 0}
    variants = {}
    for index, is_stable in enumerate(are_stable):
        variants[str(index)] = same | {
            "is_stable": is_stable,
            "compared_with": 0,
            "difference": None,
        }
    with tempfile.TemporaryDirectory() as folder:
        bundled = launch(Path(folder), *["double"] * len(are_stable))
    wrong = [each.is_wrong for each in judge_launch(bundled, {"variants": variants}, {}).results]
    unstable = [not each for each in are_stable]
    assert wrong == (unstable if sum(unstable) < sum(are_stable) else [False] * len(wrong))


@pytest.mark.parametrize(("amplification", "is_wrong"), [(2.0, True), (9.0, False)])
def test_the_majority_does_not_judge_what_any_rounding_changes(
    tmp_path: Path, amplification: float, is_wrong: bool
) -> None:
    """A recurrence may leave any bound; that the results differ is told all the same."""
    same: Json = {"is_stable": True, "broken_guard": None, "written": 9, "not_finite": 0}
    difference: Json = {"written": 9, "differing": 9, "outside": 9, "not_finite_in_one": 0}
    difference |= {"error": 1.0, "largest": 2.0}
    variants = {
        str(index): same | {"class": number, "compared_with": 0, "difference": found}
        for index, (number, found) in enumerate([(0, None), (0, None), (1, difference)])
    }
    facts = {"variants": variants, "amplification": amplification}
    results = judge_launch(launch(tmp_path, *["double"] * 3), facts, {}).results
    assert [each.state for each in results] == [State.SAME, State.SAME, State.DIFFERS]
    assert [each.is_wrong for each in results] == [False, False, is_wrong]
