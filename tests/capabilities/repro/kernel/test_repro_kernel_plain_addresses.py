"""Plain accesses to memory: blocks of pointers that every release takes."""

from __future__ import annotations

import ast

import pytest

from flacheck.capabilities.repro.kernel.plain_addresses import (
    address,
    is_plain,
    load,
    offsets,
    store,
)
from flacheck.capabilities.repro.kernel.syntax_trees import expression


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((16,), "tl.arange(0, 16)"),
        ((16, 32), "tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]"),
        (
            (2, 4, 8),
            "tl.arange(0, 2)[:, None, None] * 32 + tl.arange(0, 4)[None, :, None] * 8"
            " + tl.arange(0, 8)[None, None, :]",
        ),
    ],
)
def test_a_block_lies_row_by_row(shape: tuple[int, ...], text: str) -> None:
    """The last axis is next to each other."""
    assert offsets(shape) == text
    assert ast.unparse(address("x", shape)) == f"x + {text}"


def test_a_scalar_is_at_its_pointer() -> None:
    """Without an offset."""
    assert ast.unparse(address("x", ())) == "x"
    assert ast.unparse(load("x", ())) == "tl.load(x)"
    assert ast.unparse(store("x", (16,), expression("v"))) == "tl.store(x + tl.arange(0, 16), v)"


@pytest.mark.parametrize("shape", [(), (1,), (16,), (16, 1), (16, 32), (2, 4, 8)])
def test_what_is_written_here_is_known_again(shape: tuple[int, ...]) -> None:
    """In whatever shape."""
    assert is_plain(address("x", shape))


@pytest.mark.parametrize(
    "text", ["x + i", "x + tl.arange(0, n)", "tl.arange(0, 16)", "x - tl.arange(0, 16)", "f(x)"]
)
def test_any_other_address_is_not_plain(text: str) -> None:
    """It stays to be reduced."""
    assert not is_plain(expression(text))
