"""Further plans after one failed, by what the error says: arguments it names are given, left out,
or changed.
"""

from __future__ import annotations

import re

from .arguments import NOTHING, is_length, is_tensor
from .choices import choices
from .documented import dimensions_in
from .operators import LAYER

_LINES = 3


def repairs(operator, plan, outcome, caller) -> list:
    """The likeliest first; none of them is known to work."""
    text = " ".join((outcome.failure.text, *outcome.failure.lines[-_LINES:]))
    building = outcome.stage == "build"
    parameters = operator.parameters if building else caller.parameters(operator)
    named = [p for p in parameters if re.search(rf"(?<![\w.]){re.escape(p.name)}(?!\w)", text)]
    found = []
    for parameter in named:
        found += (
            _built(operator, plan, parameter, text)
            if building
            else _changed(operator, plan, parameter, text, caller)
        )
    if not building and operator.kind == LAYER:
        found += [
            p
            for each in _mentioned(operator.parameters, text)
            for p in _built(operator, plan, each, text)
        ]
    if not building:
        found = _spelled_out(plan, named, outcome.failure.text) + found
        found += _reshaped(operator, plan, named, caller) + _reshaped(
            operator, plan, parameters, caller
        )
    return found


def _spelled_out(plan, named, text: str) -> list:
    """What an error says outright: the shape that an argument must have, or that it must be in
    single precision.
    """
    said = dimensions_in(text)
    found = [plan.but(shapes={parameter.name: said}) for parameter in named] if said else []
    if re.search(r"float32|fp32", text):
        found.append(plan.but(dtypes={parameter.name: "fp32" for parameter in named}))
    return found


def _mentioned(parameters, text: str) -> list:
    return [p for p in parameters if re.search(rf"(?<!\w){re.escape(p.name)}(?!\w)", text)]


def _said(text: str, parameter) -> list:
    """The strings and numbers that an error lists."""
    if isinstance(parameter.default, bool):
        return []
    if isinstance(parameter.default, int):
        return [int(number) for number in re.findall(r"(?<![\w.])(\d{1,4})(?![\w.])", text)][:4]
    if isinstance(parameter.default, str) or "str" in str(parameter.annotation):
        return re.findall(r"['\"`](\w+)['\"`]", text)[:4]
    return []


def _built(operator, plan, parameter, text: str) -> list:
    values = choices(operator, parameter) + _said(text, parameter)
    return [plan.but(build={parameter.name: value}) for value in values[:4]]


def _changed(operator, plan, parameter, text: str, caller) -> list:
    """The same plan with this argument given, left out, or worth something else."""
    name, optional = parameter.name, parameter.default is not NOTHING
    there = name in plan.given or plan.values.get(name) is not None
    if optional and there:
        return [plan.omitting(name)]
    if is_length(parameter):
        return [packed(plan, parameter)]
    if is_tensor(parameter, caller.shapes.known(operator, name)):
        return [plan.giving(name)] if optional else []
    values = choices(operator, parameter) + _said(text, parameter)
    found = [plan.but(values={name: value}) for value in dict.fromkeys(values)]
    return found[:5] or ([plan.giving(name)] if optional and parameter.default is None else [])


def _reshaped(operator, plan, parameters, caller) -> list:
    """The same plan with the next likely shape of a tensor."""
    found = []
    for parameter in parameters:
        if parameter.default is not NOTHING and parameter.name not in plan.given:
            continue
        if is_tensor(parameter, caller.shapes.known(operator, parameter.name)):
            for dimensions in caller.shapes.candidates(operator, plan, parameter.name)[1:4]:
                found.append(plan.but(shapes={parameter.name: dimensions}))
    return found


def packed(plan, *parameters):
    """The same plan with sequences of different lengths packed into one."""
    from .arguments import sequences

    return plan.but(sizes={"B": 1, "N": sequences()}).giving(*(p.name for p in parameters))
