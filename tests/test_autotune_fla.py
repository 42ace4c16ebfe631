"""The real flash-linear-attention loads what is emitted for it, and its autotuner takes that
configuration.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.capabilities.autotune import emit, judging
from flacheck.capabilities.autotune.examined import Tuned
from flacheck.capabilities.autotune.trials import trials
from flacheck.model import Cell, Imported, Kernel, Launch
from flacheck.packages import package as packages
from flacheck.source import autotuned
from tests.made_tuned import fatal, good

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="FLA needs torch"),
]

KERNEL = "fla.ops.common.chunk_o:chunk_fwd_kernel_o"
TENSORS, ABSENT = ("q", "k", "v", "h", "o"), ("g", "g_gamma", "cu_seqlens", "chunk_indices")
SIZES = {"H": 4, "HV": 4, "K": 64, "V": 64, "BT": 64, "STATE_V_FIRST": False}
CONFIG = {"kwargs": {"BK": 32, "BV": 16}, "num_warps": 1, "num_stages": 4}
OTHER = {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2}
# The real kernel with its real autotuner; only what lies below that, the launch, is replaced.
PROGRAM = """\
import json, sys, torch
from fla.ops.common.chunk_o import chunk_fwd_kernel_o as kernel

tuner = kernel
while type(tuner).__name__ != "CachedAutotuner":
    tuner = tuner.fn

class Below:
    def __init__(self, fn):
        self.fn = fn
    def __getattr__(self, name):
        return getattr(self.fn, name)
    def run(self, *args, **kwargs):
        self.seen = kwargs

below = tuner.fn = Below(tuner.fn)
tensors, absent, sizes = json.loads(sys.argv[1])
given = {name: torch.zeros(16, dtype=torch.bfloat16) for name in tensors}
given |= {**dict.fromkeys(absent), **sizes}
given = {name: given[name] for name in tuner.arg_names if name in given}
kernel.run(grid=(1,), warmup=False, scale=1.0, T=512, **given)
print("took", json.dumps({n: below.seen[n] for n in ("BK", "BV", "num_warps", "num_stages")}))
"""


def emitted(package: packages.Package, folder: Path) -> None:
    """The file for a kernel whose second configuration does not compile."""
    args: dict[str, Any] = {name: {"dtype": "bf16", "align": 16} for name in TENSORS}
    args |= dict.fromkeys(ABSENT) | {name: {"constexpr": value} for name, value in SIZES.items()}
    source = autotuned.of_module(Path(package.path), KERNEL)
    assert source is not None
    launch = Launch(args, ("BK", "BV"), (CONFIG, OTHER), tuple(name for name, _ in source.keys))
    kernel = Kernel(KERNEL, package.identity, "0", Imported(KERNEL))
    cell = Cell(kernel, "triton==3.7.1", "sm90", launch, dtype="bf16", stage="autotune")
    asked = trials(Tuned(cell, {}, (args,), True, source))
    known = {cell.key: record for cell, record in zip(asked.configs, (good(), fatal()))}
    for name, text in emit.fla([judging.judge(asked, known, [1.0, 2.0])]):
        (folder / name).write_text(text)


def taken(
    package: packages.Package, folder: Path, mode: str, **sizes: Any
) -> subprocess.CompletedProcess[str]:
    """What FLA's autotuner launches in a process of its own."""
    (choice,) = toolchains.resolve(["3.7.1"]).choices
    paths = [*toolchains.provide(choice).paths, package.path]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths),
        "FLA_CONFIG_DIR": str(folder),
        "FLA_CACHE_MODE": mode,
    }
    question = json.dumps([TENSORS, ABSENT, {**SIZES, **sizes}])
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, question],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_flas_autotuner_takes_the_emitted_configuration(tmp_path: Path) -> None:
    """By the exact key where only that counts, for other sizes where more is allowed; else it would
    have to tune.
    """
    package = packages.provide_package("flash-linear-attention==0.6.0")
    emitted(package, tmp_path)
    expected = {**CONFIG["kwargs"], "num_warps": 1, "num_stages": 4}
    for mode, sizes in (("strict", {}), ("full", {"K": 128})):
        found = taken(package, tmp_path, mode, **sizes)
        line = found.stdout.strip().splitlines()[-1:]
        assert line == [f"took {json.dumps(expected)}"], found.stderr[-2000:]
    tuning = taken(package, tmp_path, "strict", K=128)
    assert tuning.returncode != 0
    assert "took" not in tuning.stdout
