"""Optimizers of a package: built for parameters with gradients, then called for steps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .operators import METHOD, Operator
from .plans import CallPlan

# Constructors' names for the parameters that are optimized.
_PARAMETERS = re.compile(r"(^|_)param(eter)?s$|param_groups")
# A weight and a bias of a small model: enough elements for kernels that work on blocks.
_WEIGHT_SHAPES = ((256, 256), (256,))
# The first step creates the states that the second one reads.
_STEPS = 2


def is_optimizer_step(operator: Operator) -> bool:
    """Return True if an operator is the step of an optimizer."""
    if operator.kind != METHOD or not isinstance(operator.call, type):
        return False
    return issubclass(operator.call, torch.optim.Optimizer)


def takes_weights(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Return True if a constructor's parameter is for the weights to optimize."""
    return is_optimizer_step(operator) and bool(_PARAMETERS.search(parameter.name))


def weights(dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the parameters of a small model."""
    parameters = []
    for shape in _WEIGHT_SHAPES:
        tensor = torch.randn(shape, dtype=dtype, device="cuda")
        parameters.append(torch.nn.Parameter(tensor))
    return parameters


def matrix_arguments(operator: Operator) -> dict[str, Any]:
    """Return a constructor's arguments, in a plan's form, for optimizers of matrices only."""
    matrix = {"shape": list(_WEIGHT_SHAPES[0]), "of": "bf16"}
    arguments = {}
    for parameter in operator.parameters:
        if takes_weights(operator, parameter):
            arguments[parameter.name] = [matrix]
    return arguments


def without_weights(operator: Operator, plan: CallPlan) -> CallPlan:
    """Remove an optimizer's weights from the plan; any value is valid."""
    if not is_optimizer_step(operator):
        return plan
    build = dict(plan.build)
    for parameter in operator.parameters:
        if takes_weights(operator, parameter):
            build.pop(parameter.name, None)
    return replace(plan, build=build)


def step_function(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """Return a function that takes steps, before each of which it sets all gradients."""

    def step(**arguments: Any) -> None:
        for _ in range(_STEPS):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.randn_like(parameter)
            optimizer.step(**arguments)

    return step
