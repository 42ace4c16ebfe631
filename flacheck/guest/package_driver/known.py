"""Which shapes an argument may have, the likeliest first: by recipe, documentation, source,
siblings, and name.
"""

from __future__ import annotations

import collections
import re

from .documented import documented
from .operators import LAYER
from .unpacked import unpacked

_MODEL = ("B", "T", "D")
_QUERY, _VALUE, _GATE = ("B", "T", "H", "K"), ("B", "T", "H", "V"), ("B", "T", "H")
_STATE, _STATES = ("N", "H", "K", "V"), ("B", "NT", "H", "K", "V")
# Names as the field uses them, where no document says more.
_NAMES = {
    **dict.fromkeys(("q", "k", "query", "key", "r", "a", "b", "p", "gk", "w", "kg", "qg"), _QUERY),
    **dict.fromkeys(("v", "value", "o", "out", "u", "gv", "v_new", "do", "z"), _VALUE),
    **dict.fromkeys(("g", "beta", "gate", "lse", "delta", "alpha", "dt", "eta"), _GATE),
    **dict.fromkeys(("h0", "ht", "dht", "dh0", "initial_state", "final_state", "state"), _STATE),
    **dict.fromkeys(("h", "dh"), _STATES),
    **dict.fromkeys(("A", "Aw", "Au", "Aqk", "Akk", "Ai", "dA"), ("B", "T", "H", "BT")),
    **dict.fromkeys(
        ("x", "hidden_states", "input", "inputs", "residual", "y", "dy", "dout"), _MODEL
    ),
    **dict.fromkeys(("weight", "bias", "norm_weight", "norm_bias"), ("D",)),
    **dict.fromkeys(("linear_weight",), ("D", "D")),
    **dict.fromkeys(("linear_bias",), ("D",)),
    **dict.fromkeys(("logits",), ("B*T", 1024)),
    **dict.fromkeys(("target", "labels", "targets"), ("B*T",)),
    **dict.fromkeys(("input_ids", "ids", "position_ids", "attention_mask", "mask"), ("B", "T")),
    **dict.fromkeys(("cos", "sin"), ("B", "T", "K")),
    **dict.fromkeys(("A_log", "D", "dt_bias", "sink", "sink_bias"), ("H",)),
}
_FALLBACKS = (_QUERY, _MODEL, _GATE, ("B*T", "D"), ("D",), ("H", "K"), ("D", "D"), ("B", "T"))


class Shapes:
    """Candidates for every tensor argument of some operators."""

    def __init__(self, operators, recipe) -> None:
        self._recipe = recipe
        self._own = {
            operator.name: documented(operator.source) | _class_documented(operator)
            for operator in operators
        }
        self._siblings: dict = collections.defaultdict(collections.Counter)
        for operator in operators:
            for name, dimensions in self._own[operator.name].items():
                for place in _places(operator.module):
                    self._siblings[place, name][dimensions] += 1

    def known(self, operator, name: str) -> bool:
        """Whether somebody said what the argument's shape is."""
        return name in self._own[operator.name] or name in self._recipe.common.shapes

    def candidates(self, operator, plan, name: str) -> list[tuple]:
        """Each shape once; the first is what is tried first."""
        found = [
            plan.shapes.get(name),
            self._own[operator.name].get(name),
            self._recipe.common.shapes.get(name),
            unpacked(operator.source).get(name),
            *self._said_nearby(operator, name),
            *_by_name(name, operator.kind == LAYER),
        ]
        return list(
            dict.fromkeys(tuple(dimensions) for dimensions in found if dimensions is not None)
        )

    def _said_nearby(self, operator, name: str) -> list:
        """What the documentation of the nearest module says of an argument of that name."""
        for spelled in _spellings(name):
            for place in _places(operator.module):
                if self._siblings[place, spelled]:
                    return [
                        dimensions
                        for dimensions, _ in self._siblings[place, spelled].most_common(2)
                    ]
        return []


def _class_documented(operator) -> dict:
    return documented(operator.call) if operator.kind == LAYER else {}


def _places(module: str) -> list[str]:
    """A module and the packages around it."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _spellings(name: str):
    """`dq` is shaped as `q`, `q_` and `q2` as well."""
    yield name
    yield name.strip("_")
    yield re.sub(r"\d+$", "", name)
    if name.startswith("d"):
        yield name[1:].strip("_")


def _by_name(name: str, layer: bool) -> list:
    found = [_NAMES[spelled] for spelled in _spellings(name) if spelled in _NAMES][:1]
    return [_MODEL, *found, *_FALLBACKS] if layer and name not in _IDS else [*found, *_FALLBACKS]


_IDS = ("input_ids", "labels", "target", "attention_mask", "position_ids")
