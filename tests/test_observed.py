"""Records cut down to what an analysis compares."""

from __future__ import annotations

from flacheck.analysis.observed import take_apart
from tests.made_records import (
    SHAPE,
    launch,
)


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
