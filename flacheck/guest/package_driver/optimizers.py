"""Optimizers of a package's own: made for parameters that have gradients, then asked for steps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .operators import METHOD, Operator
from .plans import CallPlan

# What constructors call what they optimize.
_PARAMETERS = re.compile(r"(^|_)param(eter)?s$|param_groups")
# A weight and a bias of a small model: enough elements for those that work by blocks.
_WEIGHTS = ((256, 256), (256,))
# The first step makes the states that a second one reads.
_STEPS = 2


def is_optimizers(operator: Operator) -> bool:
    """Whether an operator is the step of an optimizer."""
    kind = operator.call
    return (
        operator.kind == METHOD
        and isinstance(kind, type)
        and issubclass(kind, torch.optim.Optimizer)
    )


def takes_weights(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Whether a constructor is given what is to be optimized."""
    return is_optimizers(operator) and bool(_PARAMETERS.search(parameter.name))


def weights(dtype: torch.dtype) -> list[torch.Tensor]:
    """The parameters of a small model."""
    made = (torch.randn(extents, dtype=dtype, device="cuda") for extents in _WEIGHTS)
    return [torch.nn.Parameter(each) for each in made]


def matrices(operator: Operator) -> dict[str, Any]:
    """For optimizers that take no others: the constructor's arguments, as a plan has them."""
    matrix = {"shape": list(_WEIGHTS[0]), "of": "bf16"}
    return {p.name: [matrix] for p in operator.parameters if takes_weights(operator, p)}


def without_weights(operator: Operator, plan: CallPlan) -> CallPlan:
    """The plan but for which parameters are optimized: any are, so that is no guess."""
    if not is_optimizers(operator):
        return plan
    chosen = {p.name for p in operator.parameters if takes_weights(operator, p)}
    return replace(plan, build={k: each for k, each in plan.build.items() if k not in chosen})


def stepping(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """What gives each parameter a gradient and takes steps."""

    def step(**given: Any) -> None:
        for _ in range(_STEPS):
            for group in optimizer.param_groups:
                for each in group["params"]:
                    each.grad = torch.randn_like(each)
            optimizer.step(**given)

    return step
