"""The order in which operators are called, outer ones first, and when a plan is given up."""

# The driver imports torch.
# ruff: noqa: E402

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flacheck.guest.inference.operators import FUNCTION, KERNEL, LAYER, Operator, parameters_of
from flacheck.guest.inference.plans import CallPlan, Recipe
from flacheck.guest.inference.shapes import Shapes
from flacheck.guest.search.attempts import CaughtError
from flacheck.guest.search.calls import CallResult
from flacheck.guest.search.operator_search import OperatorSearch
from flacheck.guest.search.real_sizes import RealSizes

# What a call of an operator comes to.
Ending = Callable[[Operator, CallPlan, str], CallResult]
PLENTY = 3_600.0


@pytest.fixture(autouse=True)
def unused_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver whose process has used no CPU time before the search."""
    monkeypatch.setattr(f"{OperatorSearch.__module__}.time.process_time", lambda: 0.0)


def sample(x: Any, weight: Any = None, mode: str = "chunk") -> None: ...


def operator(name: str, *kernels: str, outer: bool = True, kind: str = FUNCTION) -> Operator:
    return Operator(
        f"m:{name}", sample, kind, outer, frozenset(kernels), parameters_of(sample), sample
    )


def error_of(text: str, kind: str = "ValueError") -> CaughtError:
    return CaughtError(kind, text, (), "")


def fine(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
    """Every call works, and launches the operator's kernels."""
    kernels = operator.kernels
    return CallResult(len(kernels), kernels, "backward", None, kernels=kernels)


