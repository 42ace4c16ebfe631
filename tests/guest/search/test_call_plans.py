"""How the package driver calls an operator: plans, recipes, variants, and repairs after errors."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.operators import FUNCTION, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes
from flacheck.guest.search.attempts import CaughtError, TooLong, attempt
from flacheck.guest.search.observed_calls import ObservedCalls
from flacheck.guest.search.repairs import Repairs
from flacheck.guest.search.variations import Variations
from flacheck.guest.solver.argument_dataflow import ATTRIBUTES, FIELD, SHAPE, Constraint


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
    return Variations(OPERATOR, Shapes([OPERATOR], Recipe({})))


@pytest.fixture
def repairs() -> Repairs:
    return Repairs(OPERATOR, Shapes([OPERATOR], Recipe({})))


def test_floats_as_indices_become_the_numbers_of_tokens(repairs: Repairs) -> None:
    """Of every required tensor in turn, in the shape of a batch of sequences."""
    text = (
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
        "Long, Int; but got torch.bfloat16 instead"
    )
    error = CaughtError("RuntimeError", text, ("return embedding(tokens)",), "")
    (plan, *_) = repairs.after_error(CallPlan(), "forward", error)
    assert (plan.shapes, plan.dtypes) == ({"x": ("B", "T")}, {"x": "i64"})


@pytest.mark.parametrize(
    "text",
    [
        "image requires gradients; detach it",
        "fused_norm does not support autograd",
        "a leaf Variable that requires grad is being used in an in-place operation",
    ],
)
def test_operators_that_reject_gradients_are_called_without(repairs: Repairs, text: str) -> None:
    """By the words of their errors."""
    error = CaughtError("ValueError", text, ("raise ValueError(message)",), "")
    assert repairs.after_error(CallPlan(), "forward", error) == [CallPlan(training=False)]


def test_an_object_of_no_class_gets_attributes_one_after_another(repairs: Repairs) -> None:
    """Those of a constructor's argument, too, which has a value already."""
    texts = [(ATTRIBUTES, ("size", "act")), (FIELD, (object, "act", "silu")), (ATTRIBUTES, ("n",))]
    plan = CallPlan()
    for kind, value in texts:
        constraints = (Constraint(kind, "config", value),)
        error = CaughtError("AttributeError", "no attribute", (), "", constraints)
        plan = repairs.after_error(plan, "build", error)[0]
    assert plan.build == {
        "config": {"attributes": ("size", "act", "n"), "module": __name__, "with": {"act": "silu"}}
    }


def test_a_view_that_lacks_all_but_the_first_of_a_batch(repairs: Repairs) -> None:
    """The operator is called with a batch of 1."""
    text = "shape '[2, 512, 256]' is invalid for input of size 131072"
    error = CaughtError("RuntimeError", text, ("return out.view(B, T, -1)",), "")
    assert repairs.after_error(CallPlan(), "forward", error)[0].sizes == {"B": 1}
    other = replace(error, text=text.replace("131072", "256"))
    assert all(not plan.sizes for plan in repairs.after_error(CallPlan(), "forward", other))


def test_a_view_tells_the_length_of_its_tensor() -> None:
    """Of all tensors with one dimension and the length that does not fit."""

    def count(x: torch.Tensor, y: torch.Tensor, points: torch.Tensor) -> None:
        """Count points.

        Args:
            x: Shape `[N_X]`.
            y: Shape `[N_X]`.
            points: Shape `[M, D]`.
        """

    op = Operator("m:count", count, FUNCTION, True, frozenset(), parameters_of(count), count)
    text = "shape '[16, 2]' is invalid for input of size 64"
    error = CaughtError("RuntimeError", text, ("return x.view(rows, block)",), "")
    plans = Repairs(op, Shapes([op], Recipe({}))).after_error(CallPlan(), "forward", error)
    assert plans[0].shapes == {"x": (32,), "y": (32,)}
    other = replace(error, text=text.replace("64", "48"))
    for plan in Repairs(op, Shapes([op], Recipe({}))).after_error(CallPlan(), "forward", other):
        assert (32,) not in plan.shapes.values()


