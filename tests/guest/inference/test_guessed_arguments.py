"""Invented arguments: which are tensors or lengths, and which strings to try."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Literal, Optional

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.arguments import (
    DTYPES,
    Arguments,
    choices,
    is_length,
    is_tensor,
    plain_value,
)
from flacheck.guest.inference.operators import FUNCTION, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import SIZES, Shapes


def with_annotation(
    x: torch.Tensor,
    weight: Optional[torch.Tensor] = None,  # noqa: UP045
    size: int = 3,
    kind: Literal["fast", "slow", "none"] = "none",
) -> None: ...


def plain(x, eps, mask, head_dim, num_heads, is_causal, use_it=True, mode="chunk", n=None):  # type: ignore[no-untyped-def]
    if mode == "parallel" or mode == "":
        return n in (2, 3)
    return mode in ("chunk", "fused")


def parameter(function: Any, name: str) -> inspect.Parameter:
    return inspect.signature(function).parameters[name]


def operator(function: Any) -> Operator:
    name = f"{__name__}:{function.__name__}"
    return Operator(
        name, function, FUNCTION, True, frozenset({"m:k"}), parameters_of(function), function
    )


@pytest.mark.parametrize(
    ("function", "name", "is_known", "is_one"),
    [
        (with_annotation, "x", False, True),
        (with_annotation, "weight", False, True),
        (with_annotation, "size", True, False),
        (plain, "x", False, True),
        (plain, "mask", False, True),
        (plain, "eps", False, False),
        (plain, "eps", True, True),
        (plain, "num_heads", False, False),
        (plain, "is_causal", False, False),
        (plain, "use_it", True, False),
        (plain, "n", False, True),
    ],
)
def test_what_is_a_tensor(function: Any, name: str, is_known: bool, is_one: bool) -> None:
    """The annotation decides, then the documentation, then the name."""
    assert is_tensor(parameter(function, name), is_known) is is_one


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("cu_seqlens", True),
        ("cuseqlens_q", True),
        ("seq_offsets", True),
        ("cu_len", True),
        ("seqlen", False),
        ("offsets", False),
    ],
)
def test_what_says_where_packed_sequences_begin(name: str, is_one: bool) -> None:
    """The argument is recognised by the field's name for it."""
    assert is_length(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)) is is_one


def test_words_worth_trying_are_those_that_the_code_knows() -> None:
    """The words of `Literal[…]` and the other value of a flag are tried."""
    assert choices(parameter(with_annotation, "kind")) == ["fast", "slow"]
    assert choices(parameter(plain, "use_it")) == [False]
    assert choices(parameter(plain, "x")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eps", 1e-5),
        ("head_dim", SIZES["K"]),
        ("num_heads", SIZES["H"]),
        ("mode", "chunk"),
        ("use_it", True),
    ],
)
def test_a_plain_value_follows_its_name(name: str, value: Any) -> None:
    """The name decides where nothing else determines the value."""
    assert plain_value(parameter(plain, name), SIZES)[0] == value


def test_what_a_plan_says_comes_before_what_is_guessed() -> None:
    """Optional arguments stay out unless they are given."""
    of = operator(with_annotation)
    arguments = Arguments(Shapes(Recipe({})), Recipe({}), "bf16")
    values = {"x": [1, 2], "weight": None}
    assert arguments.build(of, CallPlan(values=values), of.takes) == values
    assert arguments.dtype is DTYPES["bf16"]


def with_sizes(q: torch.Tensor, cu_seqlens: torch.Tensor, num_heads: int, scale: float) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def untold(q: torch.Tensor) -> None: ...


def of_no_known_kind(q: torch.Tensor, table: torch.Tensor) -> None:
    """q: queries of shape `[B, T, H, K]`. table: of shape `[B, T]`; integers, which its name does
    not reveal."""


def with_a_word(q: torch.Tensor, layout: str) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def with_a_length_of_its_own(q: torch.Tensor, state_len: int) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


def with_a_dimension_of_all(q: torch.Tensor, max_seqlen: int, num_heads: int) -> None:
    """
    q: queries of shape `[B, T, H, K]`.
    """


@pytest.mark.parametrize(
    ("function", "is_guess"),
    [
        (with_sizes, False),
        (untold, True),
        (of_no_known_kind, True),
        (with_a_word, True),
        (with_a_length_of_its_own, True),
        (with_a_dimension_of_all, False),
    ],
)
def test_what_nobody_tells_is_a_guess(function: Any, is_guess: bool) -> None:
    """A tensor without a documented shape or a kind, a word, and a size that no tensor has are
    guesses."""
    instance, recipe = operator(function), Recipe({})
    arguments = Arguments(Shapes(recipe), recipe, "bf16")
    parameters = [each for each in instance.takes if each.name != "cu_seqlens"]
    made_up: list[bool] = []
    for each in parameters:
        # There is no card here: a tensor is guessed before it is made.
        with contextlib.suppress(AssertionError, RuntimeError):
            arguments.build(instance, CallPlan(), [each])
        made_up.append(arguments.has_guesses)
    assert made_up[-1] is is_guess
