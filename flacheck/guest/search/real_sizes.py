"""The sizes of models at which operators are called, and a small grid of others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..inference.shapes import SIZES

GRID = "the size grid"
# Head sizes of keys and values. Operators are called first with those in `SIZES`, the commonest.
# Of the lengths one is no multiple of a block, and one is a long context: some kernels have a block
# for all positions.
_HEADS: tuple[Mapping[str, int], ...] = (
    {"K": 64, "V": 64, "D": 64, "T": 1000},
    {"K": 256, "V": 512, "HV": 8, "T": 4096},
    {"K": 16, "V": 16, "D": 16},
    {"K": 8, "V": 8, "D": 8},
    {"K": 256, "V": 256, "D": 256, "T": 16384},
)
# A kernel that is launched alone has small sizes first.
_HEADS_ALONE: tuple[Mapping[str, int], ...] = ({"K": 128, "V": 128}, {"K": 256, "V": 256})
_WIDTHS: tuple[Mapping[str, int], ...] = ({"D": 4096, "C": 4096}, {"D": 2048, "C": 2048})
_COMPARED_HEADS = ("K", "V")
_COMPARED_WIDTHS = ("D",)


@dataclass(frozen=True)
class NamedSizes:
    """Sizes of dimensions by their symbol.

    Attributes:
        source: a model that has them, or the grid.
        sizes: the sizes.
    """

    source: str
    sizes: Mapping[str, int]

    @property
    def label(self) -> str:
        """A short text of the sizes."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


class RealSizes:
    """The sizes at which operators are called.

    Attributes:
        first: the source of the sizes of an operator's first calls.
        heads: further sizes for operators that have a head size.
        widths: further sizes for operators that have a model's width only.
        alone: further sizes for kernels that are launched alone.
    """

    def __init__(self, models: Iterable[Mapping[str, Any]] = ()) -> None:
        self._models = list(models)
        self.first = self._source(SIZES, _COMPARED_HEADS)
        self.heads = self._named(_HEADS, _COMPARED_HEADS)
        self.widths = self._named(_WIDTHS, _COMPARED_WIDTHS)
        self.alone = self._named(_HEADS_ALONE, _COMPARED_HEADS)

    def _named(
        self, tables: Iterable[Mapping[str, int]], compared: Sequence[str]
    ) -> list[NamedSizes]:
        return [NamedSizes(self._source(sizes, compared), sizes) for sizes in tables]

    def _source(self, sizes: Mapping[str, int], compared: Sequence[str]) -> str:
        """Return the first model with the sizes of the compared dimensions, else the grid."""
        for model in self._models:
            if all(model["sizes"].get(symbol) == sizes[symbol] for symbol in compared):
                return str(model["name"])
        return GRID
