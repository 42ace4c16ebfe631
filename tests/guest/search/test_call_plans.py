"""How the package driver calls an operator: plans, recipes, variants, and repairs after errors."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import contextlib
import select
import time
from dataclasses import replace
from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.operators import FUNCTION, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes
from flacheck.guest.search.attempts import CaughtError, TooLong, attempt
from flacheck.guest.search.real_sizes import RealSizes
from flacheck.guest.search.variations import Variations


def sample(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    output_final_state: bool = False,
    mode: str = "chunk",
    **kwargs: Any,
) -> None:
    if mode == "parallel":
        kwargs.get("reverse")


OPERATOR = Operator(
    f"{__name__}:sample", sample, FUNCTION, True, frozenset({"m:k"}), parameters_of(sample), sample
)


@pytest.fixture
def variations() -> Variations:
    return Variations(OPERATOR, Shapes(Recipe({})))


@pytest.mark.parametrize(
    "text",
    [
        "image requires gradients; detach it",
        "fused_norm does not support autograd",
        "bwd of varlen is not implemented yet.",
        "a leaf Variable that requires grad is being used in an in-place operation",
    ],
)
def test_operators_that_reject_gradients_are_called_without(
    variations: Variations, text: str
) -> None:
    """The words of the error tell that an operator rejects gradients."""
    error = CaughtError("ValueError", text, ("raise ValueError(message)",), "")
    assert variations.after_error(CallPlan(), "forward", error) == [CallPlan(training=False)]


def test_a_plan_is_the_same_under_another_label() -> None:
    """A plan that was tried is not tried again."""
    plan = CallPlan(sizes={"T": 1})
    assert plan.identity == CallPlan("short", sizes={"T": 1}).identity
    assert plan.identity != CallPlan(sizes={"T": 2}).identity


def test_a_plan_gives_and_omits_arguments() -> None:
    """A given argument is no longer None, and an omitted one has no value."""
    plan = CallPlan(values={"a": None, "b": 1})
    assert plan.including("a", "b") == CallPlan(include=frozenset("ab"), values={"b": 1})
    assert plan.including("a", "b").omitting("b") == CallPlan(include=frozenset("a"))


def test_a_recipe_says_more_by_longer_patterns() -> None:
    """General patterns come first, so that longer ones override them."""
    recipe = Recipe(
        {
            "operators": {
                "*:sample": {"sizes": {"T": 8}, "give": ["weight"]},
                "*": {
                    "sizes": {"T": 4, "B": 1},
                    "variants": [{"name": "cache", "training": False}],
                },
            }
        }
    )
    plain = recipe.plain(OPERATOR)
    assert plain.sizes == {"T": 8, "B": 1}
    assert plain.include == {"weight"}
    assert list(recipe.variants(OPERATOR, plain)) == [plain.with_changes("cache", training=False)]


def test_each_option_is_set_once() -> None:
    """Flags and literals; a value of the plan stays."""

    def capped(
        x: torch.Tensor,
        causal: bool = True,
        mode: Literal["sum", "mean"] = "sum",
        checked: bool = False,
        rows: int = 4,
    ) -> None:
        pass

    op = replace(OPERATOR, call=capped, source=capped, parameters=parameters_of(capped))
    variations = Variations(op, Shapes(Recipe({})), RealSizes())
    options = [plan.values for plan in variations.options(CallPlan(values={"checked": True}))]
    assert options == [
        {"checked": True, "causal": False},
        {"checked": True, "mode": "mean"},
    ]


def test_a_recipes_variant_is_called_with_packed_sequences_too(variations: Variations) -> None:
    """Its sizes and values stay; without offsets among the parameters there is no such call."""
    (packed,) = variations.packed(CallPlan("long", values={"mode": "chunk"}))
    assert (packed.label, packed.values) == ("long", {"mode": "chunk"})
    assert "cu_seqlens" in packed.include


def test_usual_variants_pack_sequences_and_ask_for_states(variations: Variations) -> None:
    """Each variant is called, and both together."""
    plans = {plan.label: plan for plan in variations.usual(CallPlan())}
    assert list(plans) == [
        "states",
        "one token",
        "packed",
        "packed, states",
    ]
    assert plans["one token"].sizes["T"] == 1
    assert plans["one token"].values == {}
    assert plans["packed, states"].values == {"output_final_state": True}
    assert plans["packed, states"].include == {"cu_seqlens"}
    assert plans["packed"].sizes == {"B": 1, "N": 3}


@pytest.mark.parametrize(
    ("message", "plan"),
    [
        ("weight must be given", CallPlan(include=frozenset({"weight"}))),
        ("x must be float32", CallPlan(dtypes={"x": "fp32"})),
        ("output_final_state is off", CallPlan(values={"output_final_state": True})),
    ],
)
def test_an_error_suggests_its_repair(variations: Variations, message: str, plan: CallPlan) -> None:
    """The likeliest repair comes first."""
    error = CaughtError("ValueError", message, (), "")
    assert variations.after_error(CallPlan(), "forward", error)[0] == replace(
        plan, is_repaired=True
    )


def test_an_argument_that_is_refused_is_left_out(variations: Variations) -> None:
    """An optional argument that was given is left out."""
    error = CaughtError("ValueError", "weight is not supported", (), "")
    plan = CallPlan(include=frozenset({"weight"}))
    assert variations.after_error(plan, "forward", error)[0] == CallPlan(is_repaired=True)


def test_an_attempt_ends_with_a_value_or_an_error() -> None:
    """The attempt ends if the code raises, exits, or loops past every `except Exception`."""

    def hangs() -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    def exits() -> None:
        raise SystemExit(3)

    assert attempt(lambda: 7, 1.0) == 7
    exit_error, hung = attempt(exits, 1.0), attempt(hangs, 0.05)
    assert isinstance(exit_error, CaughtError)
    assert exit_error.brief() == "SystemExit: 3"
    assert exit_error.lines[-1] == "raise SystemExit(3)"
    assert isinstance(hung, CaughtError)
    assert hung.kind == TooLong.__name__


def test_a_call_that_waits_is_ended() -> None:
    """It uses no CPU time, which is limited otherwise."""
    waiting = attempt(lambda: select.select([], [], [], 30), 5, max_wait=0.5)
    assert isinstance(waiting, CaughtError)
    assert waiting.text == "waited for 0.5 s"


DISPATCH = """
def called():
    begun = time.process_time()
    while time.process_time() < begun + 0.2:
        sum(range(1000))
    return "whole"
