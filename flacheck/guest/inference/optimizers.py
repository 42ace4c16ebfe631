"""Optimizers of a package: built for parameters with gradients, then called for steps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch

from .operators import METHOD, Operator

# Constructors' names for the parameters that are optimized.
_PARAMETERS = re.compile(r"(^|_)param(eter)?s$|param_groups")
# A matrix, which every optimizer takes: enough elements for kernels that work on blocks.
_WEIGHT_SHAPE = (256, 256)
# The first step creates the states that the second one reads.
_STEPS = 2


def is_optimizer_step(operator: Operator) -> bool:
    """Return True if an operator is the step of an optimizer."""
    return operator.kind == METHOD


def takes_weights(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Return True if a constructor's parameter is for the weights to optimize."""
    return is_optimizer_step(operator) and bool(_PARAMETERS.search(parameter.name))


def weights(dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the parameters of a small model."""
    return [torch.nn.Parameter(torch.randn(_WEIGHT_SHAPE, dtype=dtype, device="cuda"))]


def step_function(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """Return a function that takes steps, before each of which it sets all gradients."""

    def step(**arguments: Any) -> None:
        for _ in range(_STEPS):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.randn_like(parameter)
            optimizer.step(**arguments)

    return step
