"""The corpus computes what its papers say: checked on the CPU, in Triton's interpreter, against
plain torch.

The checks run in a process of their own (this file, started as a script), because Triton reads
TRITON_INTERPRET once.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from flacheck.inputs import corpus
from flacheck.tables import find_shipped_folder

# ||ours - reference|| / ||reference||. The inputs are the same rounded ones for both, so this is
# the error of the computation: about one rounding of each intermediate that is stored in the dtype.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}

# B, T, H, K, V: no T is a multiple of the chunk of 64 but one; K and V that fill no tile; a single
# token.
CHUNK = [
    (1, 64, 2, 64, 64),
    (2, 100, 1, 64, 64),
    (1, 130, 1, 128, 64),
    (1, 70, 1, 256, 128),
    (1, 65, 1, 96, 48),
    (2, 1, 1, 64, 64),
]
RECURRENT = [
    (2, 20, 1, 64, 64),
    (1, 12, 2, 128, 64),
    (1, 9, 1, 256, 128),
    (1, 5, 1, 96, 48),
    (2, 1, 1, 64, 64),
]

FORMS = sorted(
    {
        (k.kernel.origin.family, str(k.kernel.form))
        for k in corpus.load().values()
        if k.kernel.language == "triton"
    }
)
FAMILIES = sorted({family for family, _ in FORMS})


def _missing() -> str | None:
    """Why the interpreter cannot run here, if it cannot."""
    for module in ("torch", "numpy", "triton"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    release, numpy = (Version(importlib.metadata.version(name)) for name in ("triton", "numpy"))
    if release < Version("3.3"):
        return f"the interpreter of Triton {release} gets tl.dot wrong"
    if release < Version("3.7") and numpy >= Version("2.4"):
        return f"the interpreter of Triton {release} fails on loops under NumPy {numpy}; one before 2.4 works"
    return None


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """Every check's errors, from one process in which the interpreter is on."""
    reason = _missing()
    if reason:
        pytest.skip(reason)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, __file__, str(find_shipped_folder("kernels"))]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def _too_far(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [c for c in checks if not all(error <= TOLERANCE[c["dtype"]] for error in c["errors"])]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "form"), FORMS)
def test_every_form_agrees_with_the_recurrence(
    measured: list[dict[str, Any]], family: str, form: str
) -> None:
    """Output and final state, for every shape and dtype, with and without an initial state."""
    mine = [
        c for c in measured if (c["what"], c["family"], c.get("form")) == ("shape", family, form)
    ]
    shapes = RECURRENT if form == "fused_recurrent" else CHUNK
    assert {(*c["shape"], c["dtype"]) for c in mine} == {(*s, d) for s in shapes for d in TOLERANCE}
    assert _too_far(mine) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_configuration_computes_the_same(measured: list[dict[str, Any]], family: str) -> None:
    """Whatever tile the autotuner picks, the result is the reference's."""
    mine = [c for c in measured if (c["family"], c["what"]) == (family, "configuration")]
    assert len(mine) >= 10
    assert _too_far(mine) == []


@pytest.mark.slow
def test_keys_that_are_all_alike_do_not_break_the_triangular_inverse(
    measured: list[dict[str, Any]],
) -> None:
    """Equal keys, full strength and no decay make I + A as far from the identity as it gets."""
    mine = [c for c in measured if c["what"] == "alike"]
    assert len(mine) == 1
    assert _too_far(mine) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_arguments_that_do_not_fit_are_refused(measured: list[dict[str, Any]], family: str) -> None:
    """Every host function raises ValueError for keys that are fewer than the queries."""
    refused = {c["form"] for c in measured if (c["family"], c["what"]) == (family, "refused")}
    assert refused == {form for name, form in FORMS if name == family}