"""


@pytest.mark.parametrize("name", ["__torch_dispatch__", "find_torch_dispatch_rule"])
def test_what_torch_has_called_is_not_cut_short(name: str) -> None:
    """An exception inside torch's call would end the process, so it comes after the call."""
    scope: dict[str, Any] = {"__name__": "torch.somewhere", "time": time}
    exec(DISPATCH.replace("called", name), scope)
    names_called: list[str] = []

    def hangs() -> None:
        names_called.append(scope[name]())
        while True:
            sum(range(1000))

    hung = attempt(hangs, 0.05)
    assert names_called == ["whole"]
    assert isinstance(hung, CaughtError)
    assert hung.kind == TooLong.__name__


def test_what_is_for_inference_only_is_called_so(variations: Variations) -> None:
    """The rest of the plan stays the same."""
    error = CaughtError("NotImplementedError", "this kernel is inference-only", (), "")
    assert variations.after_error(CallPlan(), "forward", error) == [CallPlan(training=False)]


def flat(x: torch.Tensor, w: torch.Tensor, cu_seqlens: Any = None) -> None:
    """Mix.

    Args:
        x (torch.Tensor): of shape `[B, T, D]`.
        w (torch.Tensor): of shape `[D, D]`.
    """


def attend(q: torch.Tensor, v: torch.Tensor) -> None:
    """Attend.

    Args:
        q (torch.Tensor): of shape `[B, T, H, K]`.
        v (torch.Tensor): of shape `[B, T, HV, V]`.
    """


def size_plans(function: Any, base: CallPlan, sizes: RealSizes) -> list[CallPlan]:
    takes = parameters_of(function)
    op = Operator("m:op", function, FUNCTION, True, frozenset(), takes, function)
    return list(Variations(op, Shapes(Recipe({})), sizes).sizes(base))


def test_an_operator_with_heads_is_called_at_the_head_sizes_of_models() -> None:
    """Each call names the model; sizes that no model of the table has are those of the grid."""
    models = [{"name": "Tiny", "sizes": {"K": 64, "V": 64, "D": 512}}]
    plans = size_plans(attend, CallPlan(), RealSizes(models))
    sizes = [(plan.sizes["K"], plan.sizes["V"], plan.sizes_from) for plan in plans]
    assert sizes == [
        (64, 64, "Tiny"),
        (256, 512, "the size grid"),
        (16, 16, "the size grid"),
        (8, 8, "the size grid"),
        (256, 256, "the size grid"),
    ]
    assert plans[1].sizes["HV"] == 8
    assert plans[4].sizes["T"] == 16384


def test_long_names_of_dimensions_have_the_sizes_of_models_too() -> None:
    """`head_dim` is a head size, and the number of heads stays."""

    def rotate(q: torch.Tensor) -> None:
        """q (torch.Tensor): of shape `(bsz, n_heads, seq_len, head_dim)`."""

    sizes = [plan.sizes for plan in size_plans(rotate, CallPlan(), RealSizes())]
    assert sizes[0] == {"K": 64, "T": 1000}


def test_a_width_of_the_model_is_no_head_size() -> None:
    """Sizes that a call required before stay as they are."""
    assert [plan.sizes for plan in size_plans(flat, CallPlan(), RealSizes())] == [
        {"D": 4096},
        {"D": 2048},
    ]
    assert size_plans(flat, CallPlan(sizes={"D": 3}), RealSizes()) == []
