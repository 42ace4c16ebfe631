"""Declarations of a kernel file: their values, the line of each part, and the allowed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flacheck.source.kernel_source import KernelSource
from flacheck.subjects.inputs.declarations import Declaration

TEXT = """\
SHAPES = [
    {"T": 64},
    {"T": 128},
]
COMPUTED = list()
TWICE = 1
TWICE = 2
KERNELS = {
    "k": {
        "form": "chunk",
        "launch": {
            "args": {
                "x": {"dtype": "{dtype}", "align": 16},
                "T": {"int": "{T}"},
            },
            "omitted": ["BT"],
        },
        "configs": [{"kwargs": {"BT": 32}, "num_warps": 4}],
        "keys": ["T"],
    },
}

def k(x, T, BT: "constexpr"): pass
"""


def declaration(name: str, text: str = TEXT) -> Declaration:
    return Declaration.of(KernelSource.from_text(Path("k.py"), text), name)


@pytest.mark.parametrize(
    ("name", "path", "line"),
    [
        ("SHAPES", (), 1),
        ("SHAPES", (1,), 3),
        ("SHAPES", (1, "T"), 3),
        ("SHAPES", (7,), 1),
        ("KERNELS", ("k", "launch", "args", "T"), 14),
        ("KERNELS", ("k", "launch", "args", "none"), 12),
        ("KERNELS", ("k", "launch", "omitted"), 16),
        ("KERNELS", ("k", "configs", 0, "kwargs", "BT"), 18),
    ],
)
def test_a_part_is_on_the_line_where_it_is_written(
    name: str, path: tuple[Any, ...], line: int
) -> None:
    """A part that is not written is reported on the line of the part that holds it."""
    assert declaration(name).line(path) == line
