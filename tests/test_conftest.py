"""What the tests themselves do where there is no package index."""

from __future__ import annotations

import subprocess

import pytest

from flacheck.toolchains import wheels
from tests.conftest import _needing_the_index


class Marked:
    """A test with a mark, or without."""

    def __init__(self, mark: object) -> None:
        self._mark = mark

    def get_closest_marker(self, name: str) -> object:
        return self._mark


ERRORS = (wheels.Offline("no route"), subprocess.TimeoutExpired("uv", 60))


@pytest.mark.parametrize("error", ERRORS)
def test_a_test_without_its_index_is_skipped(error: Exception) -> None:
    """With the reason; any other test fails as ever."""
    needing = _needing_the_index(Marked("network"))  # type: ignore[arg-type]
    next(needing)
    with pytest.raises(pytest.skip.Exception, match="the package index is slow or cannot be"):
        needing.throw(error)
    plain = _needing_the_index(Marked(None))  # type: ignore[arg-type]
    next(plain)
    with pytest.raises(type(error)):
        plain.throw(error)
