"""Analysis: known good, specifiers, groups, fallbacks, slow compiles, exit codes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flacheck.analysis import (
    Context,
    exit_code,
    forms_from_json,
    forms_to_json,
    grid,
    mark_slow,
    nearest,
    summarise,
)
from flacheck.analysis.exit_code import Tally
from flacheck.analysis.groups import SignatureGroup
from flacheck.analysis.known_good import Specifier
from flacheck.analysis.observed import take_apart
from flacheck.analysis.order import by_target, by_version
from flacheck.errors import Exit
from flacheck.model import Json, Record, Verdict
from tests.made_records import DELTA, PACKAGE, SHAPE, failure, launch, record, skipped, unknown

TORCH = {"3.1.0": ["2.5.1", "2.5.0"], "3.2.0": ["2.6.0"], "3.4.0": ["2.8.0"]}
CONTEXT = Context(torch_for=lambda triton: TORCH.get(triton, []))


def _uses(records: Sequence[Record], context: Context = CONTEXT, **failing: Any) -> list[Json]:
    """The `use` of each fallback whose failing cell has these values, in order."""
    found = summarise(records, context).fallbacks
    return [dict(each.use) for each in found if failing.items() <= each.failing.items()]


def _good(*records: Record) -> list[str]:
    return [release.triton for release in summarise(records, CONTEXT).known_good]


# Known good


def test_a_release_whose_cells_all_compile_is_known_good() -> None:
    """A known-good release comes with its torch releases, its targets and how many cells were
    asked.
    """
    (release,) = summarise([record(), record(target="sm80")], CONTEXT).known_good
    assert release.to_json() == {
        "triton": "3.2.0",
        "torch": ["2.6.0"],
        "targets": ["sm80", "sm90"],
        "cells": 2,
        "advisories": [],
    }


@pytest.mark.parametrize(
    ("cells", "good"),
    [
        ([], False),
        ([skipped()], False),
        ([record(), skipped(options={"num_warps": 8})], True),
        ([record(), skipped(kernel="m:other")], False),
        ([record(), unknown(options={"num_warps": 8})], False),
        ([record(), failure(options={"num_warps": 8})], False),
        ([record(), failure("FC501", tolerated=True, options={"num_warps": 8})], True),
        ([failure("FC501", tolerated=True)], False),
        ([record(), failure("FC501", tolerated=True, dtype="fp32")], False),
        ([record(), failure("FC501", tolerated=True, shape={**SHAPE, "K": 64})], False),
        ([record(), failure("FC501", tolerated=True, constexprs={"BC": 32})], True),
        ([record(), failure("FC501", tolerated=True, kernel="m:other")], False),
        ([record(), failure("FC501", tolerated=True, target="sm80")], True),
    ],
)
def test_the_definition_of_known_good(cells: list[Record], good: bool) -> None:
    """At least one cell asked, none unknown, no failure untolerated, and every launch has a
    configuration.
    """
    assert _good(*cells) == (["3.2.0"] if good else [])


def test_only_what_a_caller_may_tune_separates_configurations_of_one_launch() -> None:
    """Block sizes are tuned; sizes named by the shape, flags and strings make another launch."""
    parts = take_apart(launch(BC=64, K=256, REVERSE=True, PRECISION="tf32"), SHAPE)
    assert parts.tuned == {"BC": 64}
    assert (
        parts.identity
        == take_apart(launch(BC=32, K=256, REVERSE=True, PRECISION="tf32"), SHAPE).identity
    )
    assert (
        parts.identity
        != take_apart(launch(BC=64, K=256, REVERSE=False, PRECISION="tf32"), SHAPE).identity
    )
    assert (
        parts.skeleton
        == take_apart(launch("fp32", K=256, REVERSE=True, PRECISION="tf32"), SHAPE).skeleton
    )


def test_without_a_shape_a_size_is_not_taken_for_a_block() -> None:
    """A captured launch names no shape: only omitted parameters and those named like blocks are
    tuned.
    """
    captured = {**launch(K=256, BK=64, BLOCK_M=32, W=7, tile=4), "omitted": ["tile"]}
    assert take_apart(captured, {}).tuned == {"BK": 64, "BLOCK_M": 32, "tile": 4}
    assert take_apart(None, {}).tuned == {}


def test_specifiers_name_triton_and_torch_for_each_target() -> None:
    """What to pin is said per target; a local build can be good but not be pinned."""
    releases = ["3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.6.0+local.ab12cd34"]
    cells = [
        failure(toolchain=f"triton=={v}") if v == "3.2.0" else record(toolchain=f"triton=={v}")
        for v in releases
    ]
    summary = summarise([*cells, record(toolchain="triton==3.2.0", target="sm80")], CONTEXT)
    assert [release.triton for release in summary.known_good] == releases
    assert summary.known_good[-1].torch == ()
    assert summary.specifiers == (
        Specifier("sm80", "triton==3.2.0", "torch==2.6.0"),
        Specifier("sm90", "triton>=3.1.0,!=3.2.0,<=3.4.0", "torch>=2.5.0,!=2.6.0,<=2.8.0"),
    )


def test_a_specifier_knows_the_releases_that_nobody_asked_for() -> None:
    """The callable gets all known releases; torch is None when no release fits."""
    seen = []
    context = Context(
        specifier=lambda *asked: seen.append(asked) or "triton<9", known_triton=["3.2.0", "3.9.0"]
    )
    assert summarise([record()], context).specifiers == (Specifier("sm90", "triton<9", None),)
    assert seen == [("triton", ["3.2.0"], ["3.2.0", "3.9.0"])]


def test_other_compilers_are_not_taken_for_triton() -> None:
    """A release of nvcc is no known-good Triton."""
    assert _good(record(toolchain="nvcc==13.1.115")) == []


CELLS = st.builds(
    lambda verdict, tolerated, warps, block, dtype, toolchain: record(
        verdict,
        tolerated=tolerated and verdict == "fails",
        options={"num_warps": warps},
        constexprs={"BC": block},
        dtype=dtype,
        toolchain=toolchain,
        code={"fails": "FC302", "unknown": "FC901"}.get(verdict),
    ),
    st.sampled_from(["compiles", "compiles", "fails", "unknown", "skipped"]),
    st.booleans(),
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([32, 64]),
    st.sampled_from(["bf16", "fp32"]),
    st.sampled_from(["triton==3.1.0", "triton==3.2.0"]),
)
RUNS = st.lists(CELLS, max_size=14, unique_by=lambda cell: cell.key)


@settings(deadline=None)
@given(RUNS)
def test_known_good_agrees_with_its_definition(cells: list[Record]) -> None:
    """Whatever the cells, a release is known good exactly when the contract's sentence holds."""
    for triton in ("3.1.0", "3.2.0"):
        asked = [c for c in cells if c.toolchain == f"triton=={triton}"]
        holds = (
            any(c.verdict is not Verdict.SKIPPED for c in asked)
            and not any(c.verdict is Verdict.UNKNOWN for c in asked)
            and not any(c.verdict is Verdict.FAILS and not c.tolerated for c in asked)
            and {c.dtype for c in asked}
            == {c.dtype for c in asked if c.verdict is Verdict.COMPILES}
        )
        assert (triton in _good(*cells)) == holds


