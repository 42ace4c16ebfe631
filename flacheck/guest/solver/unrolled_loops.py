"""Loops of kernels that an inferred size unrolls too often: such a kernel compiles for minutes."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..pysource.functions import calls_in, last_name
from .argument_dataflow import SHAPE, VALUE, Constraint

# Kernels unroll a loop over a tile or over the coordinates of a point, not over this many.
_MAX_ITERATIONS = 128
# The size that is tried instead.
_FEW = 4


class UnrolledLoop(Exception):
    """A loop of a kernel that a constexpr argument unrolls.

    Attributes:
        iterations: the argument's value.
    """

    def __init__(self, parameter: str, iterations: int) -> None:
        super().__init__(f"{parameter}={iterations} unrolls a loop {iterations} times")
        self.iterations = iterations


def unrolled_loop(source: str, arguments: Mapping[str, Any]) -> UnrolledLoop | None:
    """Return the first loop of a kernel that a launch's arguments unroll too often."""
    for name in _unrolling_parameters(source):
        value = arguments.get(name)
        if type(value) is int and value > _MAX_ITERATIONS:
            return UnrolledLoop(name, value)
    return None


@functools.cache
def _unrolling_parameters(source: str) -> tuple[str, ...]:
    """Return the names that bound a kernel's loops over `static_range`."""
    names = []
    for call in calls_in(ast.parse(textwrap.dedent(source))):
        # With a step, the bound is not the number of iterations.
        if last_name(call.func) == "static_range" and len(call.args) < 3:
            for argument in call.args:
                if isinstance(argument, ast.Name):
                    names.append(argument.id)
    return tuple(names)


def unrolled_constraints(loop: UnrolledLoop, arguments: Mapping[str, Any]) -> Iterator[Constraint]:
    """Yield smaller values and extents for those of a call's arguments that unroll a loop."""
    for name, value in arguments.items():
        if type(value) is int and value == loop.iterations:
            yield Constraint(VALUE, name, _FEW)
        if isinstance(value, torch.Tensor) and loop.iterations in value.shape:
            extents = [_FEW if extent == loop.iterations else extent for extent in value.shape]
            yield Constraint(SHAPE, name, tuple(extents))