def test_the_shape_in_an_error_is_tried_before_all_others(repairs: Repairs) -> None:
    """Once; the constraints that follow from the code come next."""
    constraint = Constraint(SHAPE, "x", (2, 3, 4))
    error = CaughtError("ValueError", "x must be (N,3,H,W)", ("raise",), "", (constraint,))
    plans = repairs.after_error(CallPlan(), "forward", error)
    assert [plan.shapes["x"] for plan in plans] == [("N", "3", "H", "W"), (2, 3, 4)]
    plans = repairs.after_error(plans[0], "forward", error)
    assert [plan.shapes["x"] for plan in plans] == [(2, 3, 4)]


def test_a_shape_without_a_name_is_that_of_all_tensors() -> None:
    def evaluate(points: torch.Tensor, queries: torch.Tensor, width: float) -> None: ...

    takes = parameters_of(evaluate)
    op = Operator("m:evaluate", evaluate, FUNCTION, True, frozenset(), takes, evaluate)
    error = CaughtError("ValueError", "expected tensor with shape (N, 16).", ("raise",), "")
    (plan, *_) = Repairs(op, Shapes([op], Recipe({}))).after_error(CallPlan(), "forward", error)
    assert plan.shapes == {"points": ("N", "16"), "queries": ("N", "16")}


def test_packed_sequences_have_the_shape_that_a_call_had(variations: Variations) -> None:
    """Without its batch."""
    base = CallPlan(shapes={"x": ("B", "T", "D")})
    (plan,) = [plan for plan in variations.unusual(base) if plan.label == "packed, flat"]
    assert plan.shapes["x"] == ("T", "D")


def test_a_plan_is_the_same_under_another_label() -> None:
    """A plan that was tried is not tried again."""
    plan = CallPlan(sizes={"T": 1})
    assert plan.identity == CallPlan("short", sizes={"T": 1}).identity
    assert plan.identity != CallPlan(sizes={"T": 2}).identity


def test_a_plan_gives_and_omits_arguments() -> None:
    """An argument that is given is no longer None, one that is omitted has no value."""
    plan = CallPlan(values={"a": None, "b": 1})
    assert plan.including("a", "b") == CallPlan(include=frozenset("ab"), values={"b": 1})
    assert plan.including("a", "b").omitting("b") == CallPlan(include=frozenset("a"))


def test_a_recipe_says_more_by_longer_patterns() -> None:
    """The more general ones first, so that the others can change what they say."""
    recipe = Recipe(
        {
            "operators": {
                "*:sample": {"sizes": {"T": 8}, "give": ["weight"]},
                "*": {"sizes": {"T": 4, "B": 1}, "variants": [{"training": False}]},
                "*.Other": {"skip": "never"},
            }
        }
    )
    plain = recipe.plain(OPERATOR)
    assert plain.sizes == {"T": 8, "B": 1}
    assert plain.include == {"weight"}
    assert recipe.skip_reason(OPERATOR) is None
    assert list(recipe.variants(OPERATOR, plain)) == [
        plain.with_changes("variant 1", training=False)
    ]


def test_a_call_takes_what_is_hidden_in_kwargs() -> None:
    """By the names that the code asks for."""
    assert [p.name for p in OPERATOR.takes][-1] == "reverse"


def test_usual_variants_pack_sequences_and_ask_for_states(variations: Variations) -> None:
    """Each, and both together."""
    plans = {plan.label: plan for plan in variations.usual(CallPlan())}
    assert list(plans) == ["states", "packed", "packed, states"]
    assert plans["packed, states"].values == {"output_final_state": True}
    assert plans["packed, states"].include == {"cu_seqlens"}
    assert plans["packed"].sizes == {"B": 1, "N": 3}


