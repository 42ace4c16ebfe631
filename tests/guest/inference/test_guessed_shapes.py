"""Sizes and shapes that the package driver gives to arguments, by names and texts."""

# The driver imports torch, and the functions here are read and never called.
# ruff: noqa: E402

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.operators import FUNCTION, LAYER, Operator
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import (
    SIZES,
    Shapes,
    documented_shapes,
    extent_of,
    extents_of,
    size_of,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("K", 128),
        ("head_dim", 128),
        ("vocab_size", 1024),
        ("hidden_size", 256),
        ("whatever", 64),
        ("num_speculative_tokens", 2),
        ("draft_head_dim", 128),
    ],
)
def test_a_dimension_has_a_size_by_its_letter_or_word(name: str, value: int) -> None:
    """An unfamiliar name has a middling size."""
    assert size_of(name, SIZES) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [("H*K", 512), ("N + 1", 3), ("T/BT", 8), ("T // 0", None), ("x is y", None), ("", None)],
)
def test_an_extent_is_a_sum_over_dimensions(expression: str, value: int | None) -> None:
    """A text that is not such an expression, or has no value, gives no extent."""
    assert extent_of(expression, SIZES) == value


def test_a_shape_needs_all_of_its_extents() -> None:
    """Numbers stand for themselves."""
    assert extents_of(("B", 3, "H*K"), SIZES) == (2, 3, 512)
    assert extents_of(("B", "no shape"), SIZES) is None


def test_a_docstring_says_shapes() -> None:
    """Shapes are read in the forms in which packages write them; other lists are left out."""

    def function(
        q: Any,
        g: Any,
        beta: Any,
        h0: Any,
        mask: Any,
        mode: Any,
        bias: Any,
        head_first: bool = False,
    ) -> None:
        """Compute.

        Args:
            q (torch.Tensor): queries of shape `[B, T, H, K]`.
            g: gates (B, T, H).
            beta (torch.Tensor):
                (forget) gates of shape `[B, T, HV]`.
            h0 (Optional[Tensor]): state of shape [N, H, K, V] or None
            mask: of shape `[B, H, T]` if `head_first=True` else `[B, T, H]`
            mode: one of [fast, slow-but-right]
            other: of shape [B, T]
            bias: Optional (B, T) bias
        """

    assert documented_shapes(function) == {
        "q": ("B", "T", "H", "K"),
        "beta": ("B", "T", "HV"),
        "h0": ("N", "H", "K", "V"),
        "mask": ("B", "T", "H"),
        "bias": ("B", "T"),
    }


def test_a_comment_beside_a_parameter_has_its_shape() -> None:
    """A docstring comes first; a comment without a shape says nothing."""

    def function(
        q: Any,  # (B, NH, S, DHQK)
        out: Any = None,  # shape: [B, NH, S], optional
        eps: float = 1e-5,  # added to the variance (of all rows)
        v: Any = None,  # (B, S)
    ) -> None:
        """v: of shape [B, NH, S, DHHV]."""

    assert documented_shapes(function) == {
        "q": ("B", "NH", "T", "DHQK"),
        "out": ("B", "NH", "T"),
        "v": ("B", "NH", "T", "DHHV"),
    }


def operator(name: str, function: Any, kind: str = FUNCTION) -> Operator:
    return Operator(name, function, kind, True, frozenset({"m:k"}), (), function)


def with_docs(x: Any, y: Any) -> None:
    """x: of shape [M, W]."""


def silent(x: Any, unheard: Any) -> None: ...


def test_candidates_come_by_their_worth() -> None:
    """The plan's shape comes first, then the documented one, the recipe's, and that of the name."""
    one, other = operator("p.a:told", with_docs), operator("p.b:silent", silent)
    shapes = Shapes(Recipe({"shapes": {"x": ["E"]}}))
    plan = CallPlan(shapes={"x": ["S", "S"]})
    assert shapes.candidates(one, plan, "x")[:4] == [
        ("S", "S"),
        ("M", "W"),
        ("E",),
        ("B", "T", "D"),
    ]
    assert shapes.candidates(other, CallPlan(), "unheard")[0] == ("B", "T", "H", "K")
    assert shapes.is_documented(one, "x")
    assert not shapes.is_documented(one, "y")


def test_a_layer_takes_hidden_states() -> None:
    """The input is a hidden state unless its name means tokens."""
    layer = operator("p.a:Layer", silent, LAYER)
    shapes = Shapes(Recipe({}))
    assert shapes.candidates(layer, CallPlan(), "q")[0] == ("B", "T", "D")
    assert shapes.candidates(layer, CallPlan(), "input_ids")[0] == ("B", "T")


def test_the_sequence_may_be_called_s_or_n() -> None:
    """Without a dimension T, S or N is the sequence, unless it is the first of all."""

    def by_s(q, gates, rows):
        """Attend.

        Args:
            q: queries of shape (B, NH, S, DHQK)
            gates: of shape (B, NH, S)
            rows: of shape (N, D)
        """

    assert documented_shapes(by_s) == {
        "q": ("B", "NH", "T", "DHQK"),
        "gates": ("B", "NH", "T"),
        "rows": ("N", "D"),
    }
