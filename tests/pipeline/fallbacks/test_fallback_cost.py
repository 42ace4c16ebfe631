"""The estimate of what a change of settings costs."""

from __future__ import annotations

import math

import pytest

from flacheck.pipeline.fallbacks.cost import estimate, loss

TILES = ("BK", "BV")


def test_the_estimate_knows_what_it_says() -> None:
    """Half of a tile's side, or one stage, costs half as much again."""
    assert estimate([32, 64], 4, 3) / estimate([64, 64], 4, 3) == pytest.approx(1.5)
    assert estimate([64, 64], 4, 1) / estimate([64, 64], 4, 3) == pytest.approx(1.5)
    failing = {"num_warps": 4, "num_stages": 3, "BK": 64, "BV": 64}
    assert loss(failing, {"BK": 32}, TILES) == round(math.log2(1.5), 2)
    assert loss(failing, {"num_warps": 16}, TILES) > loss(failing, {"num_warps": 8}, TILES)
