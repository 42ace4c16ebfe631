"""A package's standing by operator: in a scan's first sentence, in its table, and for the gate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.gate.evidence import RecordFilter, of_store
from flacheck.evidence.analysis.operators import find_condition
from flacheck.evidence.analysis.standing import Standing
from flacheck.model import Purpose, Record
from flacheck.reports import operators
from flacheck.reports.conclusions import answer
from flacheck.store import Store
from tests.made_records import (
    CONTEXT,
    PACKAGE,
    failure,
    record,
    scanned,
    summary_of,
    whole,
)

GLA, PARALLAX = "fla.ops.gla.chunk_gla", "fla.ops.parallax.parallax"


def record_of_size(make: Any, size: int, **more: Any) -> Record:
    """A record of the parallax kernel at a head size."""
    parallax_record: Record = make(kernel="fla.ops.parallax:fwd", constexprs={"K": size}, **more)
    return parallax_record


FAST = record()
SMALL = record_of_size(record, 64)
LARGE = record_of_size(failure, 256, code="FC501")
LEADS = {GLA: [FAST], PARALLAX: [SMALL, LARGE]}


def standing_of(*records: Record, **more: Any) -> Standing:
    """The standing of a package on its only place."""
    (standing,) = whole(records, about=PACKAGE, **more)
    return standing


def test_the_first_sentence_names_the_operators() -> None:
    """The sentence has the condition of a failure and its code."""
    summary = summary_of([FAST, SMALL, LARGE], CONTEXT, about=PACKAGE, operators=LEADS)
    assert answer(summary).startswith(
        "3.2.0 on sm90: 1 of 2 operators good in all configurations; "
        "parallax fails with K=256, FC501. "
    )


def test_an_operator_with_configurations_that_were_not_compiled_is_screened() -> None:
    """The sentence counts the configurations and kernels of screened operators."""
    eight = record(options={"num_warps": 8})
    summary = summary_of([FAST, SMALL], CONTEXT, others=[eight], operators=LEADS)
    assert operators.sentence(summary) == (
        "3.2.0 on sm90: 1 of 2 operators screened (2 of 3 configurations, 2 of 2 kernels), "
        "1 good in all configurations."
    )


def test_an_operator_without_a_verdict_is_not_tested() -> None:
    """An operator without a verdict is neither good nor bad."""
    other = record_of_size(record, 64)
    (standing,) = whole([FAST, other], made_up=(), operators={GLA: [FAST], "fla.layers.Gone": []})
    assert [each.state.value for each in standing.operators] == ["good", "no-record"]
    assert operators.describe_operator(standing).endswith("; 1 not tested")


def test_a_failure_outside_of_the_operators_is_counted() -> None:
    """A failure of a kernel outside the operators is counted apart."""
    lone = failure(kernel="fla.utils:lone")
    standing = standing_of(FAST, lone, operators={GLA: [FAST]})
    assert operators.describe_operator(standing) == (
        "1 of 1 operator good in all configurations; 1 failure outside of these"
    )


@pytest.mark.parametrize(
    ("kernel", "stage", "failing"),
    [
        ("fla.ops.gla:__init__", "import", [GLA]),
        ("fla:__init__", "import", [GLA, PARALLAX]),
        ("fla.ops.gla:chunk_gla", "call", [GLA]),
        ("fla.ops.parallax:fwd", "autotune", [PARALLAX]),
    ],
)
def test_imports_calls_and_autotuner_runs_belong_to_operators(
    kernel: str, stage: str, failing: list[str]
) -> None:
    """Failing imports, calls and autotuners belong to the operators above or below them."""
    lone = failure(kernel=kernel, stage=stage, constexprs={"Z": 1})
    keys = {GLA: [FAST], PARALLAX: [SMALL]}
    standing = standing_of(FAST, SMALL, lone, operators=keys)
    if stage == "autotune":
        # An autotuner run is not a launch of the extent.
        del standing.launch_of[lone.key]
    bad = [each.name for each in standing.operators if each.state.value == "bad"]
    assert bad == failing


@pytest.mark.parametrize(
    ("failing", "compiling", "condition"),
    [
        ([{"dtype": "fp32"}], [{}], "fp32"),
        ([{"constexprs": {"K": 256, "BK": 256}}], [{"constexprs": {"K": 64, "BK": 64}}], "K=256"),
        ([{"options": {"num_warps": 8}}], [{}], "num_warps=8"),
        ([{"dtype": "fp32"}, {"dtype": "fp16"}], [{}], ""),
        ([{}], [{}], ""),
        ([{"dtype": "fp32"}], [], ""),
    ],
)
def test_a_condition_holds_for_every_failure_and_for_no_other(
    failing: list[dict[str, Any]], compiling: list[dict[str, Any]], condition: str
) -> None:
    """A dtype is preferred to a size, a size to an option."""
    failures = [failure(**each) for each in failing]
    (standing,) = whole([*failures, *(record(**each) for each in compiling)])
    assert find_condition(standing.failing, standing.cells) == condition


def test_a_gate_judges_the_operators_that_a_project_uses(tmp_path: Path) -> None:
    """A scan of the requested operators is preferred to one of the package."""
    with Store.open(tmp_path) as store:
        scanned(store, [FAST, SMALL, LARGE], PACKAGE, operators=LEADS)

        def states(*ops: str) -> list[str]:
            evidence = of_store(store, RecordFilter(package=PACKAGE, ops=ops))
            return [each.state.value for each in evidence.standings]

        assert states() == ["bad"]
        assert states("gla") == ["good"]
        assert states("gla", "parallax") == ["bad"]
        assert states("nothing") == []
        scanned(store, [FAST], PACKAGE, selection={"ops": ["parallax"]})
        assert states("parallax") == ["good"]


def test_a_failure_that_another_scan_of_the_package_found_counts(tmp_path: Path) -> None:
    """A failure of another scan counts unless the autotuner skips it."""
    eight = {"options": {"num_warps": 8}}
    for name, other, state in (
        ("fails", failure(**eight), "bad"),
        ("skipped", failure("FC501", tolerated=True, **eight), "good"),
        ("compiles", record(**eight), "good"),
    ):
        with Store.open(tmp_path / name) as store:
            scanned(store, [FAST], PACKAGE, others=[other])
            assert _state(store) == "screened"
            scanned(store, [other], PACKAGE, selection={"num_warps": [8]})
            assert _state(store) == state


def test_a_failure_that_a_bisection_found_counts(tmp_path: Path) -> None:
    """A bisection's failure counts; its compile does not make a release good."""
    eight = {"options": {"num_warps": 8}}
    for name, other, state in (
        ("fails", failure(**eight), "bad"),
        ("ok", record(**eight), "screened"),
    ):
        with Store.open(tmp_path / name) as store:
            scanned(store, [FAST], PACKAGE, others=[other])
            store.add_many(store.begin_run({}, "bisect", {}, Purpose.BISECT), [other])
            assert _state(store) == state


