"""Records cut down to what an analysis compares."""

from __future__ import annotations

from typing import Any

from flacheck.evidence.analysis.observation import LaunchParts, take_apart
from flacheck.model import Launch
from tests.made_records import SHAPE, launch


def _parts(dtype: str = "bf16", **constexprs: Any) -> LaunchParts:
    """A launch with the shape's K as a size, taken apart."""
    plain = launch(dtype, K=256, PRECISION="tf32", **constexprs)
    return take_apart(Launch.from_json(plain), SHAPE)


def test_only_what_a_caller_may_tune_separates_configurations_of_one_launch() -> None:
    """Block sizes are tuned; shape sizes, flags and strings make another launch."""
    parts = _parts(BC=64, REVERSE=True)
    assert parts.tuned_constants == {"BC": 64}
    assert parts.identity == _parts(BC=32, REVERSE=True).identity
    assert parts.identity != _parts(BC=64, REVERSE=False).identity
    assert parts.skeleton == _parts("fp32", REVERSE=True).skeleton


def test_without_a_shape_a_size_is_not_taken_for_a_block() -> None:
    """Without a shape, only omitted parameters and block names are tuned."""
    plain = {**launch(K=256, BK=64, BLOCK_M=32, W=7, tile=4), "omitted": ["tile"]}
    recording = Launch.from_json(plain)
    assert take_apart(recording, {}).tuned_constants == {"BK": 64, "BLOCK_M": 32, "tile": 4}


def test_a_record_without_a_launch_has_no_parts() -> None:
    """A CUDA unit's record has no launch parts."""
    assert take_apart(None, {}) == LaunchParts("", "", {})
