"""Operators that a program registers.

On the fake card their bodies for the card run, and their launches are recorded.
"""

from __future__ import annotations

from pathlib import Path

from tests.captured import exit_code, needs_torch, recorded
from tests.guest.search.test_drive import KERNELS, driven, package

CUSTOM = """
from torch.library import custom_op, triton_op, wrap_triton, register_autograd

@custom_op("shop::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    launch(x, 1)
    return x + x

@twice.register_fake
def _(x):
    return torch.empty_like(x)

def back(ctx, gradient):
    launch(gradient, 2)
    return gradient * 2

twice.register_autograd(back)

@custom_op("shop::in_place", mutates_args=("x",), device_types="cuda")
def in_place(x: torch.Tensor) -> None:
    launch(x, 3)

@triton_op("shop::traced", mutates_args={})
def traced(x: torch.Tensor) -> torch.Tensor:
    wrap_triton(double)[(1,)](x, 4, BLOCK=64)
    return torch.empty_like(x)

x = torch.randn(64, device="cuda", requires_grad=True)
y = twice(x)
assert y.shape == x.shape and y.requires_grad
y.sum().backward()
assert x.grad.shape == x.shape
in_place(torch.zeros(64, device="cuda"))
traced(torch.zeros(64, device="cuda"))
torch.ops.shop.twice(torch.zeros(64, device="cuda"))
"""


@needs_torch
def test_custom_operators_run_their_bodies(tmp_path: Path) -> None:
    """The bodies run with a form or without, forward and backward, by name and by function."""
    file = recorded(tmp_path, CUSTOM)
    numbers = [one.launch.args["n"] for one in file.launches for _ in range(one.count)]
    assert sorted(number.get("int", 1) for number in numbers) == [1, 1, 2, 3, 4]


LIBRARY = """
library = torch.library.Library("shop", "DEF")
library.define("scaled(Tensor x, float by) -> Tensor")
library.define("both(Tensor x) -> Tensor")

@torch.library.impl(library, "scaled", "CUDA")
def scaled(x, by):
    launch(x, 5)
    return torch.empty_like(x)

@torch.library.impl(library, "scaled", "Meta")
def scaled_form(x, by):
    return torch.empty_like(x)

@torch.library.impl(library, "both", "CPU")
def on_cpu(x):
    raise SystemExit("the CPU's body ran")

@torch.library.impl(library, "both", "CUDA")
def on_card(x):
    launch(x, 6)
    return x.clone()

override = torch.library.Library("aten", "IMPL")

def sine(x):
    launch(x, 7)
    # Its own operator, inside of itself, is torch's.
    return torch.sin(x)

override.impl("sin", sine, "CUDA")
x = torch.randn(64, device="cuda")
assert torch.ops.shop.scaled(x, 2.0).shape == (64,)
assert torch.ops.shop.both(x).device.type == "cuda"
assert torch.sin(x).shape == (64,)
torch.sin(torch.zeros(4))
"""


@needs_torch
def test_bodies_of_a_library_run(tmp_path: Path) -> None:
    """The bodies for the card run, for the library's own operators and torch's, never on CPU
    tensors."""
    file = recorded(tmp_path, LIBRARY)
    assert sorted(one.launch.args["n"]["int"] for one in file.launches) == [5, 6, 7]


OUTSIDE = """
from torch.library import wrap_triton
from torch._higher_order_ops.out_dtype import out_dtype

wrap_triton(double)[(1,)](torch.zeros(64, device="cuda"), 9, BLOCK=64)
left = torch.zeros(4, 8, dtype=torch.int8, device="cuda")
product = out_dtype(torch.ops.aten.mm.default, torch.int32, left, left.T)
assert product.shape == (4, 4) and product.dtype == torch.int32
generator = torch.cuda.default_generators[0]
seed, offset = generator.get_state().view(torch.int64)
"""


@needs_torch
def test_what_is_there_for_tracers_works_without_one(tmp_path: Path) -> None:
    """A wrapped kernel is launched; an operator that takes operators gives its result's form."""
    file = recorded(tmp_path, OUTSIDE)
    assert [one.launch.args["n"]["int"] for one in file.launches] == [9]


FAILING = """
@torch.library.custom_op("shop::broken", mutates_args=())
def broken(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("wants a gate")

try:
    broken(torch.zeros(4, device="cuda"))
except ValueError as error:
    assert str(error) == "wants a gate"
else:
    sys.exit(1)
"""


@needs_torch
def test_a_body_that_raises_raises_for_its_caller(tmp_path: Path) -> None:
    """The caller gets the body's own exception and may catch it."""
    assert exit_code(tmp_path, FAILING) == 0


REGISTERING = """
import torch
from tiny.kernels import packed, rare, scale

@torch.library.custom_op("tiny::documented", mutates_args=())
def documented(x: torch.Tensor) -> torch.Tensor:
    scale[(1,)](x, x, x, x.shape[0], K=16)
    return torch.empty_like(x)

library = torch.library.Library("tiny_more", "DEF")
library.define("named(Tensor x) -> Tensor")

def body(x):
    rare[(1,)](x, x, K=16)
    return torch.empty_like(x)

library.impl("named", body, "CUDA")

def outer(x: torch.Tensor):
    return torch.ops.tiny_more.named(x)
"""


@needs_torch
def test_the_driver_follows_registered_operators(tmp_path: Path) -> None:
    """An operator of torch.library is called like a function, and so are its callers."""
    launches, report = driven(package(tmp_path, kernels=KERNELS, ops=REGISTERING))
    assert {one.kernel for one in launches.launches} == {"tiny.kernels:scale", "tiny.kernels:rare"}
    assert {"tiny.ops:documented", "tiny.ops:outer"} <= report["operators"].keys()
