"""Conditions before a launch that a call did not make, followed back to the call's arguments."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.solver import path_conditions
from flacheck.guest.solver.argument_dataflow import DTYPE, GIVE, SHAPE, VALUE, Constraint
from flacheck.guest.solver.path_conditions import PathConditions

SOURCE = """
import math
import torch

class Kernel:
    def __getitem__(self, grid):
        return lambda *args: None

small, large, early, masked, complex_kernel = (Kernel() for _ in range(5))

def norm(x, shape, mask=None):
    if x.is_complex():
        return complex_kernel[(1,)](x)
    width = math.prod(shape)
    if mask is not None:
        masked[(1,)](x)
    return inner(x, width)

def inner(x, width):
    if x.numel() < 64:
        early[(1,)](x)
        return
    with torch.no_grad():
        if width <= 128:
            small[(1,)](x)
        elif width > 4096:
            large[(1,)](x)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "turning_shop.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    path_conditions.module_functions.cache_clear()
    yield importlib.import_module("turning_shop")
    del sys.modules["turning_shop"]


def wanted(shop: ModuleType, kernel: str, **given: Any) -> list[Constraint]:
    path = PathConditions(f"turning_shop:{kernel}", frozenset({"turning_shop"}))
    known = {"mask": None, **given}
    with path.trace(known, caller=__name__):
        shop.norm(**given)
    return path.constraints


def test_a_branch_of_a_callee_wants_other_arguments(shop: ModuleType) -> None:
    """One branch after the other: the product of the shape is to be over 128, then over 4096."""
    x = torch.ones(8, 16)
    demands = wanted(shop, "large", x=x, shape=[2, 8])
    assert demands == [Constraint(VALUE, "shape", (2, 65)), Constraint(VALUE, "shape", (1, 129))]
    assert Constraint(VALUE, "shape", (2, 2049)) in wanted(shop, "large", x=x, shape=(2, 65))


def test_what_leaves_the_function_before_must_not(shop: ModuleType) -> None:
    """A branch that returns lies on the way of all that stands behind it."""
    demands = wanted(shop, "small", x=torch.ones(2, 4), shape=[2, 4])
    assert Constraint(SHAPE, "x", (2, 32)) in demands


def test_what_is_left_out_and_what_is_complex_is_wanted(shop: ModuleType) -> None:
    """An argument that is None by default, and a dtype."""
    x = torch.ones(8, 16)
    assert Constraint(GIVE, "mask") in wanted(shop, "masked", x=x, shape=[8])
    assert wanted(shop, "complex_kernel", x=x, shape=[8]) == [
        Constraint(DTYPE, "x", torch.complex64),
    ]


def test_a_call_that_turns_right_wants_nothing(shop: ModuleType) -> None:
    """And the program is no longer watched afterwards."""
    assert wanted(shop, "small", x=torch.ones(8, 16), shape=[8]) == []
    assert sys.gettrace() is None or "path_conditions" not in repr(sys.gettrace())


def test_a_kernel_that_no_branch_keeps_has_no_turnings(shop: ModuleType) -> None:
    """There is nothing to watch for one that nobody launches."""
    assert not PathConditions("turning_shop:nobody", frozenset({"turning_shop", "missing"}))
