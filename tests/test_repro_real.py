"""Real failures of flash-linear-attention's releases, reduced with the real compilers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]
SCHEMA = json.loads(
    (Path(__file__).parent.parent / "flacheck/tables/schemas/repro-1.json").read_text()
)
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


def reproduced(folder: Path, words: Sequence[str], releases: str) -> dict[str, Any]:
    """What `flacheck repro` says as JSON; the files are in `out`."""
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
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    return found


def exits(found: dict[str, Any]) -> dict[str, int]:
    return {entry["toolchain"].partition("==")[2]: entry["exit"] for entry in found["versions"]}


def test_the_gated_delta_rule_on_hopper(tmp_path: Path) -> None:
    """58 lines become at most 7, in at most 300 compiles, and every release judges both alike."""
    found = reproduced(tmp_path, DELTA, "3.1.0,3.2.0,3.4.0")
    assert found["code"] == "FC302" and ":reshapeOuts:" in found["signature"]
    assert found["after"]["lines"] <= 7
    assert found["ran"] <= 300
    assert found["runs"] == {"reproduced": 2, "of": 2}
    assert exits(found) == {"3.1.0": 1, "3.2.0": 0, "3.4.0": 1}
    assert [entry["original"] for entry in found["versions"]] == [
        entry["reduced"] for entry in found["versions"]
    ]
    assert "repro.ttir" in found["files"]
    assert not [file for file in (tmp_path / "out").iterdir() if str(tmp_path) in file.read_text()]


def test_retention_on_volta(tmp_path: Path) -> None:
    """At most 6 lines that fail on 3.3.0 alone."""
    found = reproduced(tmp_path, RETENTION, "3.3.0,3.4.0")
    assert found["code"] == "FC301"
    assert found["after"]["lines"] <= 6
    assert exits(found) == {"3.3.0": 0, "3.4.0": 1}


def test_a_key_past_the_end_of_the_arguments(tmp_path: Path) -> None:
    """The autotuner's own lookup fails in a script of a kernel without a body."""
    found = reproduced(tmp_path, KEY, "3.1.0,3.2.0")
    assert found["code"] == "FC601"
    assert found["after"]["lines"] == 1
    assert exits(found) == {"3.1.0": 0, "3.2.0": 1}


def test_an_interrupt_leaves_the_best_so_far(tmp_path: Path) -> None:
    """Ctrl-C in mid-search: exit 130, and a verified script is there."""
    command = [*REPRO, *DELTA, "--releases", "3.2.0", "-o", "out"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr
        while "partial evaluation" not in child.stderr.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.stderr.read()
    found = json.loads((tmp_path / "out/repro.json").read_text())
    assert child.returncode == 130
    assert not found["complete"] and found["runs"] == {"reproduced": 3, "of": 3}


def test_a_budget_of_nothing_is_refused(tmp_path: Path) -> None:
    """Before anything is compiled, with what is wanted."""
    none = subprocess.run(
        [*REPRO, *DELTA, "--budget", "0"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (none.returncode, "a number of compiles" in none.stderr) == (2, True)
