"""Plain accesses to memory: blocks of pointers that every release takes."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.kernel.plain_addresses import (
    address,
    is_plain,
)
from flacheck.capabilities.repro.kernel.syntax_trees import expression


@pytest.mark.parametrize("shape", [(), (1,), (16,), (16, 1), (16, 32), (2, 4, 8)])
def test_what_is_written_here_is_known_again(shape: tuple[int, ...]) -> None:
    """A generated address is plain in every shape."""
    assert is_plain(address("x", shape))


@pytest.mark.parametrize(
    "text", ["x + i", "x + tl.arange(0, n)", "tl.arange(0, 16)", "x - tl.arange(0, 16)", "f(x)"]
)
def test_any_other_address_is_not_plain(text: str) -> None:
    """Other addresses are left for a pass."""
    assert not is_plain(expression(text))
