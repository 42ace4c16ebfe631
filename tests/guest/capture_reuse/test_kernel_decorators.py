"""Decorators that another release repeats: equal where they have the same result."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

triton = pytest.importorskip("triton")

from flacheck.guest.capture_reuse.kernel_decorators import (  # noqa: E402
    describe_kernels,
    first_difference,
)
from flacheck.guest.engine.loader import module_from  # noqa: E402
from flacheck.guest.recorder.launch_description import Identities  # noqa: E402

KERNELS = """
import triton
import triton.language as tl

ONE: tl.constexpr = tl.constexpr(1)

@triton.autotune([triton.Config({}, num_warps=32, num_stages=4)], ["n"])
@triton.jit
def wide(x, n): ...

@triton.autotune([], ["n"])
@triton.jit
def plain(x, n): ...

@triton.jit
def sorted_along(x, axis: tl.constexpr = None, descending: tl.constexpr = tl.constexpr(0)): ...
"""


@pytest.fixture
def kernels(tmp_path: Path) -> ModuleType:
    path = tmp_path / "decorated.py"
    path.write_text(KERNELS, encoding="utf-8")
    return module_from(str(path), "decorated")


def test_decorators_repeat_from_their_description(kernels: ModuleType, tmp_path: Path) -> None:
    """Also one configuration without parameters, no configuration, and constexpr defaults."""
    described = json.loads(json.dumps(describe_kernels([kernels], Identities({}))))
    assert set(described) == {"decorated:wide", "decorated:plain", "decorated:sorted_along"}
    assert first_difference(described, str(tmp_path)) is None


def test_another_parameter_differs(kernels: ModuleType, tmp_path: Path) -> None:
    """The kernel is named by its module and variable."""
    described = json.loads(json.dumps(describe_kernels([kernels], Identities({}))))
    described["decorated:wide"]["parameters"][0][0] = "y"
    assert first_difference(described, str(tmp_path)) == "decorated:wide"