def never(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
    return CallResult(0, frozenset(), "forward", error_of("no"))


def launching_nothing(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
    return CallResult(0, frozenset(), "backward", None)


class Caller:
    """Stand in for calls of a package: note them, and end each as a test determines."""

    def __init__(self, ending: Ending, operators: Sequence[Operator], recipe: Recipe) -> None:
        self.recipe, self.shapes = recipe, Shapes(recipe)
        self.recorded_kernels: frozenset[str] = frozenset()
        self.calls: list[tuple[str, str, str]] = []
        self._ending = ending

    def call(self, operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        self.calls.append((operator.name[2:], plan.label, dtype))
        result = self._ending(operator, plan, dtype)
        self.recorded_kernels |= result.new_kernels
        return result


def search_through(
    *operators: Operator,
    ending: Ending = fine,
    recipe: dict[str, Any] | None = None,
    dtypes: Sequence[str] = ("bf16",),
    seconds: float = PLENTY,
    sizes: RealSizes | None = None,
) -> tuple[Caller, OperatorSearch]:
    caller = Caller(ending, operators, Recipe(recipe or {}))
    search = OperatorSearch(operators, caller, dtypes, seconds, real_sizes=sizes)  # type: ignore[arg-type]
    search.run()
    return caller, search


def first_calls(caller: Caller) -> list[str]:
    """The operators in the order of their first calls."""
    return list(dict.fromkeys(name for name, _, _ in caller.calls))


def test_what_a_package_offers_is_called_before_what_lies_within() -> None:
    """Layers come in between, and an inner operator is called only for kernels without a launch."""
    operators = (
        operator("inner", "a", "b", outer=False),
        operator("layer", "a", kind=LAYER),
        operator("op", "a"),
    )
    caller, _ = search_through(*operators)
    assert first_calls(caller) == ["op", "layer", "inner"]


def test_an_inner_operator_whose_kernels_are_recorded_is_not_called() -> None:
    """The operator's caller makes better arguments."""
    caller, search = search_through(operator("inner", "a", outer=False), operator("op", "a"))
    assert first_calls(caller) == ["op"]
    assert set(search.report) == {"m:op"}


def test_an_inner_operator_whose_callers_fail_is_called() -> None:
    """Launches of failed calls are trusted least."""

    def failing(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        result = fine(operator, plan, dtype)
        return result if operator.name == "m:inner" else replace(result, error=error_of("no"))

    operators = operator("inner", "a", outer=False), operator("op", "a")
    caller, _ = search_through(*operators, ending=failing)
    assert first_calls(caller) == ["op", "inner"]


def test_an_error_is_repaired_as_it_suggests() -> None:
    """The repaired plan is the one that later plans vary."""

    def wants_weight(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        if "weight" in plan.include:
            return fine(operator, plan, dtype)
        return CallResult(0, frozenset(), "forward", error_of("weight must be given"))

    _, search = search_through(operator("op", "a"), ending=wants_weight)
    report = search.report["m:op"]
    assert report["worked"]
    assert report["calls"] >= 2


def test_a_plan_that_nothing_repairs_is_given_up() -> None:
    """A few of the reasons are kept."""
    caller, search = search_through(operator("op", "a"), ending=never)
    report = search.report["m:op"]
    assert report["worked"] == []
    assert report["failures"]["plain"] == "forward: ValueError: no"
    assert 1 <= len(report["failures"]) <= 6
    assert len(caller.calls) == report["calls"]


def test_an_operator_that_hangs_is_called_once() -> None:
    """No other plan of the operator is tried."""

    def hangs(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        return CallResult(0, frozenset(), "forward", error_of("took more than 2 s", "TooLong"))

    caller, _ = search_through(operator("op", "a"), ending=hangs, dtypes=("bf16", "fp16"))
    assert caller.calls == [("op", "plain", "bf16")]


def test_the_first_call_of_a_kernel_is_repeated_in_the_other_dtypes() -> None:
    """Further calls of the kernel have one dtype."""
    kernels: set[str] = set()

    def once(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        new = operator.kernels - kernels
        kernels.update(operator.kernels)
        return CallResult(1, new, "backward", None)

    operators = tuple(operator(name, "b") for name in ("first", "second"))
    caller, _ = search_through(*operators, ending=once, dtypes=("bf16", "fp16"))
    assert [name for name, _, dtype in caller.calls if dtype == "fp16"] == ["first"]


def with_heads(q: torch.Tensor) -> None:
    """q: of shape `[B, T, H, K]`."""


def of_heads(name: str) -> Operator:
    of = parameters_of(with_heads)
    return Operator(f"m:{name}", with_heads, FUNCTION, True, frozenset("k"), of, with_heads)


def launching(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
    return CallResult(1, operator.kernels, "backward", None, kernels=operator.kernels)


def test_selected_kernels_have_every_size_in_every_dtype() -> None:
    """Each size of a model is called in each dtype, once for each kernel."""
    models = [{"name": "Large", "sizes": {"K": 576, "V": 512}}]
    operators = of_heads("first"), of_heads("second")
    sizes = RealSizes(models, is_complete=True)
    caller, _ = search_through(*operators, ending=launching, dtypes=("bf16", "fp16"), sizes=sizes)
    labels = {(plan, dtype) for _, plan, dtype in caller.calls}
    assert ("K=576, V=512, D=576", "fp16") in labels
    assert {plan for plan, dtype in labels if dtype == "bf16"} == {
        plan for plan, dtype in labels if dtype == "fp16"
    }


def test_a_variant_is_called_for_kernels_that_lack_its_sizes() -> None:
    """Another operator with the same kernels is called once."""
    caller, _ = search_through(of_heads("first"), of_heads("second"), ending=launching)
    labels = [(name, plan) for name, plan, _ in caller.calls]
    assert ("first", "K=256, V=512, HV=8, T=4096") in labels
    assert [plan for name, plan in labels if name == "second"] == ["plain"]


def test_without_a_backward_a_call_has_worked() -> None:
    """The search continues with inference."""

    def no_backward(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        error = error_of("no backward", "NotImplementedError")
        return CallResult(1, operator.kernels, "backward", error)

    _, search = search_through(operator("op", "a"), ending=no_backward)
    assert search.report["m:op"]["failures"] == {}
    assert "plain" in search.report["m:op"]["worked"]


def test_without_time_nothing_is_called() -> None:
    """The last seconds are for ending."""
    caller, search = search_through(operator("op", "a"), seconds=0.0)
    assert caller.calls == []
    assert search.report == {}


def test_what_no_time_was_left_for_is_named() -> None:
    """Operators that were not called and have a kernel without a launch are named."""
    _, search = search_through(operator("op", "a"), operator("other", "b"), seconds=0)
    assert search.cut == ["m:op", "m:other"]
    _, search = search_through(operator("op", "a"), operator("same", "a", outer=False))
    assert search.cut == []


def test_the_budget_counts_work_and_not_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of calls depends on the budget of work and not on the machine's speed."""

    def names_called(slowness: float) -> list[tuple[str, str, str]]:
        caller = Caller(never, [operator("f", "k"), operator("g", "k")], Recipe({}))
        took = 0.0

        def took_so_far() -> float:
            nonlocal took
            took += slowness
            return took

        monkeypatch.setattr("flacheck.guest.search.operator_search.time.process_time", took_so_far)
        operators = [operator("f", "k"), operator("g", "k")]
        clock = lambda: 0.5 * len(caller.calls)  # noqa: E731
        search = OperatorSearch(operators, caller, ["bf16"], 20.0, clock=clock)  # type: ignore[arg-type]
        search.run()
        return caller.calls

    assert names_called(1e-6) == names_called(1e-3)
    assert 0 < len(names_called(1e-6)) <= 40


def test_a_kernel_that_is_missing_comes_before_another_dtype() -> None:
    """Kernels that the share of inner functions did not suffice for come before another dtype."""
    now = [0.0]

    def slow(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        now[0] = 0.8 * 97
        return fine(operator, plan, dtype)

    inner = [operator(name, name, outer=False) for name in ("one", "two")]
    caller = Caller(slow, inner, Recipe({}))
    clock = lambda: now[0]  # noqa: E731
    OperatorSearch(inner, caller, ("bf16", "fp16"), 100.0, clock=clock).run()  # type: ignore[arg-type]
    calls = [(name, dtype) for name, _, dtype in caller.calls]
    assert calls[:2] == [("one", "bf16"), ("two", "bf16")]
    assert ("one", "fp16") in calls


def test_a_kernel_that_takes_another_dtype_only_is_called_in_that() -> None:
    """The kernel is called in its dtype although the call fails after the launch."""

    def halves(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        failure = error_of("no backward here")
        if dtype == "fp16":
            return CallResult(1, operator.kernels, "forward", failure)
        refusal = CaughtError("KernelRefused", "Got fp16 and bf16", (), "")
        return CallResult(1, frozenset(), "forward", failure, refusal)

    caller, _ = search_through(operator("op", "a"), ending=halves, dtypes=("bf16", "fp16"))
    assert caller.recorded_kernels == {"a"}
    assert caller.calls[-1] == ("op", "plain", "fp16")


def test_a_kernel_alone_has_small_sizes_and_then_the_head_sizes_of_models() -> None:
    """It is launched after everything that the package's own code may launch."""
    alone = operator("alone", "m:alone", outer=False, kind=KERNEL)
    plans: list[CallPlan] = []

    def note(operator: Operator, plan: CallPlan, dtype: str) -> CallResult:
        plans.append(plan)
        return fine(operator, plan, dtype)

    outer = operator("outer", "m:k")
    caller = Caller(note, [outer], Recipe({}))
    search = OperatorSearch([outer], caller, ["bf16"], PLENTY, kernels_alone=lambda: [alone])  # type: ignore[arg-type]
    search.run()
    assert [name for name, _, _ in caller.calls][-3:] == ["alone"] * 3
    assert [plan.sizes["K"] for plan in plans[-3:]] == [64, 128, 256]