def test_unusual_variants_change_one_thing(variations: Variations) -> None:
    """Tensors that are optional, words that the code compares with, flags, and sizes."""
    plans = {plan.label: plan for plan in variations.unusual(CallPlan())}
    assert plans["with weight"].include == {"weight"}
    assert plans["mode=parallel"].values == {"mode": "parallel"}
    assert plans["output_final_state=True"].values == {"output_final_state": True}
    assert plans["K=64, V=128"].sizes == {"K": 64, "V": 128}
    assert plans["inference"].training is False
    assert "with cu_seqlens" not in plans


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("weight must be given", CallPlan(include=frozenset({"weight"}))),
        ("x must have the shape [B, T, H]", CallPlan(shapes={"x": ("B", "T", "H")})),
        ("x must be float32", CallPlan(dtypes={"x": "fp32"})),
        ("mode is 'parallel' or 'fused'", CallPlan(values={"mode": "parallel"})),
    ],
)
def test_an_error_suggests_its_repair(repairs: Repairs, said: str, expected: CallPlan) -> None:
    """The likeliest comes first."""
    error = CaughtError("ValueError", said, (), "")
    assert repairs.after_error(CallPlan(), "forward", error)[0] == expected


def test_an_argument_that_is_refused_is_left_out(repairs: Repairs) -> None:
    """An optional one that was given."""
    error = CaughtError("ValueError", "weight is not supported", (), "")
    plan = CallPlan(include=frozenset({"weight"}))
    assert repairs.after_error(plan, "forward", error)[0] == CallPlan()


def test_an_inner_function_is_called_as_its_package_calls_it() -> None:
    """With the arguments of calls that succeeded; sizes and dtypes are described, not kept."""
    inner = replace(OPERATOR, name="shop:inner", outer=False)
    module = ModuleType("shop")
    module.inner = inner.call  # type: ignore[attr-defined]
    observed = ObservedCalls([module], [inner])
    module.inner(torch.zeros(2, 3), mode="parallel")
    observed.end_call(succeeded=True)
    module.inner(torch.zeros(4, 3))
    observed.end_call(succeeded=False)
    (plan,) = observed.plans(inner, CallPlan(values={"mode": "chunk"}))
    assert plan.values == {"x": {"shape": (2, 3), "of": "fp32"}, "mode": "chunk"}
    assert plan.from_package
    assert plan.label == "as the package calls it, 1"


def test_an_attempt_ends_with_a_value_or_an_error() -> None:
    """Whatever a piece of a package does: raise, exit, or loop past every `except Exception`."""

    def hangs() -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    def exits() -> None:
        raise SystemExit(3)

    assert attempt(lambda: 7, 1.0) == 7
    exited, hung = attempt(exits, 1.0), attempt(hangs, 0.05)
    assert isinstance(exited, CaughtError)
    assert exited.brief() == "SystemExit: 3"
    assert exited.lines[-1] == "raise SystemExit(3)"
    assert isinstance(hung, CaughtError)
    assert hung.kind == TooLong.__name__


DISPATCH = """
def called():
    begun = time.process_time()
    while time.process_time() < begun + 0.2:
        sum(range(1000))
    return "whole"
"""


@pytest.mark.parametrize("name", ["__torch_dispatch__", "find_torch_dispatch_rule"])
def test_what_torch_has_called_is_not_cut_short(name: str) -> None:
    """An exception in the middle of it would end the process; the piece ends right behind it."""
    scope: dict[str, Any] = {"__name__": "torch.somewhere", "time": time}
    exec(DISPATCH.replace("called", name), scope)
    done: list[str] = []

    def hangs() -> None:
        done.append(scope[name]())
        while True:
            sum(range(1000))

    hung = attempt(hangs, 0.05)
    assert done == ["whole"]
    assert isinstance(hung, CaughtError)
    assert hung.kind == TooLong.__name__


def dense(q: Any, k: Any) -> None:
    """Compute.

    Args:
        q: queries of shape `[batch, T, heads, K]`.
        k: keys of shape `[B, T, H, K]`.
    """