# Exit codes


@pytest.mark.parametrize(
    ("cells", "strict", "code"),
    [
        ([], False, Exit.EMPTY),
        ([record()], True, Exit.OK),
        ([record(), failure(target="sm80")], False, Exit.FINDINGS),
        ([record(), failure("FC501", tolerated=True, options={"num_warps": 8})], True, Exit.OK),
        ([failure("FC501", tolerated=True)], False, Exit.FINDINGS),
        ([record(target="sm80"), failure("FC501", tolerated=True)], False, Exit.FINDINGS),
        (
            [record(toolchain="triton==3.1.0"), failure("FC501", tolerated=True)],
            False,
            Exit.FINDINGS,
        ),
        ([unknown()], False, Exit.INCOMPLETE),
        ([skipped()], False, Exit.INCOMPLETE),
        ([record(), unknown(target="sm80")], False, Exit.OK),
        ([record(), unknown(target="sm80")], True, Exit.INCOMPLETE),
        ([record(), unknown("FC903", "no wheel", target="sm80")], False, Exit.INCOMPLETE),
        ([failure(), unknown("FC903", "no wheel", target="sm80")], True, Exit.FINDINGS),
        ([record(), skipped(target="sm120")], True, Exit.OK),
    ],
)
def test_exit_codes(cells: list[Record], strict: bool, code: Exit) -> None:
    """The contract's table of exit codes, row by row."""
    assert exit_code(summarise(cells, CONTEXT).tally, strict=strict) is code


