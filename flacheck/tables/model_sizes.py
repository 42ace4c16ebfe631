"""Sizes of models that people train and serve, most used first; one row a kind of layer."""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from functools import cache

from msgspec import Struct, convert

from flacheck.tables import table


class Layer(str, Enum):
    """The kind of layer that has the sizes."""

    LINEAR_ATTENTION = "linear attention"
    STATE_SPACE = "state space"
    ATTENTION = "attention"


class ModelSizes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sizes of one kind of layer of a model.

    `heads` counts the heads of queries. `state` is the state size of a state-space layer, or the
    number of slots of a layer that keeps slots. Without heads, `intermediate` is the width of the
    scan. A size is 0 if the layer has none or the source leaves it open.
    """

    name: str
    layer: Layer
    hidden: int
    heads: int = 0
    key_heads: int = 0
    value_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    state: int = 0
    intermediate: int = 0
    vocabulary: int = 0
    source: str


class HeadSizes(Struct, frozen=True, kw_only=True):
    """Head sizes and numbers of heads, with the models that have all of them."""

    key_size: int
    value_size: int
    heads: int
    key_heads: int
    value_heads: int
    models: tuple[str, ...]


@cache
def list_models() -> tuple[ModelSizes, ...]:
    """Return all rows in the order of the table."""
    return convert(table("model_sizes")["models"], tuple[ModelSizes, ...])


def rank_head_sizes(models: Iterable[ModelSizes]) -> list[HeadSizes]:
    """Return the distinct head sizes and numbers of heads of some models, the commonest first.

    Head sizes that more models have come first, then the smaller ones; for each head size, the
    commoner numbers of heads come first, then those of the earlier model.
    """
    names: dict[tuple[int, int, int, int, int], list[str]] = {}
    users = Counter[tuple[int, int]]()
    for model in models:
        if model.key_size:
            size = (model.key_size, model.value_size)
            users[size] += 1
            heads = (model.heads, model.key_heads, model.value_heads)
            names.setdefault((*size, *heads), []).append(model.name)
    ranked = sorted(names, key=lambda each: (-users[each[:2]], each[:2], -len(names[each])))
    return [
        HeadSizes(
            key_size=key_size,
            value_size=value_size,
            heads=heads,
            key_heads=key_heads,
            value_heads=value_heads,
            models=tuple(names[key_size, value_size, heads, key_heads, value_heads]),
        )
        for key_size, value_size, heads, key_heads, value_heads in ranked
    ]
