"""The calls of one operator that are worth trying, beginning with those that are always made."""

from __future__ import annotations

from .arguments import is_length, is_tensor
from .choices import choices
from .operators import LAYER
from .repairs import packed

_SIZES = (
    {"K": 128, "V": 128},
    {"K": 512, "V": 512},
    {"T": 32, "TQ": 32},
    {"BT": 16},
    {"BT": 32},
    {"K": 32, "V": 32},
    {"K": 256, "V": 256},
    {"K": 16, "V": 16},
    {"T": 1, "TQ": 1},
    {"K": 64, "V": 128},
    {"HV": 8},
    {"D": 2048},
    {"D": 40_960},
    {"HQ": 64},
    {"T": 16, "TQ": 16},
    {"T": 2048, "TQ": 2048},
    {"K": 100, "V": 100},
)
_SHORT = {"T": 32, "TQ": 32, "L": 32}


def usual(operator, base, caller):
    """Packed sequences, states in and out, and a layer's short inference."""
    parameters = caller.parameters(operator)
    lengths = [p for p in parameters if is_length(p) and not p.name.endswith("cpu")]
    states = [
        p.name
        for p in parameters
        if "initial_state" in p.name or p.name in ("h0", "initial_states")
    ]
    finals = {
        p.name: True
        for p in parameters
        if "final_state" in p.name and isinstance(p.default, (bool, type(None)))
    }
    stateful = base.but("states", values=finals).giving(*states)
    if states or finals:
        yield stateful
    if lengths:
        yield packed(base, *lengths).but("packed")
        if states or finals:
            yield packed(stateful, *lengths).but("packed, states")
    if operator.kind == LAYER:
        yield base.but("short, inference", sizes=_SHORT, training=False)


def unusual(operator, base, caller):
    """One thing changed at a time, while kernels are missing."""
    parameters = caller.parameters(operator)
    for parameter in parameters:
        if not is_length(parameter):
            yield from _other(operator, base, parameter, caller)
    if operator.kind == LAYER:
        for parameter in operator.parameters:
            for value in choices(operator, parameter):
                yield base.but(f"{parameter.name}={value}", build={parameter.name: value})
                yield base.but(
                    f"{parameter.name}={value}, short", build={parameter.name: value}, sizes=_SHORT
                )
    yield base.but("inference", training=False)
    yield base.but("inference, one step", training=False, sizes={"T": 1, "TQ": 1})
    yield from (
        base.but(", ".join(f"{k}={v}" for k, v in sizes.items()), sizes=sizes) for sizes in _SIZES
    )
    everything = [p.name for p in parameters if _optional_tensor(operator, p, caller)]
    yield base.giving(*everything).but("all optional")


def _other(operator, base, parameter, caller):
    name = parameter.name
    if _optional_tensor(operator, parameter, caller):
        yield base.giving(name).but(f"with {name}")
        return
    for value in choices(operator, parameter):
        yield base.but(f"{name}={value}", values={name: value})


def _optional_tensor(operator, parameter, caller) -> bool:
    if parameter.default is not None or is_length(parameter):
        return False
    return is_tensor(parameter, caller.shapes.known(operator, parameter.name)) and (
        parameter.annotation is not parameter.empty or caller.shapes.known(operator, parameter.name)
    )
