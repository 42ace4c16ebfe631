"""Kernels as operators: the kind of each argument by its use in the kernel."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference import usage
from flacheck.guest.inference.operators import KERNEL, Operator
from flacheck.guest.search import kernel_operators as module
from flacheck.guest.search.kernel_operators import kernel_operators

tl: Any = None


class Parameter:
    def __init__(self, name: str, is_constexpr: bool) -> None:
        self.name, self.is_constexpr = name, is_constexpr


class Kernel:
    """A kernel as Triton's: constants have names in capitals here."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.src = fn, ""
        self.arg_names = list(fn.__annotations__) or list(
            fn.__code__.co_varnames[: fn.__code__.co_argcount]
        )
        self.params = [Parameter(name, name.isupper()) for name in self.arg_names]
        self.launched: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run(self) -> None: ...

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.launched.append((args, kwargs))


class Tuner:
    """Stand for an autotuner with one configuration, or for heuristics."""

    def __init__(self, fn: Any, configs: list[Any], values: dict[str, Any]) -> None:
        self.fn, self.configs, self.values, self.arg_names = fn, configs, values, fn.arg_names

    def run(self) -> None: ...

    def __getitem__(self, grid: Any) -> Any:
        return self.fn[grid]


class Config:
    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs


def jit(function: Any) -> Any:
    return function


@jit
def _add(first, second, PREC, MODE):  # type: ignore[no-untyped-def]
    if MODE == "fast":
        return tl.load(first)
    return tl.dot(tl.load(first), second, input_precision=PREC)


add: Any = Kernel(_add)


@jit
def _scale(x, y, n, stride_xa, stride_xb, eps, BLOCK, SIZE, DOES, KIND, PRECISION, HOW, N):  # type: ignore[no-untyped-def]
    start = x + n * stride_xa
    start += stride_xb
    if HOW == "fast":
        start = tl.dot(start, start, input_precision=PRECISION)
    out = tl.advance(tl.make_block_ptr(base=y), (0, 0))
    if DOES and not SIZE:
        tl.store(out, add(start[None, :], eps, PRECISION, HOW).to(KIND) + SIZE)
    if N:
        return tl.arange(0, N)


inner = Kernel(_scale)
scale = Tuner(Tuner(inner, [Config(BLOCK=16)], {}), [], {"SIZE": len})
scale_name = f"{__name__}:_scale"


def operator(monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setattr(sys.modules[__name__], "_scale", scale)
    monkeypatch.setattr(module, "option_names", lambda: frozenset(("num_warps",)))
    (kernel_operator,) = kernel_operators(
        [scale_name, f"{__name__}:no_such", "no_module:kernel"], (128,)
    )
    return kernel_operator


def test_arguments_are_annotated_by_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of tuners and heuristics are left out; a number that is also tested is not a flag."""
    kernel_operator = operator(monkeypatch)
    assert (kernel_operator.kind, kernel_operator.kernels) == (KERNEL, frozenset({scale_name}))
    annotations = {each.name: each.annotation for each in kernel_operator.parameters}
    assert annotations == {
        "x": "Tensor",
        "y": "Tensor",
        "n": "int",
        "stride_xa": "int",
        "stride_xb": "int",
        "eps": "float",
        "DOES": "bool",
        "KIND": usage.DTYPE,
        "PRECISION": "Literal['tf32', 'ieee']",
        "HOW": "Literal['fast']",
        "N": "int",
        "num_warps": "option",
    }


def test_a_launch_passes_as_much_as_it_can_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuners read only arguments that are passed by position."""
    kernel_operator = operator(monkeypatch)
    monkeypatch.setattr(sys.modules[__name__], "tl", type("tl", (), {"float32": "fp32"}))
    monkeypatch.setitem(sys.modules, "triton.language", tl)
    monkeypatch.setitem(sys.modules, "triton", type("triton", (), {"language": tl}))
    strides = {"stride_xa": 64, "stride_xb": 1}
    kernel_operator.call(x="X", y="Y", n=3, **strides, eps=0.5, KIND=torch.float32, N=16)
    positional, keywords = inner.launched.pop()
    assert positional == ("X", "Y", 3, 64, 1, 0.5)
    assert keywords == {"KIND": "fp32", "N": 16}


def test_a_heuristic_that_reads_its_own_parameter_needs_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A heuristic that only converts what callers pass leaves the parameter to them."""
    converting = Tuner(inner, [], {"SIZE": lambda args: bool(args["SIZE"])})
    monkeypatch.setattr(sys.modules[__name__], "_scale", converting)
    monkeypatch.setattr(module, "option_names", frozenset)
    (kernel_operator,) = kernel_operators([scale_name], (128,))
    assert "SIZE" in {each.name for each in kernel_operator.parameters}


def test_a_kernel_that_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper of the package's own may have anything under the names of an autotuner."""
    broken = Tuner(inner, [object()], {})
    monkeypatch.setattr(sys.modules[__name__], "_scale", broken)
    assert list(kernel_operators([scale_name], (128,))) == []
