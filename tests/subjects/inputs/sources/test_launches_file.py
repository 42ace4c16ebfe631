"""A launches file as the subject of a command: its kernels, on the card that recorded it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.expand import DEFAULT_TARGETS, Selection
from flacheck.subjects.inputs.launches import Launches
from flacheck.subjects.inputs.sources.launches_file import entries_of, kernels, recorded_targets
from flacheck.subjects.inputs.subject import Subject
from tests import captured
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

FP16 = {**launch()["launch"]["args"], "x": {"dtype": "fp16", "align": 16}}
OTHER_DTYPE = {**launch(id="c" * 16), "launch": {**launch()["launch"], "args": FP16}}


@pytest.fixture
def entries(tmp_path: Path) -> Path:
    """Three launches of one kernel in two dtypes, and one of another kernel."""
    same_dtype = launch(id="b" * 16, options={"num_stages": 2})
    other_kernel = launch(id="d" * 16, kernel="program:other")
    return write(tmp_path, HEADER, launch(), same_dtype, OTHER_DTYPE, other_kernel)


@pytest.mark.parametrize(
    ("device", "targets"),
    [
        ("NVIDIA H100 PCIe", ("sm90",)),
        ("NVIDIA A100-SXM4-80GB", ("sm80",)),
        ("Nobody's card", DEFAULT_TARGETS),
        (None, DEFAULT_TARGETS),
    ],
)
def test_launches_are_for_the_card_that_recorded_them(
    device: str | None, targets: tuple[str, ...]
) -> None:
    """Launches without a card are compiled for the usual targets."""
    assert recorded_targets(Launches({"device": device}, (), None)) == targets


def test_a_file_is_a_matrix_of_its_own(entries: Path) -> None:
    """The matrix is named like the file and has the kernels' own configurations."""
    rows = kernels(Subject(str(entries)), Selection())
    assert (rows.matrix.name, rows.matrix.file) == ("l", str(entries))
    (block,) = rows.matrix.blocks
    assert block.axes == {"target": ("sm90",), "configs": ("own",)}
    assert [(each.kernel.name, len(each.launches)) for each in rows.sources] == [
        ("program:scale", 3),
        ("program:other", 1),
    ]
    assert rows.packages == {}
    assert rows.warnings == ()


def test_the_usual_launches_are_one_of_each_kernel_and_dtype(entries: Path) -> None:
    """The first that was recorded."""
    rows = kernels(Subject(str(entries)), Selection())
    assert rows.usual_sources is not None
    assert [len(each.launches) for each in rows.usual_sources] == [2, 1]


def test_a_line_is_one_launch(entries: Path) -> None:
    """`FILE.jsonl:LINE`, counted from 1."""
    rows = kernels(Subject(f"{entries}:4"), Selection())
    (source,) = rows.sources
    assert [each.dtype for each in source.launches] == ["fp16"]
    read = launches.read(entries)
    assert len(entries_of(read, entries, None, False)) == 4
    with pytest.raises(UsageError, match=r"l\.jsonl:1: no launch is on that line"):
        entries_of(read, entries, 1, False)


def test_a_guess_is_told_of_the_kernels_that_are_asked_for(tmp_path: Path) -> None:
    """Guesses of kernels that are not selected are not reported."""
    line = launch(guessed="program:7")
    file = write(tmp_path, HEADER, line, launch(id="b" * 16, kernel="program:other"))
    (warning,) = kernels(Subject(str(file)), Selection()).warnings
    assert warning.startswith("1 of 2 launches may depend on values that the fake GPU made up")
    assert kernels(Subject(str(file)), Selection(kernels=("other",))).warnings == ()


def test_a_kernel_that_nothing_can_compile_is_named(tmp_path: Path) -> None:
    """A kernel without a source or a package to import is named, for a trusted file too."""
    bare = {**launch(id="b" * 16, kernel="program:bare"), "source": None, "uncut": "a closure"}
    file = write(tmp_path, HEADER, launch(), bare)
    rows = kernels(Subject(str(file), trust=True), Selection())
    assert [each.kernel.name for each in rows.sources] == ["program:scale"]
    assert rows.warnings == (
        "not compiled: the launches file has no source of program:bare "
        "and names no package to import from",
    )


def test_one_of_each_is_the_likeliest_to_mean_something(tmp_path: Path) -> None:
    """A program's launch comes before a made-up one, and both before one with an argument that
    cannot be rebuilt.
    """
    odd = {**launch()["launch"]["args"], "n": {"unknown": "tensor of complex64"}}
    lines = [
        launch(id="b" * 16, launch={**launch()["launch"], "args": odd}),
        launch(id="c" * 16, made_up=True, options={"num_stages": 2}),
        launch(id="d" * 16),
        launch(id="e" * 16, options={"num_stages": 3}),
    ]
    entries = launches.read(write(tmp_path, HEADER, *lines), ours=True).launches
    assert [one.id for one in launches.one_each(entries)] == ["d" * 16]
    assert [one.id for one in launches.one_each(entries[:2])] == ["c" * 16]


# Asked with four warps first, and then its eight stages need more shared memory than an H100 has.
PIPELINE = """
def config(split, warps, stages):
    return triton.Config({"SPLIT": split}, num_warps=warps, num_stages=stages)

@triton.autotune([config(1, 4, 8), config(2, 8, 8), config(4, 8, 1)], ["n"])
@triton.jit
def summed(x, y, n, SPLIT: tl.constexpr):
    i = tl.arange(0, 128)
    total = tl.zeros((128, 128), tl.float32)
    for step in range(n):
        place = x + step * 128 * 128 * SPLIT + i[:, None] * 128 + i[None, :]
        total += tl.dot(tl.load(place), tl.load(place + 64))
    tl.store(y + i[:, None] * 128 + i[None, :], total)

x = torch.empty(128 * 128 * 8, device="cuda", dtype=torch.bfloat16)
summed[(1,)](x, torch.empty(128 * 128, device="cuda"), 8)
"""


@captured.needs_torch
def test_where_the_usual_configuration_does_not_fit_another_is_compiled(tmp_path: Path) -> None:
    """The launch runs on a card, so it does not fail."""
    captured.recorded(tmp_path, PIPELINE)
    command = [sys.executable, "-m", "flacheck", "scan", "l.jsonl", "--configs", "usual"]
    more = ["--target", "sm90", "--format", "json", "-o", "out.json"]
    assert subprocess.run([*command, *more], cwd=tmp_path).returncode == 0
    out = json.loads((tmp_path / "out.json").read_text())
    outcomes = [(r["options"]["num_stages"], r["verdict"], r["code"]) for r in out["records"]]
    assert outcomes == [(8, "fails", "FC501"), (1, "compiles", None)]
    assert [each["cells"] for each in out["summary"]["known_good"]] == [2]
    (cells,) = out["run"]["question"]["asked"]
    assert (cells["cells"], cells["answered"]) == (2, 2)