def _module(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _multiply_bf16_values() -> None:
    """The interpreter keeps bf16 as 16-bit patterns and `tl.dot` multiplies the patterns: give it
    the values."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    dot = InterpreterBuilder.create_dot

    def values(operand: Any) -> Any:
        if operand.dtype.scalar != tl.bfloat16:
            return operand
        return TensorHandle((operand.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    InterpreterBuilder.create_dot = lambda self, a, b, *rest: dot(self, values(a), values(b), *rest)


def _do_without_a_driver() -> None:
    """Triton 3.3 asks the GPU's driver for a benchmark function as soon as an autotuned kernel is
    imported."""
    from triton.runtime import driver

    driver.set_active(SimpleNamespace(get_benchmarker=lambda: None))


def _forms(module: Any) -> list[str]:
    return sorted({declared["form"] for declared in module.KERNELS.values()})


def _errors(module: Any, form: str, arguments: dict[str, Any]) -> list[float]:
    """The relative errors of output and final state."""
    pairs = zip(getattr(module, form)(**arguments), module.reference(**arguments), strict=True)
    return [((ours.double() - right).norm() / right.norm()).item() for ours, right in pairs]


def _shapes(module: Any, name: str) -> Iterator[dict[str, Any]]:
    import torch

    for form in _forms(module):
        for i, shape in enumerate(RECURRENT if form == "fused_recurrent" else CHUNK):
            for dtype in TOLERANCE:
                arguments = module.inputs(*shape, dtype=getattr(torch, dtype), device="cpu", seed=i)
                if i % 2:
                    arguments["h0"] = None
                errors = _errors(module, form, arguments)
                yield {
                    "family": name,
                    "form": form,
                    "what": "shape",
                    "shape": shape,
                    "dtype": dtype,
                    "errors": errors,
                }


def _configurations(module: Any, name: str) -> Iterator[dict[str, Any]]:
    import torch

    for kernel, declared in module.KERNELS.items():
        tokens = 7 if declared["form"] == "fused_recurrent" else 70
        arguments = module.inputs(1, tokens, 1, 128, 64, dtype=torch.float32, device="cpu")
        tuned = getattr(module, kernel)
        kept = tuned.configs
        for config in {str(c.kwargs): c for c in tuned.all}.values():
            tuned.configs = [config]
            errors = _errors(module, declared["form"], arguments)
            yield {
                "family": name,
                "what": "configuration",
                "kernel": kernel,
                "dtype": "float32",
                "errors": errors,
            }
        tuned.configs = kept


def _alike(module: Any, name: str) -> Iterator[dict[str, Any]]:
    import torch

    arguments = module.inputs(1, 100, 1, 64, 64, dtype=torch.float32, device="cpu")
    arguments["k"] = arguments["k"][:, :1].expand_as(arguments["k"]).contiguous()
    arguments |= {"beta": torch.ones_like(arguments["beta"]), "g": torch.zeros_like(arguments["g"])}
    yield {
        "family": name,
        "what": "alike",
        "dtype": "float32",
        "errors": _errors(module, "chunk", arguments),
    }


def _refused(module: Any, name: str) -> Iterator[dict[str, Any]]:
    import torch

    arguments = module.inputs(1, 3, 1, 64, 64, dtype=torch.float32, device="cpu")
    for form in _forms(module):
        try:
            getattr(module, form)(**{**arguments, "k": arguments["k"][:, :2]})
        except ValueError:
            yield {"family": name, "what": "refused", "form": form}


def _main(folder: Path) -> None:
    import torch

    torch.set_num_threads(1)
    _do_without_a_driver()
    _multiply_bf16_values()
    for name in FAMILIES:
        module = _module(folder, name)
        for kernel in module.KERNELS:
            # Timing a choice needs a GPU; with one configuration there is none to time. The largest
            # tile is quickest.
            tuned = getattr(module, kernel)
            tuned.all = tuned.configs
            tuned.configs = [max(tuned.all, key=lambda c: c.kwargs.get("BV", 0))]
        checks = [_shapes, _configurations, _refused] + [_alike] * (name == "gated_delta_rule")
        for check in checks:
            for found in check(module, name):
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