def test_exit_codes_take_precedence() -> None:
    """70 before 2 before 1 before 3 before 0."""
    order = [Exit.FAULT, Exit.USAGE, Exit.FINDINGS, Exit.INCOMPLETE, Exit.OK]
    assert exit_code(Tally(compiles=1)) is Exit.OK
    for higher, lower in itertools.combinations(order, 2):
        assert exit_code(Tally(compiles=1), others=[lower, higher]) is higher
    assert (
        exit_code(Tally(compiles=1, fails=1, blocking=1), others=[Exit.INCOMPLETE]) is Exit.FINDINGS
    )


# Signatures


def test_failures_are_grouped_by_signature() -> None:
    """A group counts its cells and names releases, targets and kernels in order; what stops a run
    comes first.
    """
    same = [
        failure(toolchain=f"triton=={v}", target=t)
        for v in ("3.3.0", "3.10.0")
        for t in ("sm100", "sm90")
    ]
    tolerated = [
        failure("FC501", "out of resource", tolerated=True, options={"num_warps": n})
        for n in range(1, 9)
    ]
    groups = summarise([*tolerated, *same, record()], CONTEXT).by_signature
    assert [group.code for group in groups] == ["FC302", "FC501"]
    assert groups[0].to_json() == {
        "signature": same[0].signature,
        "code": "FC302",
        "count": 4,
        "toolchains": ["triton==3.3.0", "triton==3.10.0"],
        "targets": ["sm90", "sm100"],
        "kernels": [DELTA],
    }
    assert (groups[0].line, groups[0].tolerated, groups[1].tolerated) == (
        "Assertion `reshapeOuts' failed.",
        0,
        8,
    )


def test_a_failure_without_a_signature_is_grouped_by_its_code() -> None:
    """Nothing is left out: no signature means the code, no code means FC000."""
    groups: Sequence[SignatureGroup] = summarise(
        [failure(signature=None), failure(signature=None, code=None, target="sm80")], CONTEXT
    ).by_signature
    assert {(group.signature, group.code) for group in groups} == {
        ("FC302", "FC302"),
        ("FC000", "FC000"),
    }


# Fallbacks


def _options(warps: int, stages: int = 2) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages}


DELTA_CELLS = [
    *(record(options=_options(n), constexprs={"BC": b, "BV": b}) for n in (2, 4) for b in (32, 64)),
    *(record(options=_options(8), constexprs={"BC": 32, "BV": v}) for v in (16, 32, 64)),
    failure(options=_options(8), constexprs={"BC": 64, "BV": 64}),
    failure(options=_options(16), constexprs={"BC": 64, "BV": 64}),
]


def test_the_nearest_options_and_blocks_are_both_said() -> None:
    """Failing with 8 warps and blocks of 64: 4 warps compile, and so does a smaller block."""
    uses = _uses(DELTA_CELLS, num_warps=8)
    assert uses[:2] == [{"num_warps": 4}, {"BC": 32}]
    assert {"BC": 32, "BV": 32} in uses


def test_a_fallback_may_need_two_changes() -> None:
    """Failing with 16 warps: 4 warps, or 8 warps with a smaller block."""
    uses = _uses(DELTA_CELLS, num_warps=16)
    assert uses[0] == {"num_warps": 4}
    assert uses[1] == {"num_warps": 8, "BC": 32}


