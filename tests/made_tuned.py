"""Hand-made tuned kernels for the tests of everything that examines autotuners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flacheck.capabilities.autotune import judging
from flacheck.capabilities.autotune.results import TunedLaunch, TunerResult
from flacheck.capabilities.autotune.trials import trials
from flacheck.model import Cell, Cut, Kernel, Launch, Record
from flacheck.source import autotuners
from tests.made_records import failure, record

CONFIGS: Any = (
    {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 2},
    {"kwargs": {"BK": 64}, "num_warps": 8, "num_stages": 3},
)
THREE = (*CONFIGS, {"kwargs": {"BK": 128}, "num_warps": 8, "num_stages": 3})
RESOURCES = {"shared": 16384, "shared_limit": 232448, "registers": 64, "stack": 0, "spills": 0}
# More shared memory than an H100 has.
OVER = {**RESOURCES, "shared": 300_000}
TENSOR = {"dtype": "bf16", "align": 16}
SOURCE = '''\
import triton
import triton.language as tl


@triton.heuristics({'USE_G': lambda args: args['g'] is not None})
@triton.autotune(
    configs=[triton.Config({'BK': b}, num_warps=w) for b, w in [(32, 4), (64, 8)]],
    key=['H', 'K', 'USE_G'],  # what tells launches apart: H×K
)
@triton.jit(do_not_specialize=['T'])
def kernel(
    x,
    g,
    T,
    BK: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
    USE_G: tl.constexpr,
    eps=1e-5,
):
    """Nothing."""
    tl.store(x, H)
'''


def constexpr(value: Any) -> dict[str, Any]:
    return {"constexpr": value}


def call(**more: Any) -> dict[str, Any]:
    """The arguments of a call of SOURCE's kernel, as a capture sees them."""
    args = {
        "x": TENSOR,
        "g": None,
        "T": {"int": 512},
        "H": constexpr(4),
        "K": constexpr(64),
        "USE_G": constexpr(False),
    }
    return {**args, **more}


def tuned_launch(
    folder: Path,
    *observed_calls: dict[str, Any],
    source: str = SOURCE,
    toolchain: str = "triton==3.5.1",
    driven: bool = False,
    configs: tuple[dict[str, Any], ...] = CONFIGS,
    target: str = "sm90",
) -> TunedLaunch:
    """Return the kernel of a source, launched as `seen`."""
    file = folder / "made.py"
    file.write_text(source)
    autotuner = autotuners.of_file(file, "kernel", "made.py")
    assert autotuner is not None
    calls = observed_calls or (call(),)
    launch_args = {
        name: spec for name, spec in calls[0].items() if name not in autotuner.heuristics
    }
    launch = Launch(
        launch_args,
        ("BK", *autotuner.heuristics),
        configs,
        tuple(name for name, _ in autotuner.keys),
    )
    cell = Cell(
        Kernel("made:kernel", None, "0", Cut(source, "kernel")),
        toolchain,
        target,
        launch,
        dtype="bf16",
        stage="autotune",
    )
    return TunedLaunch(cell, {}, calls, driven, autotuner, equivalent_calls=calls)


def good(**more: Any) -> Record:
    return record(**{"seconds": 2.0, "resources": RESOURCES, **more})


def skipped() -> Record:
    """A failure that the release's own autotuner passes over."""
    line = "out of resource: shared memory"
    return failure("FC501", line, tolerated=True, resources=OVER, seconds=3.0)


def fatal() -> Record:
    """A failure that ends an autotuner's run."""
    nothing = dict.fromkeys(RESOURCES) | {"shared_limit": 1}
    return failure("FC302", "Assertion `reshapeOuts' failed.", resources=nothing)


def result(
    folder: Path,
    *records: Record,
    calls: tuple[dict[str, Any], ...] = (),
    keys: Record | None = None,
    **more: Any,
) -> TunerResult:
    """The result of an autotuner with a configuration a record; `keys` is the record of what the
    release put into its key.
    """
    tuner_trials = trials(
        tuned_launch(folder, *calls, **{"configs": THREE[: len(records)], **more})
    )
    by_key = {cell.key: each for cell, each in zip(tuner_trials.configs, records, strict=True)}
    if keys is not None and tuner_trials.keys:
        by_key[tuner_trials.keys.key] = keys
    return judging.judge(tuner_trials, by_key, [1.0, 2.0, 3.0][: len(records)])
