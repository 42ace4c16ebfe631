"""Loops of kernels that an inferred size unrolls too often: such a kernel compiles for minutes."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Mapping
from typing import Any

from ..pysource.functions import calls_in, last_name

# Kernels unroll a loop over a tile or over the coordinates of a point, not over this many.
_MAX_ITERATIONS = 128


class UnrolledLoop(Exception):
    """A loop of a kernel that a constexpr argument unrolls."""

    def __init__(self, parameter: str, iterations: int) -> None:
        super().__init__(f"{parameter}={iterations} unrolls a loop {iterations} times")


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
