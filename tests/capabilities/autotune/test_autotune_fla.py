"""The real flash-linear-attention loads the emitted files and launches their configurations."""

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
from flacheck.capabilities.autotune import emit, fla_package, judging
from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.capabilities.autotune.trials import trials
from flacheck.engine.package_builds import provide_package
from flacheck.errors import UsageError
from flacheck.model import Cell, Imported, Kernel, Launch
from flacheck.source import autotuners
from flacheck.source.packages import package as packages
from tests.made_tuned import good, skipped

pytestmark = [
    pytest.mark.network,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="FLA needs torch"),
]

KERNEL = "fla.ops.common.chunk_o:chunk_fwd_kernel_o"
TENSORS, ABSENT = ("q", "k", "v", "h", "o"), ("g", "g_gamma", "cu_seqlens", "chunk_indices")
SIZES = {"H": 4, "HV": 4, "K": 64, "V": 64, "BT": 64, "STATE_V_FIRST": False}
CONFIG: dict[str, Any] = {"kwargs": {"BK": 32, "BV": 16}, "num_warps": 1, "num_stages": 4}
OTHER: dict[str, Any] = {"kwargs": {"BK": 64, "BV": 64}, "num_warps": 4, "num_stages": 2}
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
values = {name: torch.zeros(16, dtype=torch.bfloat16) for name in tensors}
values |= {**dict.fromkeys(absent), **sizes}
arguments = {name: values[name] for name in tuner.arg_names if name in values}
kernel.run(grid=(1,), warmup=False, scale=1.0, T=512, **arguments)
print("took", json.dumps({n: below.seen[n] for n in ("BK", "BV", "num_warps", "num_stages")}))
"""


def emit_files(package: packages.Package, folder: Path) -> None:
    """The file for a kernel whose configurations compile at one head size each."""
    source = autotuners.of_module(Path(package.path), KERNEL)
    assert source is not None
    keys = tuple(name for name, _ in source.keys)
    kernel = Kernel(KERNEL, package.identity, "0", Imported(KERNEL))
    results = []
    for head, records in ((64, (good(), skipped())), (128, (skipped(), good()))):
        args: dict[str, Any] = {name: {"dtype": "bf16", "align": 16} for name in TENSORS}
        sizes = {**SIZES, "K": head}
        args |= dict.fromkeys(ABSENT)
        args |= {name: {"constexpr": value} for name, value in sizes.items()}
        launch = Launch(args, ("BK", "BV"), (CONFIG, OTHER), keys)
        cell = Cell(kernel, "triton==3.7.1", "sm90", launch, dtype="bf16", stage="autotune")
        tuner_trials = trials(
            TunedLaunch(cell, {}, (args,), True, source, equivalent_calls=(args,))
        )
        records_by_key = {cell.key: record for cell, record in zip(tuner_trials.configs, records)}
        results.append(judging.judge(tuner_trials, records_by_key, [1.0, 2.0]))
    for file in emit.fla(results, fla_package.reading_kernels(package)):
        (folder / file.name).write_text(file.text())


def launch_in_fla(
    package: packages.Package, folder: Path, mode: str, **sizes: Any
) -> subprocess.CompletedProcess[str]:
    """Run FLA's autotuner in its own process, which prints the configuration it launches."""
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


def test_flas_autotuner_takes_the_emitted_configuration_of_its_own_key(tmp_path: Path) -> None:
    """FLA launches the emitted configuration of each head size, and tunes for another size."""
    package = provide_package("flash-linear-attention==0.6.0")
    emit_files(package, tmp_path)
    for head, config in ((64, CONFIG), (128, OTHER)):
        options = {name: config[name] for name in ("num_warps", "num_stages")}
        settings = {**config["kwargs"], **options}
        outcome = launch_in_fla(package, tmp_path, "strict", K=head)
        line = outcome.stdout.strip().splitlines()[-1:]
        assert line == [f"took {json.dumps(settings)}"], outcome.stderr[-2000:]
    tuning = launch_in_fla(package, tmp_path, "strict", K=256)
    assert tuning.returncode != 0
    assert "took" not in tuning.stdout


@pytest.mark.parametrize(("version", "reads"), [("0.5.0", False), ("0.5.1", True), ("0.6.0", True)])
def test_a_release_of_fla_reads_the_files_or_not(version: str, reads: bool) -> None:
    """A release of FLA that reads no files is refused before compiling."""
    package = provide_package(f"flash-linear-attention=={version}")
    assert fla_package.reads_files(package) is reads
    assert (KERNEL in fla_package.reading_kernels(package)) is reads
    cell = Cell(
        Kernel(KERNEL, package.identity, "0", Imported(KERNEL)), "triton==3.7.1", "sm90", None
    )
    launches = [TunedLaunch(cell, {}, (), True, None)]
    if reads:
        assert fla_package.check(launches, {package.identity: package}) == []
    else:
        with pytest.raises(UsageError, match="has no module that reads FLA_CONFIG_DIR"):
            fla_package.check(launches, {package.identity: package})