def test_a_fallback_says_what_fails_and_its_distance() -> None:
    """`failing` names only what varies between the kernel's cells; the cost counts changes and
    doublings.
    """
    first = summarise(DELTA_CELLS, CONTEXT).fallbacks[0]
    assert first.to_json() == {
        "kernel": DELTA,
        "toolchain": "triton==3.2.0",
        "target": "sm90",
        "failing": {"num_warps": 8, "BC": 64, "BV": 64},
        "use": {"num_warps": 4},
        "cost": {"changes": 1, "steps": 1.0},
    }
    assert first.package == PACKAGE


def test_at_equal_distance_fewer_warps_come_first() -> None:
    """Between 2 and 8 warps in place of 4, the smaller is nearer."""
    cells = [failure(options=_options(4)), record(options=_options(2)), record(options=_options(8))]
    assert _uses(cells) == [{"num_warps": 2}]


def test_another_release_target_shape_or_kernel_is_no_fallback() -> None:
    """What compiles elsewhere helps nobody here."""
    elsewhere = [
        record(toolchain="triton==3.4.0"),
        record(target="sm80"),
        record(shape={**SHAPE, "K": 64}),
        record(kernel="m:other"),
        record(package="flash-linear-attention==0.2.0"),
        record(launch=launch("bf16", BC=64, USE_G=True)),
    ]
    assert _uses([failure(), *elsewhere]) == []


def test_another_dtype_comes_after_options_and_within_five() -> None:
    """Options come first, however many; fp32 before fp16, and it is kept as the fifth."""
    options = [
        record(options={"num_warps": w, "num_stages": s, "num_ctas": c})
        for w in (4, 8)
        for s in (2, 3)
        for c in (1, 2)
    ]
    here = {"num_warps": 16, "num_stages": 4, "num_ctas": 4}
    others = [record(dtype=dtype, options=here) for dtype in ("fp16", "fp32")]
    uses = _uses([failure(options=here), *options, *others], dtype="bf16")
    assert uses == [{"num_warps": 8, "num_stages": 3, "num_ctas": 2}, {"dtype": "fp32"}]
    one = [record(options={**here, name: 2}) for name in here]
    assert [len(use) for use in _uses([failure(options=here), *options, *one, *others])] == [
        1,
        1,
        1,
        3,
        1,
    ]


def test_a_dtype_works_when_its_own_configurations_do() -> None:
    """Another dtype brings its own blocks: it is a fallback when everything asked in it compiles."""
    own = record(dtype="fp32", constexprs={"BC": 16}, options=_options(2))
    assert _uses([failure(), own]) == [{"dtype": "fp32"}]
    broken = failure(dtype="fp32", constexprs={"BC": 32})
    assert _uses([failure(), own, broken], dtype="bf16") == [
        {"num_warps": 2, "BC": 16, "dtype": "fp32"}
    ]


FORMS = {
    (PACKAGE, DELTA): ("delta", "chunk"),
    (PACKAGE, "m:recurrent_fwd"): ("delta", "fused_recurrent"),
    (PACKAGE, "m:recurrent_bwd"): ("delta", "fused_recurrent"),
    (PACKAGE, "m:softmax"): ("softmax", "fused"),
}


def _recurrent(**more: Any) -> list[Record]:
    """Both kernels of the recurrent form; `more` says how the second one differs."""
    return [record(kernel="m:recurrent_fwd"), record(**{"kernel": "m:recurrent_bwd", **more})]


def test_another_form_of_the_operator_is_a_fallback_when_all_its_kernels_compile() -> None:
    """The recurrent form is offered when both of its kernels compile, and for no other operator."""
    assert _uses([failure(), *_recurrent(), record(kernel="m:softmax")], Context(forms=FORMS)) == [
        {"form": "fused_recurrent"}
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"verdict": "fails", "code": "FC302"},
        {"verdict": "unknown"},
        {"dtype": "fp32"},
        {"target": "sm80"},
        {"toolchain": "triton==3.4.0"},
        {"shape": {**SHAPE, "T": 64}},
        {"kernel": "m:not-of-the-form"},
    ],
)
def test_another_form_is_no_fallback_when_one_kernel_is_not_known_to_compile(
    other: dict[str, Any],
) -> None:
    """One kernel that fails, is unknown, or was asked elsewhere only, and the form is not offered."""
    uses = _uses([failure(), *_recurrent(**other)], Context(forms=FORMS))
    assert {"form": "fused_recurrent"} not in uses


