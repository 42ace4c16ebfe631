"""The choice of telling cells, replayed on verdicts of real compiles.

Each file in `crosses/` is a table of one package: 20 drawn kernels in all configurations, under
three releases on two GPUs.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flacheck.evidence.analysis.ordered_search import State
from flacheck.pipeline.adaptive import SHARE, Point, choose_rounds, least

CROSSES = sorted((Path(__file__).parent / "crosses").glob("*.json.gz"))
_COMPILES = "compiles"


def read_cross(file: Path) -> tuple[dict[str, Point], dict[str, State]]:
    """Return the points and the states of a table's cells by number, in the order of their keys."""
    table = json.loads(gzip.decompress(file.read_bytes()))
    points: dict[str, Point] = {}
    states: dict[str, State] = {}
    for number, (*values, state) in enumerate(table["rows"]):
        key = f"{number:05}"
        point: dict[str, Any] = {}
        for axis, value in zip(table["axes"], values):
            if value is not None:
                point[axis] = tuple(value) if isinstance(value, list) else value
        points[key] = point
        states[key] = state
    return points, states


def signatures(states: Mapping[str, State]) -> set[State]:
    return set(states.values()) - {None, _COMPILES}


def test_the_table_is_there() -> None:
    """Without a table the other test would pass."""
    names = ["flash-linear-attention-0.2.2.json.gz", "flash-linear-attention-0.6.0.json.gz"]
    assert [file.name for file in CROSSES] == names


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("file", CROSSES, ids=lambda file: file.name.removesuffix(".json.gz"))
def test_every_signature_is_found_with_few_compiles(file: Path, half: int) -> None:
    """The half of the kernels is drawn by a seed."""
    all_points, all_states = read_cross(file)
    kernels = sorted({point["kernel"] for point in all_points.values()})
    random.Random(1).shuffle(kernels)
    middle = len(kernels) // 2
    part = (kernels[:middle], kernels[middle:])[half]
    points = {key: point for key, point in all_points.items() if point["kernel"] in part}
    states: dict[str, State] = {}
    for keys in choose_rounds(points, states):
        states.update({key: all_states[key] for key in keys})
    assert signatures(states) == signatures({key: all_states[key] for key in points})
    assert len(states) <= least(len(points), SHARE)
