"""The one order of all fallbacks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flacheck.pipeline.fallbacks.ranking import position, rank, steps

FAILING = {"num_warps": 4, "num_stages": 3, "BK": 64, "dtype": "bf16"}


def test_the_nearest_comes_first() -> None:
    """Fewer changes come first, then fewer steps, options and smaller values."""
    nearest_first: list[dict[str, Any]] = [
        {"num_warps": 2},
        {"num_warps": 8},
        {"BK": 32},
        {"BK": 128},
        {"num_warps": 1},
        {"num_warps": 2, "num_stages": 2},
        {"num_warps": 2, "BK": 32},
    ]
    ranks = [rank(FAILING, use, tiles=("BK",)) for use in nearest_first]
    assert all(one < other for one, other in pairwise(ranks))


def test_of_equally_near_tiles_the_lesser_loss_decides() -> None:
    """The estimated loss decides between equally near tiles."""
    cheap = rank(FAILING, {"BK": 128}, tiles=("BK",), loss=-0.5)
    assert cheap < rank(FAILING, {"BK": 32}, tiles=("BK",), loss=0.5)


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ({"num_warps": 8}, 1.0),
        ({"num_warps": 1, "BK": 128}, 3.0),
        ({"num_stages": 2}, 0.58),
        ({"dtype": "fp32"}, 1.0),
        ({"maxnreg": 128}, 1.0),
    ],
)
def test_a_step_is_a_doubling_or_a_halving(use: dict[str, Any], count: float) -> None:
    """A setting that is new or not a number counts as one step."""
    assert steps(FAILING, use) == count


def test_settings_are_named_options_first_and_the_dtype_last() -> None:
    """Options are first and the dtype is last."""
    names = ["dtype", "BV", "num_stages", "BK", "num_warps"]
    assert sorted(names, key=position) == ["num_warps", "num_stages", "BK", "BV", "dtype"]