def test_a_demanded_extent_holds_for_all_that_have_the_dimension() -> None:
    """Under whichever name; the one tensor alone is the next thing to try."""
    parameters = parameters_of(dense)
    offered = Operator("m:dense", dense, FUNCTION, True, frozenset(), parameters, dense)
    varied = Repairs(offered, Shapes([offered], Recipe({})))
    wants = (Constraint(SHAPE, "q", (1, 512, 4, 64)),)
    error = CaughtError("ValueError", "", (), "", wants)
    first, second = varied.after_error(CallPlan(), "forward", error)
    assert first.sizes == {"batch": 1, "B": 1}
    assert second.sizes == {}
    assert second.shapes == {"q": (1, 512, 4, 64)}
    # An extent that an earlier one has set is not taken back.
    later, *_ = varied.after_error(CallPlan(sizes={"B": 4}), "forward", error)
    assert later.sizes == {"batch": 1, "B": 4}
    # A tensor that is to have another's shape leaves the dimensions alone.
    wants = (Constraint(SHAPE, "q", (2, 4, 512, 64)),)
    (only,) = varied.after_error(
        CallPlan(), "forward", CaughtError("ValueError", "", (), "", wants)
    )
    assert only.sizes == {}


def test_a_size_is_not_multiplied_again_and_again() -> None:
    """A tensor that must be twice as wide as one of the same dimension would never be."""

    def rotated(q: torch.Tensor, cos: torch.Tensor) -> None:
        """Rotate.

        Args:
            q: Shape `[T, K]`.
            cos: Shape `[T, K]`.
        """

    op = Operator(
        "m:rotated", rotated, FUNCTION, True, frozenset(), parameters_of(rotated), rotated
    )
    rotations = Repairs(op, Shapes([op], Recipe({})))

    def sizes(width: int) -> list[dict[str, int]]:
        plan = CallPlan(sizes={"K": width})
        plans = rotations.meet(plan, [Constraint(SHAPE, "q", (512, 2 * width))])
        return [dict(each.sizes) for each in plans]

    assert sizes(128) == [{"K": 256}, {"K": 128}]
    assert sizes(512) == [{"K": 512}]


def test_what_is_for_inference_only_is_called_so(repairs: Repairs) -> None:
    """Nothing else of the plan changes."""
    error = CaughtError("NotImplementedError", "this kernel is inference-only", (), "")
    assert repairs.after_error(CallPlan(), "forward", error) == [CallPlan(training=False)]


def packed(x: torch.Tensor, lengths: torch.Tensor | None, offsets: torch.Tensor | None) -> None: ...


def test_tensors_that_may_be_missing_are_left_out() -> None:
    """One, the other, and both: dense sequences have neither."""
    offered = Operator(
        f"{__name__}:packed", packed, FUNCTION, True, frozenset(), parameters_of(packed), packed
    )
    plans = Variations(offered, Shapes([offered], Recipe({}))).unusual(CallPlan())
    left_out = [plan.values for plan in plans if None in plan.values.values()]
    assert left_out[:3] == [
        {"lengths": None},
        {"offsets": None},
        {"lengths": None, "offsets": None},
    ]


def flat(x: torch.Tensor, w: torch.Tensor, cu_seqlens: Any = None) -> None:
    """Mix.

    Args:
        x (torch.Tensor): of shape `[B, T, D]`.
        w (torch.Tensor): of shape `[D, D]`.
    """


def test_packed_sequences_may_have_no_batch_around_them() -> None:
    """Tried while a kernel is missing, without what was tried of shapes before."""
    op = Operator(f"{__name__}:flat", flat, FUNCTION, True, frozenset(), parameters_of(flat), flat)
    base = CallPlan(shapes={"x": ("B", "T", "H")})
    plan = next(Variations(op, Shapes([op], Recipe({}))).unusual(base))
    assert (plan.label, plan.include) == ("packed, flat", {"cu_seqlens"})
    assert plan.shapes == {"x": ("T", "D")}


@pytest.mark.parametrize(
    ("plan", "sets_one"),
    [
        (CallPlan(values={"residual_in_fp32": True}), True),
        (CallPlan(build={"out_dtype": None}), True),
        (CallPlan(include=frozenset({"float_mask"})), True),
        (CallPlan(dtypes={"x": "fp16"}), True),
        (CallPlan(values={"reduction": "sum"}, sizes={"K": 2}), False),
    ],
)
def test_a_plan_that_sets_a_dtype_is_known(plan: CallPlan, sets_one: bool) -> None:
    """By the names of its arguments, or because an argument has a dtype of its own."""
    assert plan.sets_dtype is sets_one
