"""Numbers that packages draw at random are in the launches, and equal in every capture."""

from __future__ import annotations

from pathlib import Path

from tests.guest.search.test_drive import KERNELS, driven, package, pytestmark  # noqa: F401

DRAWING = """
import random
import numpy, torch
from tiny.kernels import rare

AT_IMPORT = random.randint(0, 1 << 30)

def by_python(x: torch.Tensor):
    rare[(1,)](x, random.randint(0, 1 << 30), K=AT_IMPORT)

def by_numpy(x: torch.Tensor):
    rare[(1,)](x, int(numpy.random.randint(0, 1 << 30)), K=16)

def by_torch(x: torch.Tensor):
    rare[(1,)](x, int(torch.randint(0, 1 << 30, (1,)).item()), K=32)

def on_the_card(x: torch.Tensor):
    rare[(1,)](x, int(torch.randint(0, 1 << 30, (1,), device="cuda").item()), K=64)
"""


def test_two_captures_draw_the_same(tmp_path: Path) -> None:
    """Seeds of Python, NumPy and torch are equal, in calls and at import."""
    folder = package(tmp_path, kernels=KERNELS, drawing=DRAWING)
    one, _ = driven(folder)
    other, _ = driven(folder, output=str(folder / "l2.jsonl"), report=str(folder / "r2.json"))
    argument = [launch.launch.args["y"] for launch in one.launches]
    assert len(argument) >= 4
    assert argument == [launch.launch.args["y"] for launch in other.launches]
    assert [launch.launch for launch in one.launches] == [each.launch for each in other.launches]
