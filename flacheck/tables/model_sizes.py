"""Sizes of models that people train and serve, most used first; one row a kind of layer."""

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


@cache
def list_models() -> tuple[ModelSizes, ...]:
    """Return all rows in the order of the table."""
    return convert(table("model_sizes")["models"], tuple[ModelSizes, ...])
