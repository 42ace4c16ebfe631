"""Fallbacks among a scan's own records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings

from flacheck.evidence.analysis.context import Context, forms_from_json
from flacheck.evidence.analysis.summary import summarise
from flacheck.model import Json, Record, Verdict
from flacheck.pipeline.fallbacks.alternatives import fallbacks
from flacheck.pipeline.plan import Plan
from tests.made_records import (
    CONTEXT,
    DELTA,
    PACKAGE,
    RUNS,
    SHAPE,
    failure,
    launch,
    record,
)


def _uses(records: Sequence[Record], context: Context = CONTEXT, **failing: Any) -> list[Json]:
    """The `use` of each fallback whose failing cell has these values, in order."""
    fallbacks_ = summarise(records, context).fallbacks
    return [dict(each.use) for each in fallbacks_ if failing.items() <= each.failing.items()]


def _options(warps: int, stages: int = 2) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages}


DELTA_CELLS = [
    *(record(options=_options(n), constexprs={"BC": b, "BV": b}) for n in (2, 4) for b in (32, 64)),
    *(record(options=_options(8), constexprs={"BC": 32, "BV": v}) for v in (16, 32, 64)),
    failure(options=_options(8), constexprs={"BC": 64, "BV": 64}),
    failure(options=_options(16), constexprs={"BC": 64, "BV": 64}),
]


def test_the_nearest_options_and_blocks_are_both_said() -> None:
    """The nearest options come first, then a smaller block."""
    uses = _uses(DELTA_CELLS, num_warps=8)
    assert uses[:2] == [{"num_warps": 4}, {"BC": 32}]
    assert {"BC": 32, "BV": 32} in uses


def test_a_fallback_may_need_two_changes() -> None:
    """A fallback may change warps and a block together."""
    uses = _uses(DELTA_CELLS, num_warps=16)
    assert uses[0] == {"num_warps": 4}
    assert uses[1] == {"num_warps": 8, "BC": 32}


def test_a_fallback_says_what_fails_and_its_distance() -> None:
    """The cost counts changes and doublings."""
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
    """At equal distance the smaller value is first."""
    cells = [failure(options=_options(4)), record(options=_options(2)), record(options=_options(8))]
    assert _uses(cells) == [{"num_warps": 2}]


def test_another_release_target_shape_or_kernel_is_no_fallback() -> None:
    """A cell of another release, target, shape or kernel is not a fallback."""
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
    """Options come before dtypes, and at most five are kept."""
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
    """A dtype is a fallback if all its own configurations compile."""
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
    """Return both kernels of the recurrent form, the second one with these changes."""
    return [record(kernel="m:recurrent_fwd"), record(**{"kernel": "m:recurrent_bwd", **more})]


def test_another_form_of_the_operator_is_a_fallback_when_all_its_kernels_compile() -> None:
    """A form is a fallback if all its kernels compile."""
    assert _uses(
        [failure(), *_recurrent(), record(kernel="m:softmax")],
        Context(forms=FORMS, fallbacks=fallbacks),
    ) == [{"form": "fused_recurrent"}]


def test_a_tolerated_failure_needs_no_fallback_while_its_launch_compiles() -> None:
    """A tolerated failure has a fallback only if its launch has no other configuration."""
    skipped_failure = failure("FC501", tolerated=True, options=_options(8))
    assert _uses([skipped_failure, record()]) == []
    assert _uses([skipped_failure, record(dtype="fp32")]) == [{"dtype": "fp32"}]


def test_forms_survive_the_store() -> None:
    """Forms are restored from a run's JSON."""
    assert forms_from_json(Plan("scan", (), {}, forms=FORMS).context()) == FORMS
    assert forms_from_json({}) == {}


@settings(deadline=None)
@given(RUNS)
def test_a_fallback_is_always_a_cell_that_compiled(cells: list[Record]) -> None:
    """Every fallback is a cell that compiled on the release."""
    good_values = [(c.toolchain, _values(c)) for c in cells if c.verdict is Verdict.COMPILES]
    bad_values = [(c.toolchain, _values(c)) for c in cells if c.verdict is Verdict.FAILS]
    for fallback in summarise(cells, CONTEXT).fallbacks:
        assert any(
            t == fallback.toolchain and fallback.failing.items() <= values.items()
            for t, values in bad_values
        )
        settings_ = (
            dict(fallback.use)
            if set(fallback.use) == {"dtype"}
            else {**fallback.failing, **fallback.use}
        )
        assert any(
            t == fallback.toolchain and settings_.items() <= values.items()
            for t, values in good_values
        )
        assert all(
            fallback.failing[name] != value
            for name, value in fallback.use.items()
            if name in fallback.failing
        )


@settings(deadline=None)
@given(RUNS)
def test_no_failing_cell_with_a_compiling_neighbour_goes_without_a_fallback(
    cells: list[Record],
) -> None:
    """A failing cell with a compiling configuration has a fallback."""
    offers = {
        (fallback.toolchain, *sorted(fallback.failing.items()))
        for fallback in summarise(cells, CONTEXT).fallbacks
    }
    good_dtypes = {(c.toolchain, c.dtype) for c in cells if c.verdict is Verdict.COMPILES}
    for cell in cells:
        if (
            cell.verdict is Verdict.FAILS
            and not cell.tolerated
            and (cell.toolchain, cell.dtype) in good_dtypes
        ):
            values = _values(cell)
            assert any(
                t == cell.toolchain and dict(values_).items() <= values.items()
                for t, *values_ in offers
            )


def _values(cell: Record) -> dict[str, Any]:
    assert cell.launch is not None
    return {**cell.options, "BC": cell.launch.args["BC"]["constexpr"], "dtype": cell.dtype}
