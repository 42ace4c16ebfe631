"""Recorded launches compile the same under releases that the program never ran under."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.subjects.inputs.launches.test_launches import HEAD, HEADER, launch, write

pytestmark = pytest.mark.network
FUNCTIONS = (
    HEAD
    + """

@triton.jit
def kernel(x, PAIR: tl.constexpr, last, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, last(PAIR[1](PAIR[0](tl.load(x + i)))))


@triton.jit
def act(v):
    return v + 1


@triton.jit
def act_2(v):
    return v * 2
"""
)
DESCRIPTORS = (
    HEAD
    + """

@triton.jit
def kernel(x, y, ROWS: tl.constexpr):
    tile = x.load([0, 0])
    tl.store(y + tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :], tile)
"""
)
TUPLES = (
    HEAD
    + """

@triton.jit
def kernel(xs, n, scale, flag, EPS, BLOCK: tl.constexpr, DTYPE: tl.constexpr, SHAPE: tl.constexpr, NONE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if NONE is None and flag:
        tl.store(xs[0] + i, (tl.load(xs[1] + i) * scale + EPS).to(DTYPE) * n + tl.zeros(SHAPE, DTYPE))
"""
)
POINTER = {"dtype": "fp16", "align": 16}
DESCRIPTOR = {**POINTER, "shape": [128, 64], "strides": [64, 1], "block": [16, 64]}
ARGS: dict[str, dict[str, Any]] = {
    FUNCTIONS: {
        "x": POINTER,
        "PAIR": {"constexpr": {"tuple": [{"function": "act"}, {"function": "act_2"}]}},
        "last": {"constexpr": {"function": "act"}},
        "BLOCK": {"constexpr": 64},
    },
    DESCRIPTORS: {"x": {"descriptor": DESCRIPTOR}, "y": POINTER, "ROWS": {"constexpr": 16}},
    TUPLES: {
        "xs": {"tuple": [POINTER, {"dtype": "fp32", "align": 4}]},
        "n": {"int": 2**40},
        "scale": {"float": 0.5},
        "flag": {"bool": True},
        "EPS": {"constexpr": 1e-6},
        "BLOCK": {"constexpr": 32},
        "DTYPE": {"constexpr": {"dtype": "fp16"}},
        "SHAPE": {"constexpr": {"tuple": [32]}},
        "NONE": {"constexpr": None},
    },
}


def replay(tmp_path: Path, releases: str, text: str, **args: Any) -> dict[str, dict[str, Any]]:
    """Return each release's record of one launch of a source, compiled up to its TTIR."""
    line = {
        **launch(text),
        "qualname": "kernel",
        "launch": {"args": {**ARGS[text], **args}},
        "heuristics": {},
    }
    file, out = write(tmp_path, HEADER, {**line, "options": {}}), tmp_path / "out.json"
    what = ["scan", file, "--triton", releases, "--target", "sm90", "--until", "ttir", "--fresh"]
    where = ["--store", tmp_path, "--format", "json", "-o", out]
    subprocess.run([sys.executable, "-m", "flacheck", *map(str, (*what, *where))])
    return {
        record["toolchain"].removeprefix("triton=="): record
        for record in json.loads(out.read_text())["records"]
    }


def test_functions_and_tuples_of_functions_are_handed_over(tmp_path: Path) -> None:
    """If a release supports them, they are passed on; its front end decides."""
    records = replay(tmp_path, "3.2.0,3.4.0,3.9.0", FUNCTIONS)
    assert {release: record["verdict"] for release, record in records.items()} | {"3.2.0": ""} == {
        "3.2.0": "",
        "3.4.0": "compiles",
        "3.9.0": "compiles",
    }
    assert Counter(record["stage"] for record in records.values()) == {"ast": 1, "ttir": 2}


def test_tuples_numbers_and_constants_come_back(tmp_path: Path) -> None:
    """Each kind of argument and constant is rebuilt from the launches file."""
    records = replay(tmp_path, "3.3.0,3.6.0,3.9.0", TUPLES)
    assert {release: record["verdict"] for release, record in records.items()} == dict.fromkeys(
        records, "compiles"
    )


def test_a_descriptor_is_made_again_where_there_are_any(tmp_path: Path) -> None:
    """Without descriptors in the release or a description in the file, the verdict is unknown."""
    records = replay(tmp_path, "3.3.0,3.4.0,3.9.0", DESCRIPTORS)
    assert {release: record["verdict"] for release, record in records.items()} == {
        "3.3.0": "unknown",
        "3.4.0": "compiles",
        "3.9.0": "compiles",
    }
    assert "no tensor descriptors made by the host" in records["3.3.0"]["reason"]
    padding = replay(
        tmp_path, "3.4.0,3.9.0", DESCRIPTORS, x={"descriptor": {**DESCRIPTOR, "padding": "nan"}}
    )
    assert {release: record["verdict"] for release, record in padding.items()} == {
        "3.4.0": "unknown",
        "3.9.0": "compiles",
    }
    assert "have no padding" in padding["3.4.0"]["reason"]


def test_what_has_no_form_makes_no_verdict(tmp_path: Path) -> None:
    """A launch that cannot be rebuilt is unknown, not a failure of the compiler."""
    records = replay(tmp_path, "3.4.0", TUPLES, n={"unknown": "tensor of complex64"})
    assert records["3.4.0"]["verdict"] == "unknown"
    assert "cannot rebuild" in records["3.4.0"]["reason"]
