"""Plans for functions that implement an operator of torch.

A function that is registered for such an operator, or has its name, accepts the operator's
arguments. `torch_calls.jsonl` contains the calls of each operator in torch's own tests;
`tests/benchmarks/torch_calls.py` writes that file.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..fake_cuda.registrations import BODIES
from .operators import FUNCTION, Operator
from .plans import CallPlan, Plans

_Call = dict[str, Any]

_FILE = os.path.join(os.path.dirname(__file__), "torch_calls.jsonl")
# Suffixes of functions' names after the name of the operator.
_SUFFIXES = ("forward", "fwd", "impl", "tensor", "scalar", "dim", "out", "inplace")
# Arguments that a function need not accept: they concern the result's location and layout.
_LAYOUT = ("generator", "layout", "pin_memory", "device", "memory_format", "implicit", "out")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Calls of one operator.
_MAX_CALLS = 12


@functools.cache
def _calls_by_operator() -> dict[str, list[_Call]]:
    calls = {}
    with open(_FILE, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            calls[entry["name"]] = [parse_tensors(call) for call in entry["calls"]]
    return calls


def parse_tensors(value: Any) -> Any:
    """Replace the tensors in a value by their description in plans.

    `bf16[5,5;5,1]*` is a dtype, a shape, the strides unless they are contiguous, and a star for a
    conjugate view.
    """
    if isinstance(value, list):
        return [parse_tensors(element) for element in value]
    if not isinstance(value, dict):
        return value
    if "t" not in value:
        return {name: parse_tensors(element) for name, element in value.items()}
    dtype, _, rest = value["t"].partition("[")
    shape, _, stride = rest.rstrip("*]").partition(";")
    description: dict[str, Any] = {"of": dtype, "shape": _parse_numbers(shape)}
    if stride:
        description["stride"] = _parse_numbers(stride)
    if rest.endswith("*"):
        description["conj"] = True
    return description


def _parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def implements_torch_operator(operator: Operator) -> bool:
    """Return True if the function is registered for an operator of torch that users call."""
    return any(BODIES.operators_of(operator.call))


def plans(operator: Operator, plain: CallPlan) -> Plans:
    """Yield the plain plan with arguments of torch's tests that the function accepts."""
    if operator.kind != FUNCTION:
        return
    number = 0
    for name, call in itertools.islice(_matching_calls(operator), _MAX_CALLS):
        values = _call_values(operator, call)
        if values is not None:
            number += 1
            label = f"as torch's tests call {name}, {number}"
            yield plain.with_changes(label, values={**values, **plain.values}, from_torch=True)


def _matching_calls(operator: Operator) -> Iterator[tuple[str, _Call]]:
    """Yield the calls of the operators that a function implements, each with the name."""
    is_registered = False
    for registered_name in BODIES.operators_of(operator.call):
        namespace, _, qualified_name = registered_name.partition("::")
        if namespace == "aten":
            is_registered = True
            name, _, overload = qualified_name.partition(".")
            for call in _calls_of_overload(name, overload or "default"):
                yield name, call
    if not is_registered:
        yield from _calls_by_name(operator.name.partition(":")[2])


def _calls_of(name: str) -> list[_Call]:
    """Return the calls of an operator; `sin_` and `sin_out` accept the arguments of `sin`."""
    calls = _calls_by_operator()
    base_name = re.sub(r"_?(_out)+_?$", "", name)
    for spelling in (name, name.strip("_"), name.rstrip("_"), base_name):
        if spelling in calls:
            return calls[spelling]
    return []


def _calls_of_overload(name: str, overload: str) -> list[_Call]:
    """Return the calls of one overload, or of all overloads if that one lacks calls."""
    calls = _calls_of(name)
    overload = overload.lower()
    overloads = {overload, re.sub(r"_?out$", "", overload) or "default"}
    matching = []
    for call in calls:
        if (call["overload"] or "default").lower() in overloads:
            matching.append(call)
    return matching or calls


def _calls_by_name(function: str) -> Iterator[tuple[str, _Call]]:
    """Yield the calls of the operator with the longest name that a function's name starts with."""
    calls = _calls_of(function)
    if calls:
        yield from _with_name(function, calls)
        return
    for length in range(len(function) - 1, 0, -1):
        if function[length] != "_":
            continue
        name = function[:length]
        suffix = function[length:].strip("_").lower()
        calls = _calls_of(name)
        if not calls or not suffix:
            continue
        matching = [call for call in calls if call["overload"].lower().startswith(suffix)]
        if not matching and suffix in _SUFFIXES:
            matching = calls
        yield from _with_name(name, matching)
        return


def _with_name(name: str, calls: Iterable[_Call]) -> Iterator[tuple[str, _Call]]:
    for call in calls:
        yield name, call


def _call_values(operator: Operator, call: _Call) -> dict[str, Any] | None:
    """Return the function's arguments by name; None if it does not accept the call's arguments."""
    parameters = {parameter.name: parameter for parameter in operator.takes}
    positional = [name for name, each in parameters.items() if each.kind in _POSITIONAL]
    args = list(call["args"])
    if any(args[len(positional) :]):
        return None
    values = dict(zip(positional, args))
    for name, value in call["kwargs"].items():
        if name in parameters:
            values[name] = value
        elif name not in _LAYOUT:
            return None
    results = iter(call["returned"])
    for name in positional:
        # Parameters for output tensors get the results in their order.
        if name.startswith("out") and name not in values:
            result = next(results, None)
            if isinstance(result, dict):
                values[name] = result
    return values
