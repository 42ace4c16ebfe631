"""What a run asks, and on behalf of which command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import convert, to_builtins

from flacheck.model.cell import Cell
from flacheck.model.values import Json


class Purpose(str, Enum):
    """The command that a run was made for. Only a scan's run is an answer to "how did it go?"."""

    SCAN = "scan"
    BISECT = "bisect"
    REPRO = "repro"
    FALLBACKS = "fallbacks"
    AUTOTUNE = "autotune"


@dataclass(frozen=True)
class AskedCells:
    """How many cells a question asks of one toolchain on one target."""

    toolchain: str
    target: str
    cells: int


@dataclass(frozen=True)
class Question:
    """What a run asks: `about` is a matrix, a launches file or a package; `selection` narrows
    it."""

    about: str
    selection: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[AskedCells, ...] = ()

    @staticmethod
    def of(about: str, selection: Mapping[str, Any], cells: Iterable[Cell]) -> Question:
        """The question that these cells ask, counted by toolchain and target."""
        counts = Counter((cell.toolchain, cell.target) for cell in cells)
        asked = tuple(AskedCells(*place, count) for place, count in counts.items())
        return Question(about, selection, asked)

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return {**plain, "asked": list(plain["asked"])}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Question:
        return convert(value, Question)
