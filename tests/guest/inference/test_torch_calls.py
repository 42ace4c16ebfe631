"""Functions that stand for an operator of torch's are called as torch's tests call that."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.fake_cuda.registrations import BODIES
from flacheck.guest.inference import arguments, torch_calls
from flacheck.guest.inference.operators import FUNCTION, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes
from flacheck.guest.search.calls import call_rank
from flacheck.guest.search.trust import Rank

FILE = Path(torch_calls.__file__).with_suffix(".jsonl")


def mean_dim(x, dim, keepdim=False, *, dtype=None):  # type: ignore[no-untyped-def]
    return x.mean(dim, keepdim, dtype=dtype)


def replication_pad3d(*args, **kwargs):  # type: ignore[no-untyped-def]
    x = args[0]
    padding = args[1]
    return x, padding


def summed(x, dim, out): ...  # type: ignore[no-untyped-def]


def addr(x): ...  # type: ignore[no-untyped-def]


def chunk_gated_rule(x): ...  # type: ignore[no-untyped-def]


def operator(function: Any) -> Operator:
    parameters = parameters_of(function)
    kernels = frozenset({"m:k"})
    return Operator(
        f"m:{function.__name__}", function, FUNCTION, True, kernels, parameters, function
    )


def plans(function: Any) -> list[CallPlan]:
    return list(torch_calls.plans(operator(function), CallPlan()))


@pytest.fixture
def registered() -> Iterator[None]:
    """`summed` is what a program gave for one of torch's sums."""
    before = dict(BODIES.bodies)
    BODIES.note("aten::sum.dim_IntList", "CUDA", summed)
    yield
    BODIES.bodies = before


def test_a_function_named_after_an_operator_takes_what_that_takes() -> None:
    """Also one that is named after an overload: `mean_dim` is `mean.dim`."""
    made = plans(mean_dim)
    assert all(
        plan.from_torch and plan.label.startswith("as torch's tests call mean") for plan in made
    )
    assert made[0].values["x"]["of"] == "bf16"
    assert all(isinstance(plan.values["dim"], list) for plan in made)
    assert [plan.values["keepdim"] for plan in made if "keepdim" in plan.values]


def test_arguments_are_given_by_their_places() -> None:
    """A function that takes all out of `*args` has them in torch's order."""
    first = plans(replication_pad3d)[0]
    assert len(first.values["padding"]) == 6
    assert len(first.values["x"]["shape"]) in (4, 5)


def test_a_function_that_takes_less_stands_for_something_else() -> None:
    """`addr` of torch takes three tensors; the start of a name alone says nothing."""
    assert plans(addr) == []
    assert plans(chunk_gated_rule) == []


def test_what_a_program_registered_counts_as_torchs(registered: None) -> None:
    """Whatever it is called; where it writes its results it gets what torch returned."""
    assert torch_calls.implements_torch_operator(operator(summed))
    assert not torch_calls.implements_torch_operator(operator(mean_dim))
    made = plans(summed)
    assert made[0].label == "as torch's tests call sum, 1"
    assert {name for plan in made for name in plan.values} == {"x", "dim", "out"}


def test_a_registered_functions_calls_are_seen() -> None:
    """Also where the package's own functions refer to it, as the one does that registers it."""
    plan = CallPlan(from_torch=True)
    shared = dataclasses.replace(operator(summed), shared=True)
    assert call_rank(shared, plan, succeeded=True, is_documented=True) == Rank.DOCUMENTED
    assert call_rank(shared, plan, succeeded=True, is_documented=False) == Rank.SHARED


def test_tensors_of_calls_are_laid_out_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their strides, views that are conjugates, and lists of them; bf16 is the call's dtype."""

    def made(extents: tuple[int, ...], dtype: torch.dtype, training: bool) -> torch.Tensor:
        return torch.ones(extents, dtype=dtype)

    monkeypatch.setattr(arguments, "make_tensor", made)
    given = arguments.Arguments(Shapes([], Recipe({})), Recipe({}), "fp16")
    told = torch_calls.parse_tensors(
        [{"t": "bf16[2,3;1,2]"}, {"t": "complex64[4]*"}, {"t": "i64[]"}, [1]]
    )
    strided, conjugate, number, plain = given.from_value(told, {})
    assert (strided.dtype, strided.shape, strided.stride()) == (torch.float16, (2, 3), (1, 2))
    assert conjugate.is_conj()
    assert (number.dtype, number.shape, plain) == (torch.int64, (), [1])


def test_the_file_has_each_operator_once() -> None:
    """In order, so that it changes by lines; each with calls that can be read."""
    lines = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    names = [line["name"] for line in lines]
    assert names == sorted(set(names))
    assert len(names) > 500
    for line in lines:
        assert line["calls"], line["name"]
        for call in line["calls"]:
            assert call.keys() == {"overload", "args", "kwargs", "returned"}, line["name"]
            torch_calls.parse_tensors(call)
