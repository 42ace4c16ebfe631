"""Values of the package's own launches of a kernel, read from their code."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.recorder import refusals
from flacheck.guest.search import launch_sites

PACKAGE = {
    "__init__.py": "",
    "kernels.py": """
def _attention(q, out, lse, sinks, n, BLOCK_M, BLOCK_N, BLOCK_D, CAUSAL): ...

def _scale(x, y, n, stride, BLOCK): ...

def _rows(x, BLOCK): ...
""",
    "calls.py": """# Launches kernels of triton.
from __future__ import annotations

from .kernels import _attention, _rows, _scale

LOG2 = 1.44
TABLE = {"BLOCK": 256, "num_stages": 2}

def attention(q, sinks=None, causal: bool = False, block=32):
    heads, size = q.shape[1], q.shape[2]
    lse = torch.empty((4, heads), dtype=torch.float32)
    warps = 4 if size <= 64 else 8
    block_m = choose(q) if FAST else block * 4

    def grid(meta):
        return (heads,)

    _attention[grid](
        q, q, lse, sinks, unknown(q), BLOCK_M=block_m, BLOCK_N=block * 2 // q.element_size(), BLOCK_D=size,
        CAUSAL=causal, num_warps=warps, waves_per_eu=2,
    )

def scale(x, config):
    _scale[(1,)](x, x, x.numel(), x.stride(0), **config)

def rows(x: torch.Tensor, block=None, more=3, layout="rows"):
    if layout == "columns":
        row, column = 2, 1
    else:
        row, column = 1, 2
    width = x.size(column)
    if width < 100:
        warps = 2
    elif unknown(width):
        warps = 4
    else:
        warps = 8
    if block is None:
        block = 16
    if more is None:
        more = 1
    _rows[(more,)](x, BLOCK=block * more, num_warps=warps)
""",
}


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The kernels of a package that can be imported."""
    # A package of another test may be remembered by its name.
    package = tmp_path.name
    for name, text in PACKAGE.items():
        file = tmp_path / package / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    plain_empty = torch.empty

    def empty(*args: Any, device: str = "cpu", **options: Any) -> Any:
        return plain_empty(*args, **options, device="meta")

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(refusals, "is_option", ("num_warps", "num_stages").__contains__)
    importlib.import_module(f"{package}.calls").torch = torch  # type: ignore[attr-defined]
    yield sys.modules[f"{package}.kernels"]
    for name in [*sys.modules]:
        if name.partition(".")[0] == package:
            del sys.modules[name]


SIZES = (128, 64, 256)


class Parameter:
    def __init__(self, name: str) -> None:
        self.name, self.is_constexpr = name, name.isupper()


class Kernel:
    """A kernel as Triton's, whose constants have names in capitals."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
        self.params = [Parameter(name) for name in self.arg_names]


def test_literals_defaults_and_shapes_are_values_of_a_launch(kernels: Any) -> None:
    """An argument that needs an unknown function has no value; options depend on the head size."""
    sites = launch_sites.launch_sites(Kernel(kernels._attention), SIZES)
    lse = {"of": "float32", "shape": [4, 4]}
    constants = {"BLOCK_M": 128, "BLOCK_N": 32, "CAUSAL": False}
    passed = {"lse": lse, "sinks": None, **constants}
    assert sites == [
        (128, {**passed, "BLOCK_D": 128, "num_warps": 8}),
        (64, {**passed, "BLOCK_D": 64, "num_warps": 4}),
        (256, {**passed, "BLOCK_D": 256, "num_warps": 8}),
    ]
    in_fp32 = launch_sites.launch_sites(Kernel(kernels._attention), SIZES, torch.float32)
    assert [values["BLOCK_N"] for _, values in in_fp32] == [16, 16, 16]


def test_a_branch_that_is_not_taken_gives_no_value(kernels: Any) -> None:
    """The values of an if that the sizes decide are those of its branch; others are the first."""
    sites = launch_sites.launch_sites(Kernel(kernels._rows), SIZES)
    assert [values["num_warps"] for _, values in sites] == [4, 2, 4]
    assert {values["BLOCK"] for _, values in sites} == {48}


def test_an_unknown_table_has_the_values_of_one_in_the_module(kernels: Any) -> None:
    """A launch that passes `**config` has a literal table with its constants; rows have a stride."""
    sites = launch_sites.launch_sites(Kernel(kernels._scale), SIZES)
    values = {"n": 512 * 128, "stride": 128, "BLOCK": 256, "num_stages": 2}
    assert sites[0] == (128, values)
