"""The nearest settings among those that compile."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flacheck.model import Json
from flacheck.pipeline.fallbacks import points

POINTS = st.fixed_dictionaries(
    {name: st.sampled_from([1, 2, 4, 8]) for name in ("num_warps", "BC", "BV")},
    optional={"maxnreg": st.just(128)},
)


@settings(deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=30), POINTS)
@example([{"BC": 1, "BV": 1}, {"BC": 1, "BV": 2}], {"BC": 1, "BV": 1, "maxnreg": 128})
def test_the_quick_search_finds_what_the_thorough_one_finds(
    settings_: list[Json], failing: Json
) -> None:
    """The quick search finds the same nearest settings."""
    thorough = points.Points(settings_).nearest(failing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "FEW", 0)
        patch.setattr(points, "ENOUGH", 99)
        patch.setattr(points, "CHANGES", 4)
        assert points.Points(settings_).nearest(failing) == thorough
