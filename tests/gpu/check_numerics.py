"""Run the corpus on a GPU against its references: `python tests/gpu/check_numerics.py [FAMILY…]`.

Needs torch with CUDA and its Triton. The autotuners choose for real, each shape between two of
their configurations (all of them for all shapes would compile for long); then every configuration
runs once. Prints a line a check with the relative errors of output and final state, and exits 1
when one is too large.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

FOLDER = Path(__file__).resolve().parents[2] / "kernels"
# fp32 products go through TF32 (10 bits of mantissa) on the tensor cores.
TOLERANCE = {torch.float32: 3e-3, torch.float16: 4e-3, torch.bfloat16: 2e-2}
# B, T, H, K, V: head sizes 64, 128, 256; lengths that are no multiple of 64; one token; K and V
# that fill no tile.
SHAPES = [
    (2, 256, 4, 64, 64),
    (1, 1000, 4, 128, 128),
    (1, 515, 3, 256, 256),
    (2, 1, 2, 64, 64),
    (1, 130, 2, 96, 80),
    (1, 4096, 2, 128, 256),
]
LONG = (1, 33001, 1, 64, 64)


@dataclass(frozen=True)
class Check:
    """One comparison: what ran, and the relative errors of output and final state."""

    name: str
    dtype: torch.dtype
    errors: tuple[float, float]
    seconds: float

    @property
    def good(self) -> bool:
        return all(error <= TOLERANCE[self.dtype] for error in self.errors)

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        numbers = "  ".join(f"{error:9.2e}" for error in self.errors)
        return f"{'ok ' if self.good else 'BAD'}  {self.name:62}  {dtype:9} {numbers}  {self.seconds:6.1f} s"


def module(family: str) -> Any:
    """A family's file as a module."""
    spec = importlib.util.spec_from_file_location(family, FOLDER / f"{family}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def compared(
    family: Any, form: str, name: str, arguments: dict[str, Any], right: tuple[Any, Any]
) -> Check:
    """One form against the reference's result."""
    start = time.perf_counter()
    ours = getattr(family, form)(**arguments)
    torch.cuda.synchronize()
    errors = [((a.double() - b).norm() / b.norm()).item() for a, b in zip(ours, right, strict=True)]
    return Check(name, arguments["q"].dtype, (errors[0], errors[1]), time.perf_counter() - start)


def shapes(family: Any) -> Iterator[Check]:
    """Both forms over shapes and dtypes, with and without an initial state, tiles as the autotuner
    picks them."""
    every = {kernel: getattr(family, kernel).configs for kernel in family.KERNELS}
    for i, shape in enumerate([*SHAPES, LONG]):
        for kernel, configs in every.items():
            getattr(family, kernel).configs = [configs[(i + j) % len(configs)] for j in (0, 1)]
        for dtype in TOLERANCE if shape != LONG else (torch.bfloat16,):
            arguments = family.inputs(*shape, dtype=dtype, device="cuda", seed=i)
            if i % 2:
                arguments["h0"] = None
            right = family.reference(**arguments)
            for form in sorted({declared["form"] for declared in family.KERNELS.values()}):
                yield compared(
                    family, form, f"{family.OPERATOR}.{form} B,T,H,K,V={shape}", arguments, right
                )
    for kernel, configs in every.items():
        getattr(family, kernel).configs = configs


def configurations(family: Any) -> Iterator[Check]:
    """Each configuration of each kernel, one kernel at a time; what needs more shared memory than
    there is, is left."""
    arguments = family.inputs(1, 200, 2, 128, 128, dtype=torch.bfloat16, device="cuda")
    right = family.reference(**arguments)
    for kernel, declared in family.KERNELS.items():
        tuned = getattr(family, kernel)
        every = tuned.configs
        for config in every:
            tuned.configs = [config]
            name = f"{family.OPERATOR}.{kernel} {config.kwargs} nw{config.num_warps} st{config.num_stages}"
            try:
                yield compared(family, declared["form"], name, arguments, right)
            except triton.runtime.errors.OutOfResources as error:
                print(f"--   {name}: {error}")
        tuned.configs = every


def main(names: list[str]) -> int:
    """1 when a result is further from its reference than its dtype explains."""
    print(f"torch {torch.__version__}  triton {triton.__version__}  {torch.cuda.get_device_name()}")
    bad = 0
    for family in map(module, names or sorted(file.stem for file in FOLDER.glob("*.py"))):
        for checks in (shapes, configurations):
            for check in checks(family):
                print(check, flush=True)
                bad += not check.good
    print(f"{bad} too far from their reference" if bad else "all agree with their references")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
