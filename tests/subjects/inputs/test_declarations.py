"""Declarations of a kernel file: their values, the line of each part, and the allowed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import MatrixError
from flacheck.source.kernel_source import KernelSource
from flacheck.subjects.inputs.declarations import Declaration, check_kernel, check_shapes

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


def refusal(before: str, after: str) -> str:
    """Return the error for a file with a change."""
    assert before in TEXT
    source = KernelSource.from_text(Path("k.py"), TEXT.replace(before, after))
    shapes, kernels = Declaration.of(source, "SHAPES"), Declaration.of(source, "KERNELS")
    with pytest.raises(MatrixError) as caught:
        check_shapes(shapes)
        check_kernel(kernels, "k", source, shapes.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NONE", "k.py: NONE is not set exactly once"),
        ("TWICE", "k.py:7: TWICE is not set exactly once"),
        ("k", "k.py:23: k is not set exactly once"),
        ("COMPUTED", "k.py:5: COMPUTED is not a literal"),
    ],
)
def test_what_is_no_declaration_is_an_error(name: str, message: str) -> None:
    """The error has the line if there is one."""
    with pytest.raises(MatrixError) as caught:
        declaration(name)
    assert str(caught.value).startswith(message)


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


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('    {"T": 128},', '    {"T": True},', "k.py:3: shape {'T': True} does not fit"),
        ('    {"T": 128},', '    {"S": 128},', "k.py:3: shape {'S': 128} does not fit"),
        ('"form": "chunk",', '"form": 3,', "k.py:10: form is not a str"),
        ('"k": {\n', '"k": {\n        "grid": 1,\n', "k.py:9: k has other fields"),
        ('["BT"]', '["T"]', "k.py:16: k: omitted are not the last parameters, in order"),
        ('"{T}"', '"{S}"', "k.py:14: argument T: {'int': '{S}'}"),
        ('{"int": "{T}"}', '{"constexpr": "{T}"}', "k.py:14: k: 'T' disagrees with its annotation"),
        ('"T": {"int": "{T}"},', "", "k.py:12: k: no value for T"),
        ('[{"kwargs": {"BT": 32}, "num_warps": 4}]', "[]", "k.py:18: k: no configuration"),
        ('"num_warps": 4', '"num_warps": 0', "k.py:18: k: configuration"),
        ('"num_warps": 4', '"num_ctx": 4', "k.py:18: k: configuration"),
        (
            '"keys": ["T"]',
            '"keys": ["BT"]',
            "k.py:19: k: key 'BT' is not an argument of the launch",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(before: str, after: str, message: str) -> None:
    """Only the first mistake is named."""
    assert refusal(before, after).startswith(message)
