"""Calls of functions that stand for an operator of torch's: registered for it, or named after it.
Such a function takes what the operator takes, and `torch_calls.jsonl` holds what torch's own tests
call each of its operators with (`tests/benchmarks/torch_calls.py` writes it)."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..fake_cuda.registered import BODIES
from .operators import FUNCTION, Operator
from .plans import CallPlan

Call = dict[str, Any]

_FILE = os.path.join(os.path.dirname(__file__), "torch_calls.jsonl")
# What follows the operator's name in that of a function.
_WAYS = ("forward", "fwd", "impl", "tensor", "scalar", "dim", "out", "inplace")
# What a function may do without: where and how its result lies.
_LAYOUT = ("generator", "layout", "pin_memory", "device", "memory_format", "implicit", "out")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Of the calls of one operator, in the order in which they are tried.
_MOST = 12


@functools.cache
def _known() -> dict[str, list[Call]]:
    with open(_FILE, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {line["name"]: [_read(call) for call in line["calls"]] for line in lines}


def _read(value: Any) -> Any:
    """With tensors as plans hold them: `bf16[5,5;5,1]*` is a dtype, a shape, strides where they are
    not the usual ones, and whether it is the view `conj`."""
    if isinstance(value, list):
        return [_read(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "t" not in value:
        return {name: _read(each) for name, each in value.items()}
    dtype, _, rest = value["t"].partition("[")
    shape, _, stride = rest.rstrip("*]").partition(";")
    told: dict[str, Any] = {"of": dtype, "shape": _numbers(shape)}
    if stride:
        told["stride"] = _numbers(stride)
    if rest.endswith("*"):
        told["conj"] = True
    return told


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def is_torchs(operator: Operator) -> bool:
    """Whether a program registered the function for an operator of torch's: a user who calls that
    operator calls the function."""
    return any(BODIES.operators_of(operator.call))


def plans(operator: Operator, plain: CallPlan) -> Iterator[CallPlan]:
    """The plain plan with the arguments of torch's calls, as far as the function takes them."""
    if operator.kind != FUNCTION:
        return
    number = 0
    for name, call in itertools.islice(_calls(operator), _MOST):
        values = _values(operator, call)
        if values is not None:
            number += 1
            label = f"as torch's tests call {name}, {number}"
            yield plain.but(label, values={**values, **plain.values}, torchs=True)


def _calls(operator: Operator) -> Iterator[tuple[str, Call]]:
    registered = [name for name in BODIES.operators_of(operator.call) if name.startswith("aten::")]
    named = [name.partition("::")[2].partition(".") for name in registered]
    for name, _, overload in named:
        for call in _of(name, (overload or "default",)):
            yield name, call
    if not registered:
        yield from _by_name(operator.name.partition(":")[2])


def _of(name: str, overloads: Iterable[str] | None) -> list[Call]:
    """The calls of an operator; `sin_` and `sin_out` take what `sin` takes."""
    spellings = [name, name.strip("_"), name.rstrip("_"), re.sub(r"_?(_out)+_?$", "", name)]
    calls = next((_known()[each] for each in spellings if each in _known()), [])
    if overloads is None:
        return calls
    wanted = {each.lower() for each in overloads}
    wanted |= {re.sub(r"_?out$", "", each) or "default" for each in wanted}
    fitting = [call for call in calls if (call["overload"] or "default").lower() in wanted]
    # The call of the function is that of none of its overloads.
    return fitting or calls


def _by_name(function: str) -> Iterator[tuple[str, Call]]:
    calls = _of(function, None)
    if calls:
        yield from ((function, call) for call in calls)
        return
    breaks = [place for place, letter in enumerate(function) if letter == "_" and place]
    for place in reversed(breaks):
        name, rest = function[:place], function[place:].strip("_").lower()
        calls = _of(name, None)
        if not calls or not rest:
            continue
        fitting = [call for call in calls if call["overload"].lower().startswith(rest)]
        if not fitting and rest in _WAYS:
            fitting = calls
        yield from ((name, call) for call in fitting)
        return


def _values(operator: Operator, call: Call) -> dict[str, Any] | None:
    """The function's arguments by name, None where it takes others."""
    parameters = {each.name: each for each in operator.takes}
    places = [name for name, each in parameters.items() if each.kind in _POSITIONAL]
    args = list(call["args"])
    if any(args[len(places) :]):
        return None
    values = dict(zip(places, args))
    for name, value in call["kwargs"].items():
        if name in parameters:
            values[name] = value
        elif name not in _LAYOUT:
            return None
    returned = iter(call["returned"])
    for name, parameter in parameters.items():
        # Where results go, in their order.
        if name.startswith("out") and parameter.kind in _POSITIONAL and name not in values:
            result = next(returned, None)
            if isinstance(result, dict):
                values[name] = result
    return values
