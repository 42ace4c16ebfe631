"""Run the corpus on a GPU against its references: `python -m tests.gpu.check_numerics [FAMILY…]`.

Needs torch with CUDA and its Triton. fp32 products run without TF32. Each kernel runs in one
configuration, in others for each shape, and in the next of its list where one needs more shared
memory than the GPU has, as an autotuner would; `--choices 2` lets the autotuners choose between
two. `--configurations` then runs every configuration once, in bf16. Prints a line a check with
the relative errors of output, final state and gradients, and exits 1 when one is too large.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Triton reads it when a kernel is compiled.
os.environ["TRITON_F32_DEFAULT"] = "ieee"

import torch
import triton

from tests import numerics

FOLDER = Path(__file__).resolve().parents[2] / "kernels"
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
# B, T, H, K, V: head sizes 64, 128, 256; lengths beside multiples of 64; one token; K and V
SHAPES = [
    (2, 256, 4, 64, 64),
    (1, 1000, 2, 128, 128),
    (1, 515, 3, 256, 256),
    (2, 1, 2, 64, 64),
    (1, 130, 2, 96, 80),
]
VARIABLE = ((1, 700, 2, 128, 64), [0, 1, 65, 321, 700])


@dataclass(frozen=True)
class Check:
    """One comparison: what ran, and the relative error of each result."""

    name: str
    dtype: torch.dtype
    errors: dict[str, float]
    seconds: float

    @property
    def is_good(self) -> bool:
        return all(error <= TOLERANCE[self.dtype] for error in self.errors.values())

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        errors = "  ".join(f"{name} {error:.1e}" for name, error in self.errors.items())
        verdict = "ok " if self.is_good else "BAD"
        return f"{verdict}  {self.name:60}  {dtype:9} {self.seconds:6.1f} s  {errors}"


def run_what_fits() -> None:
    """Make an autotuner with one configuration fall back to the next ones of its list when memory
    is short. Products without TF32 need more shared memory, so that in fp32 at K=256 no
    configuration of the delta rule's backward fits on an H100; each is tried with one stage
    last."""
    from triton.runtime.autotuner import Autotuner

    run = Autotuner.run

    def run_next(self: Any, *arguments: Any, **options: Any) -> Any:
        if len(self.configs) > 1:
            return run(self, *arguments, **options)
        trial_configs = self.configs
        others = [config for config in self.every if config is not trial_configs[0]]
        for config in self.every:
            one_stage = triton.Config(config.kwargs, num_warps=config.num_warps, num_stages=1)
            others.append(one_stage)
        refusals = []
        try:
            for config in (*trial_configs, *others):
                self.configs = [config]
                try:
                    return run(self, *arguments, **options)
                except triton.runtime.errors.OutOfResources as error:
                    print(f"--   {self.base_fn.__name__} {config}: {error}", flush=True)
                    refusals.append(error)
            raise refusals[0]
        finally:
            self.configs = trial_configs

    Autotuner.run = run_next


def compare(
    family: Any, form: str, name: str, arguments: dict[str, Any], reference: tuple[Any, Any]
) -> Check:
    """Compare one form's results with the reference's."""
    start = time.perf_counter()
    right, cotangents = reference
    ours = numerics.compute(family, form, arguments, cotangents)
    torch.cuda.synchronize()
    errors = numerics.relative_errors(ours, right)
    return Check(name, next(iter(arguments.values())).dtype, errors, time.perf_counter() - start)


def check_shapes(
    name: str, family: Any, dtypes: list[torch.dtype], choices: int
) -> Iterator[Check]:
    """Compare each form over shapes and dtypes, with and without an initial state.

    Each autotuner chooses between `choices` of its configurations, other ones for each shape.
    """
    every = {kernel: getattr(family, kernel).configs for kernel in family.KERNELS}
    for autotuner in numerics.loaded_autotuners():
        # Also of the kernels that a family launches without declaring them.
        autotuner.every = autotuner.configs
        autotuner.configs = autotuner.configs[:choices]
    samples = [(shape, None) for shape in SHAPES]
    if numerics.accepts_variable_lengths(family):
        samples.append(VARIABLE)
    for i, (shape, bounds) in enumerate(samples):
        for kernel, configs in every.items():
            getattr(family, kernel).configs = [
                configs[(i + j) % len(configs)] for j in range(choices)
            ]
        for dtype in dtypes:
            arguments = numerics.draw(family, shape, dtype, "cuda", i, bounds)
            if i % 2 and not bounds and "h0" in arguments:
                arguments["h0"] = None
            reference = numerics.compute_reference(family, arguments)
            for form in numerics.forms_of(family):
                label = f"{name}.{form} B,T,H,K,V={shape}{' cu_seqlens' if bounds else ''}"
                yield compare(family, form, label, arguments, reference)
    for autotuner in numerics.loaded_autotuners():
        autotuner.configs = autotuner.every


def check_configurations(name: str, family: Any) -> Iterator[Check]:
    """Compare each configuration of each kernel; skip those that exceed the shared memory."""
    arguments = numerics.draw(family, (1, 200, 2, 128, 128), torch.bfloat16, "cuda", 0)
    reference = numerics.compute_reference(family, arguments)
    for kernel, declaration in family.KERNELS.items():
        autotuner = getattr(family, kernel)
        every = autotuner.configs
        for config in every:
            autotuner.configs = autotuner.every = [config]
            label = f"{name}.{kernel} {config.kwargs} nw{config.num_warps} st{config.num_stages}"
            try:
                yield compare(family, declaration["form"], label, arguments, reference)
            except triton.runtime.errors.OutOfResources as error:
                print(f"--   {label}: {error}")
        autotuner.configs = autotuner.every = every


def main() -> int:
    """Return 1 when a result is further from its reference than its dtype explains."""
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=numerics.family_names(FOLDER))
    parser.add_argument("--configurations", action="store_true")
    parser.add_argument("--dtype", action="append", choices=[str(d)[6:] for d in TOLERANCE])
    parser.add_argument("--choices", type=int, default=1)
    options = parser.parse_args()
    print(f"torch {torch.__version__}  triton {triton.__version__}  {torch.cuda.get_device_name()}")
    dtypes = [d for d in TOLERANCE if str(d)[6:] in (options.dtype or str(d))]
    bad = 0
    run_what_fits()
    for name in options.families:
        family = numerics.load_family(FOLDER, name)
        checks = [check_shapes(name, family, dtypes, options.choices)]
        if options.configurations:
            checks.append(check_configurations(name, family))
        for check in checks:
            for row in check:
                print(row, flush=True)
                bad += not row.is_good
    print(f"{bad} too far from their reference" if bad else "all agree with their references")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