def test_a_tolerated_failure_needs_no_fallback_while_its_launch_compiles() -> None:
    """What the autotuner passes over is not repeated, unless nothing is left."""
    tolerated = failure("FC501", tolerated=True, options=_options(8))
    assert _uses([tolerated, record()]) == []
    assert _uses([tolerated, record(dtype="fp32")]) == [{"dtype": "fp32"}]


def test_forms_survive_the_store() -> None:
    """A run's context keeps the forms as JSON and gives them back."""
    assert forms_from_json(forms_to_json(FORMS)) == FORMS
    assert forms_from_json({}) == {}


@settings(deadline=None)
@given(RUNS)
def test_a_fallback_is_always_a_cell_that_compiled(cells: list[Record]) -> None:
    """`use` applied to the failing values gives the values of a cell that compiled on that release."""
    compiled = [(c.toolchain, _values(c)) for c in cells if c.verdict is Verdict.COMPILES]
    failed = [(c.toolchain, _values(c)) for c in cells if c.verdict is Verdict.FAILS]
    for found in summarise(cells, CONTEXT).fallbacks:
        assert any(
            t == found.toolchain and found.failing.items() <= values.items() for t, values in failed
        )
        wanted = dict(found.use) if set(found.use) == {"dtype"} else {**found.failing, **found.use}
        assert any(
            t == found.toolchain and wanted.items() <= values.items() for t, values in compiled
        )
        assert all(
            found.failing[name] != value
            for name, value in found.use.items()
            if name in found.failing
        )


@settings(deadline=None)
@given(RUNS)
def test_no_failing_cell_with_a_compiling_neighbour_goes_without_a_fallback(
    cells: list[Record],
) -> None:
    """Where another configuration of the same launch compiles, something is offered."""
    offered = {
        (found.toolchain, *sorted(found.failing.items()))
        for found in summarise(cells, CONTEXT).fallbacks
    }
    compiled = {(c.toolchain, c.dtype) for c in cells if c.verdict is Verdict.COMPILES}
    for cell in cells:
        if (
            cell.verdict is Verdict.FAILS
            and not cell.tolerated
            and (cell.toolchain, cell.dtype) in compiled
        ):
            values = _values(cell)
            assert any(
                t == cell.toolchain and dict(named).items() <= values.items()
                for t, *named in offered
            )


POINTS = st.fixed_dictionaries(
    {name: st.sampled_from([1, 2, 4, 8]) for name in ("num_warps", "BC", "BV")},
    optional={"maxnreg": st.just(128)},
)


@settings(deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=30), POINTS)
@example([{"BC": 1, "BV": 1}, {"BC": 1, "BV": 2}], {"BC": 1, "BV": 1, "maxnreg": 128})
def test_the_quick_search_finds_what_the_thorough_one_finds(
    points: list[Json], failing: Json
) -> None:
    """Among many points only the nearest values are tried, with the same outcome."""
    thorough = nearest.Points(points).nearest(failing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "FEW", 0)
        patch.setattr(nearest, "ENOUGH", 99)
        patch.setattr(nearest, "CHANGES", 4)
        assert nearest.Points(points).nearest(failing) == thorough


def _values(cell: Record) -> dict[str, Any]:
    assert cell.launch is not None
    return {**cell.options, "BC": cell.launch["args"]["BC"]["constexpr"], "dtype": cell.dtype}


# Slow compiles


def _timed(seconds: float, release: str, **more: Any) -> Record:
    return record(seconds=seconds, toolchain=f"triton=={release}", **more)


