"""Fixtures of the tests of reduction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import made_specimens


@pytest.fixture(autouse=True, scope="session")
def front_end() -> Iterator[None]:
    """The worker that gives specimens their types ends with the session."""
    yield
    made_specimens.end_front_end()
