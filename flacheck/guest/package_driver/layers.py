"""Layers: built as their constructors' defaults have it, moved to the device, and called on hidden
states.
"""

from __future__ import annotations

import inspect

from .arguments import NOTHING

_WIDTHS = (
    "hidden_size",
    "dim",
    "d_model",
    "input_dim",
    "in_features",
    "embed_dim",
    "n_embd",
    "hidden_dim",
    "input_size",
    "normalized_shape",
    "channels",
)


def build(operator, plan, arguments, dtype):
    """The layer on the device, and the width that it takes."""
    wanted = [p for p in operator.parameters if p.default is NOTHING or p.name in plan.build]
    given = arguments.build(operator, plan.but(values=plan.build), wanted)
    given = dict(given.items())
    layer = operator.call(**given).to(device="cuda", dtype=dtype)
    layer.train(plan.training)
    return layer, width(operator, given)


def width(operator, given: dict) -> int | None:
    """The size of the last axis of a layer's input, by the name of the argument that says it."""
    defaults = {p.name: p.default for p in operator.parameters}
    for name in _WIDTHS:
        value = given.get(name, defaults.get(name))
        if isinstance(value, int):
            return value
    return None


def forward_parameters(operator) -> tuple:
    """The parameters of the layer's forward, those in its `**kwargs` that it asks for too."""
    signature = inspect.signature(operator.source)
    return tuple(signature.parameters.values())[1:]
