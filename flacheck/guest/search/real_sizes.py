"""The sizes of models at which operators are called, and a small grid of others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..inference.shapes import SIZES

GRID = "the size grid"
# The names of the package's own sources begin so.
OWN = "the package's"
# Head sizes of the package's own sources.
_MAX_OWN = 2
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
_WIDTHS: tuple[Mapping[str, int], ...] = ({"D": 4096}, {"D": 2048})
_COMMONEST = (128, 64, 256)
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
        is_complete: True if operators are called at all sizes of models, in all dtypes.
        first: the source of the sizes of an operator's first calls.
        heads: further sizes for operators that have a head size.
        widths: further sizes for operators that have a model's width only.
        alone: further sizes for kernels that are launched alone.
        head_sizes: the head sizes of keys; the commonest come first.
    """

    def __init__(self, named: Iterable[Mapping[str, Any]] = (), is_complete: bool = False) -> None:
        """Arrange sizes by their sources: those of the package itself come first, then models."""
        self.is_complete = is_complete
        self._named_sizes = list(named)
        self.first = self._source(SIZES, _COMPARED_HEADS)
        others = list(self._other_heads())
        self.heads = self._named([*_HEADS, *others], _COMPARED_HEADS)
        self.widths = self._named(_WIDTHS, _COMPARED_WIDTHS)
        alone = [*_HEADS_ALONE, *others] if is_complete else _HEADS_ALONE
        self.alone = self._named(alone, _COMPARED_HEADS)
        more = [sizes["K"] for sizes in others if is_complete]
        self.head_sizes = tuple(dict.fromkeys((*_COMMONEST, *more)))

    def _other_heads(self) -> Iterator[Mapping[str, int]]:
        """Yield head sizes beside the grid: all that are named, else the package's commonest."""
        present = {(sizes["K"], sizes["V"]) for sizes in (SIZES, *_HEADS)}
        counts: Counter[tuple[int, int]] = Counter()
        for row in self._named_sizes:
            heads = row["sizes"].get("K"), row["sizes"].get("V")
            is_own = str(row["name"]).startswith(OWN)
            if (is_own or self.is_complete) and heads not in present and all(heads):
                counts[heads] += 1
        for (key, value), _ in counts.most_common(None if self.is_complete else _MAX_OWN):
            sizes = {"K": key, "V": value}
            yield {**sizes, "D": key} if self.is_complete else sizes

    def _named(
        self, tables: Iterable[Mapping[str, int]], compared: Sequence[str]
    ) -> list[NamedSizes]:
        return [NamedSizes(self._source(sizes, compared), sizes) for sizes in tables]

    def _source(self, sizes: Mapping[str, int], compared: Sequence[str]) -> str:
        """Return the first source with the sizes of the compared dimensions, else the grid."""
        for row in self._named_sizes:
            if all(row["sizes"].get(symbol) == sizes[symbol] for symbol in compared):
                return str(row["name"])
        return GRID
