"""Journeys of new users: what they type, the first lines of the answers, and the costs.

Each file in tests/golden/journeys has a journey's commands and the first lines of each answer.
`GOLDEN=write` writes the answers again.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flacheck.toolchains import torch_pins
from tests.captured import needs_torch
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "journeys"
FLA = "flash-linear-attention"
WIDTH = 80
# Lines of a first screen, and words that a reader meets on it.
SCREEN, MOST_WORDS = 24, 300
SLOW = pytest.mark.slow
MODEL = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64))
compiled = torch.compile(model.cuda())
compiled(torch.randn(32, 64, device="cuda")).square().mean().backward()
"""
TRAIN = """
import sys

sys.path.insert(0, ".")
import torch
from kernels import gated_add

x = torch.randn(4, 4096, device="cuda", dtype=torch.bfloat16)
gated_add(x, x)
"""


@dataclass(frozen=True)
class Journey:
    """The commands that a user types, in a folder with files, and the most CPU seconds of all.

    On a busy machine the wall time says nothing.
    """

    commands: tuple[str, ...]
    seconds: float
    files: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[int, ...] = (0, 1)


def _text(*names: str) -> str:
    return TESTS.joinpath(*names).read_text()


LAUNCHES = {"launches.jsonl": _text("journeys", "launches.jsonl")}
SCAN = "flacheck scan launches.jsonl --triton installed --target h100"
BASELINE = ".flacheck-baseline.json"
ANSWERS = {
    "upgrade": Journey(
        (
            f"flacheck diff 'torch==2.9.*' 'torch==2.12.*' --package {FLA}==0.4.2 --target h100",
            f"flacheck known {FLA}==0.4.2 --target h100",
        ),
        10,
    ),
    "upgrade the package": Journey(
        (f"flacheck diff {FLA}==0.4.2 {FLA}==0.6.0 --triton 3.7.1 --target h100 --configs usual",),
        10,
    ),
    "retention on a V100": Journey(
        (f"flacheck known {FLA}==0.2.2 --op '*retention*' --target v100",), 6
    ),
    "which release": Journey(
        (
            f"flacheck known {FLA}==0.6.0 --target h100",
            f"flacheck gate --package {FLA}==0.6.0 --triton 3.9.0 --target h100",
        ),
        10,
    ),
    "three packages at once": Journey(
        (
            f"flacheck check --torch 2.12 --package {FLA}==0.4.2 --package liger-kernel==0.8.5 "
            "--package flash-kmeans==0.3.1 --target h100",
        ),
        8,
    ),
    "not published": Journey((f"flacheck known {FLA}==0.6.0 --target rtx4090",), 4),
}
JOURNEYS = {
    **ANSWERS,
    "a pasted log": Journey(
        ("flacheck explain - < build.log", "flacheck explain FC302"),
        6,
        {"build.log": _text("logs", "FC302", "golden-reshape-outs-3.2.0.log")},
    ),
    "own kernels in CI": Journey(
        (f"{SCAN} --write-baseline {BASELINE}", f"flacheck gate --baseline {BASELINE}"),
        12,
        {**LAUNCHES, "requirements.txt": "triton==INSTALLED\n"},
    ),
    "formats": Journey(
        (
            f"{SCAN} --report junit=junit.xml --report sarif=report.sarif",
            "flacheck report --format markdown",
            "flacheck report --format html -o report.html && head -c 15 report.html",
            "head -c 38 junit.xml",
        ),
        16,
        LAUNCHES,
    ),
    "configurations for a 4090": Journey(
        (
            "flacheck autotune retention.chunk_fwd_o --triton installed --target rtx4090",
            "flacheck autotune retention.chunk_fwd_o --triton installed --target rtx4090 "
            "--emit python",
        ),
        25,
    ),
}
# Journeys of over 2 CPU seconds.
LONG = ("upgrade", "upgrade the package", "which release", "formats", "configurations for a 4090")
WITH_TORCH = {
    "own kernels": Journey(
        ("flacheck capture -o launches.jsonl -- python train.py", SCAN),
        30,
        {"train.py": TRAIN, "kernels.py": _text("journeys", "kernels.py")},
    ),
    "a compiled model": Journey(
        (
            "flacheck capture -o launches.jsonl -- python train.py",
            SCAN,
        ),
        90,
        {"train.py": MODEL},
    ),
}


def _cases() -> list[Any]:
    cases = []
    for name in JOURNEYS:
        cases.append(pytest.param(name, id=name, marks=[SLOW] if name in LONG else []))
    cases += [pytest.param(name, id=name, marks=[needs_torch, SLOW]) for name in WITH_TORCH]
    return cases


@pytest.mark.parametrize("name", _cases())
def test_the_first_lines_answer(name: str, tmp_path: Path) -> None:
    """The first two lines of each answer equal the golden file; little is typed and read."""
    journey = {**JOURNEYS, **WITH_TORCH}[name]
    triton = importlib.metadata.version("triton")
    for file, text in journey.files.items():
        (tmp_path / file).write_text(text.replace("INSTALLED", triton))
    transcript = []
    seconds = 0.0
    for number, command in enumerate(journey.commands):
        page = tmp_path / f"page-{number}.txt"
        seconds += _run(command, page, journey.codes)
        lines = page.read_text().splitlines()
        if "installed" in command:
            lines = [_timeless(line, triton) for line in lines]
        transcript += [f"$ {command}", *lines[:2]]
        is_for_terminal = not re.search("--(format|emit|report)|^head", command)
        # A patch further below keeps its lines.
        assert not is_for_terminal or max(map(len, lines[:SCREEN]), default=0) <= WIDTH
        assert len(" ".join(lines[:SCREEN]).split()) <= MOST_WORDS
    golden = GOLDEN / f"{name}.txt"
    text = "\n".join([*transcript, ""])
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()
    assert seconds < journey.seconds


def _run(command: str, page: Path, codes: tuple[int, ...]) -> float:
    """Run a shell's line with its stdout in a file; return its CPU seconds."""
    line = f'flacheck() {{ "{sys.executable}" -m flacheck "$@"; }}; '
    line += f'python() {{ "{sys.executable}" "$@"; }}; {command}'
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": str(WIDTH)}
    with page.open("w") as out:
        process = subprocess.Popen(
            ["bash", "-c", line], cwd=page.parent, stdout=out, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in codes
    return usage.ru_utime + usage.ru_stime


def _timeless(line: str, triton: str) -> str:
    """Return a line without a run's name, and without the release that happens to be installed."""
    line = re.sub(r"\d{8}-\d{6}-\w{6} of .*", "RUN", line)
    for torch in torch_pins.torch_for(triton)[-1:]:
        line = line.replace(f"Triton {triton} (torch {torch})", "Triton INSTALLED")
    return line