def _state(store: Store) -> str:
    """The state of the whole package."""
    evidence = of_store(store, RecordFilter(package=PACKAGE)).standings
    (standing,) = [each for each in evidence if not each.question.narrowing]
    return standing.state.value


def test_a_standing_is_limited_to_operators() -> None:
    """A standing of one operator counts its own cells only."""
    standing = standing_of(FAST, SMALL, LARGE, operators=LEADS)
    gla = standing.of_operators(lambda name: name == GLA)
    assert gla is not None
    assert ([cell.key for cell in gla.cells], gla.untested_cells) == ([FAST.key], ())
    assert (gla.requested_count, gla.answered_count) == (1, 1)
    assert (gla.kernels, gla.state.value) == (frozenset({FAST.kernel}), "good")
    parallax = standing.of_operators(lambda name: name == PARALLAX)
    assert parallax is not None
    assert {cell.key for cell in parallax.cells} == {SMALL.key, LARGE.key}
    assert parallax.state.value == "bad"
    assert standing.of_operators(lambda name: name == "fla.gone") is None


def test_an_import_that_fails_belongs_to_every_operator() -> None:
    """A failing import counts for every operator, and a partial question stays partial."""
    broken = failure("FC102", stage="import", kernel="fla", launch=None)
    standing = standing_of(FAST, SMALL, broken, operators=LEADS)
    gla = standing.of_operators(lambda name: name == GLA)
    assert gla is not None
    assert {cell.key for cell in gla.cells} == {FAST.key, broken.key}
    partial = replace(standing, requested_count=9)
    own = partial.of_operators(lambda name: name == GLA)
    assert own is not None
    assert (own.answered_count, own.requested_count) == (3, 9)