@pytest.mark.parametrize(
    ("seconds", "others", "slow"),
    [
        (90.0, [6.0, 5.0], True),
        (90.0, [6.0], True),
        (90.0, [], False),
        (9.9, [0.1, 0.1], False),
        (29.0, [6.0, 6.0], False),
        (30.0, [6.0, 1.0, 60.0], True),
    ],
)
def test_a_slow_compile_is_one_of_ten_seconds_and_five_medians(
    seconds: float, others: list[float], slow: bool
) -> None:
    """At least 10 s and 5 times the median of the other releases, of which there must be one."""
    cells = [_timed(seconds, "3.4.0"), *(_timed(s, f"3.5.{n}") for n, s in enumerate(others))]
    assert (cells[0].key in summarise(cells, CONTEXT).slow) == slow


def test_a_slow_compile_is_compared_with_the_same_cell_only() -> None:
    """Other options, dtypes and targets do not count, nor does a failure."""
    others = [
        _timed(1.0, "3.5.0", options=_options(8)),
        _timed(1.0, "3.5.0", dtype="fp32"),
        _timed(1.0, "3.5.0", target="sm80"),
        failure(toolchain="triton==3.5.0", seconds=0.1),
    ]
    assert summarise([_timed(90.0, "3.4.0"), *others], CONTEXT).slow == {}


def test_a_slow_compile_gets_a_finding_and_keeps_its_verdict() -> None:
    """FC921 carries seconds and median, once, and nothing else of the record changes."""
    cells = [_timed(90.0, "3.4.0"), _timed(6.0, "3.5.0")]
    slow = summarise(cells, CONTEXT).slow
    marked = list(mark_slow(mark_slow(cells, slow), slow))
    finding = {"code": "FC921", "title": "slow compile", "facts": {"seconds": 90.0, "median": 6.0}}
    assert marked == [cells[0].with_(findings=(finding,)), cells[1]]


# The grid, and the size of things


def test_the_grid_counts_kernels_and_releases_per_target() -> None:
    """Each square knows how many compile of how many asked, the codes, and what was skipped."""
    cells = [
        record(),
        failure(options=_options(8)),
        skipped(options=_options(16)),
        unknown(options=_options(1)),
    ]
    made = grid([*cells, record(toolchain="triton==3.10.0", target="sm100")])
    assert made.toolchains == ("triton==3.2.0", "triton==3.10.0")
    assert list(made.targets) == ["sm90", "sm100"]
    square = made.targets["sm90"][PACKAGE, DELTA]["triton==3.2.0"]
    assert (square.compiles, square.asked, square.unknown, square.blocking) == (1, 3, 1, True)
    assert dict(square.codes) == {"FC302": 1}
    assert made.asked_on("sm90") == ("triton==3.2.0",)
    assert made.targets["sm100"][PACKAGE, DELTA]["triton==3.10.0"].perfect


def test_releases_and_targets_are_in_their_natural_order() -> None:
    """3.10 comes after 3.9, sm100 after sm90, AMD after NVIDIA; a version that is none comes first."""
    assert (
        sorted(["triton==3.10.0", "triton==3.9.0", "triton==dev"], key=by_version)[0]
        == "triton==dev"
    )
    assert sorted(["triton==3.10.0", "triton==3.9.0"], key=by_version) == [
        "triton==3.9.0",
        "triton==3.10.0",
    ]
    assert sorted(["gfx942", "sm100", "gfx90a", "sm90"], key=by_target) == [
        "sm90",
        "sm100",
        "gfx90a",
        "gfx942",
    ]


@settings(max_examples=25, deadline=None)
@given(RUNS, st.randoms())
def test_the_order_of_records_does_not_matter(cells: list[Record], random: Any) -> None:
    """Shards may come in any order: the summary is the same."""
    mixed = list(cells)
    random.shuffle(mixed)
    assert summarise(mixed, CONTEXT).to_json() == summarise(cells, CONTEXT).to_json()


def test_a_compile_stopped_on_request_makes_no_release_known_good() -> None:
    """`--until ttgir` says nothing of the stages after it."""
    assert summarise([record()], Context()).known_good
    assert not summarise([record(reason="up to ttgir")], Context()).known_good
