"""Scans of a whole package: captured under each compiler, without a GPU."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="capturing a package needs torch"
    ),
    pytest.mark.skipif(
        sys.version_info < (3, 11), reason="Triton 3.9.0 has no wheel for CPython 3.10"
    ),
]


def test_an_import_that_dies_is_said_as_such_and_the_rest_is_compiled(tmp_path: Path) -> None:
    """FLA 0.5.0 under Triton 3.9.0 dies at import for an unknown autotune key, and the rest
    compiles."""
    command = [
        "scan",
        "--package",
        "flash-linear-attention==0.5.0",
        "--triton",
        "3.9.0",
        "--target",
        "sm90",
    ]
    globs = [
        "-k",
        "*:__init__,causal_conv1d_fwd_kernel",
        "--dtype",
        "bf16",
        "--configs",
        "usual",
        "--format",
        "json",
        "-o",
        "out.json",
    ]
    assert (
        subprocess.run(
            [sys.executable, "-m", "flacheck", *command, *globs], cwd=tmp_path
        ).returncode
        == 1
    )
    out = json.loads((tmp_path / "out.json").read_text())
    assert {r["how"] for r in out["records"]} == {"import"}
    imports = {r["kernel"]: r for r in out["records"] if r["stage"] == "import"}
    assert imports["fla.layers:__init__"]["code"] == "FC603"
    assert imports["fla.layers:__init__"]["stage"] == "import"
    assert "BT" in imports["fla.layers:__init__"]["findings"][0]["facts"]["names"]
    kernels = [r for r in out["records"] if r["stage"] != "import"]
    assert kernels
    assert {(r["verdict"], r["code"], r["dtype"]) for r in kernels} == {("fails", "FC101", "bf16")}
    (coverage,) = out["summary"]["coverage"]
    # The capture sought what the globs select, in a module beside the recipe's `fla.ops`.
    assert (coverage["launchable"], coverage["recorded"], coverage["missed"]) == (1, 1, [])
