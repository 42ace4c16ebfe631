"""Real failures of flash-linear-attention's releases, reduced with the real compilers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import validate_json

pytestmark = [pytest.mark.network, pytest.mark.slow]
REPRO = [sys.executable, "-m", "flacheck", "repro"]
DELTA = [
    "seeds",
    "--kernel",
    "*chunk_gated_delta_rule_fwd_kernel_h",
    "--triton",
    "3.2.0",
    "--target",
    "sm90",
]
DELTA += ["--num-warps", "8", "--num-stages", "2"]
RETENTION = [
    "seeds",
    "--kernel",
    "*chunk_fwd_kernel_o",
    "--triton",
    "3.3.0",
    "--target",
    "sm70",
    "--dtype",
    "fp16",
]
RETENTION += ["--num-warps", "4"]
KEY = ["seeds", "--kernel", "*chunk_scaled_dot_kkt_fwd_kernel", "--triton", "3.1.0"]


def run_repro(folder: Path, words: Sequence[str], releases: str) -> dict[str, Any]:
    """Run `flacheck repro` and return its JSON; the files are in `out`."""
    command = [
        *REPRO,
        *words,
        "--releases",
        releases,
        "--format",
        "json",
        "-o",
        "out",
        "--runs",
        "2",
    ]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    about: dict[str, Any] = json.loads(outcome.stdout)
    validate_json("repro", about)
    return about


def exits(about: dict[str, Any]) -> dict[str, int]:
    return {entry["toolchain"].partition("==")[2]: entry["exit"] for entry in about["versions"]}


def test_the_gated_delta_rule_on_hopper(tmp_path: Path) -> None:
    """58 lines become at most 7, and every release gives both the same verdict."""
    about = run_repro(tmp_path, DELTA, "3.1.0,3.2.0,3.4.0")
    assert about["code"] == "FC302"
    assert ":reshapeOuts:" in about["signature"]
    assert about["after"]["lines"] <= 7
    assert about["ran"] <= 300
    assert about["runs"] == {"reproduced": 2, "of": 2}
    assert exits(about) == {"3.1.0": 1, "3.2.0": 0, "3.4.0": 1}
    assert [entry["original"] for entry in about["versions"]] == [
        entry["reduced"] for entry in about["versions"]
    ]
    assert "repro.ttir" in about["files"]
    assert not [file for file in (tmp_path / "out").iterdir() if str(tmp_path) in file.read_text()]


def test_retention_on_volta(tmp_path: Path) -> None:
    """The reduction has at most 6 lines and fails on 3.3.0 alone."""
    about = run_repro(tmp_path, RETENTION, "3.3.0,3.4.0")
    assert about["code"] == "FC301"
    assert about["after"]["lines"] <= 6
    assert exits(about) == {"3.3.0": 0, "3.4.0": 1}


def test_a_key_past_the_end_of_the_arguments(tmp_path: Path) -> None:
    """The autotuner's lookup fails in a script whose kernel has no body."""
    about = run_repro(tmp_path, KEY, "3.1.0,3.2.0")
    assert about["code"] == "FC601"
    assert about["after"]["lines"] == 1
    assert exits(about) == {"3.1.0": 0, "3.2.0": 1}
