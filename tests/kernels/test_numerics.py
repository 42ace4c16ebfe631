"""The corpus computes what its papers define: checked on the CPU, in Triton's interpreter, against
plain torch, gradients included.

The checks of a family run in a process of their own (this file, started as a module), because
Triton reads TRITON_INTERPRET once.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
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

from flacheck.subjects.inputs import corpus
from flacheck.tables import find_shipped_folder
from tests import numerics
from tests.paths import ROOT

# ||ours - reference|| / ||reference||. The inputs are the same rounded ones for both, so this is
# the error of the computation: about one rounding of each intermediate that is stored in the dtype.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}

# B, T, H, K, V: no T is a multiple of the chunk of 64 but one; K and V that fill no tile; a single
# token.
CHUNK: list[tuple[int, ...]] = [
    (1, 64, 2, 64, 64),
    (2, 100, 1, 64, 64),
    (1, 130, 1, 128, 64),
    (1, 70, 1, 256, 128),
    (1, 65, 1, 96, 48),
    (2, 1, 1, 64, 64),
]
# Decays of each row cost the interpreter several times as much; the GPU check runs all head sizes.
GATED_CHUNK: list[tuple[int, ...]] = [(1, 70, 1, 64, 32), (1, 33, 1, 96, 48), (2, 1, 1, 64, 64)]
WITH_ROW_DECAYS = {"gla", "rwkv6", "rwkv7"}
# One output, no state and one form.
STATELESS = {"gated_rms_norm"}
# The first is longer than a chunk, where the sums of the decays' gradients begin again.
RECURRENT: list[tuple[int, ...]] = [
    (1, 68, 1, 64, 16),
    (1, 9, 2, 128, 64),
    (1, 6, 1, 256, 128),
    (1, 5, 1, 96, 48),
    (2, 1, 1, 64, 64),
]
# Bounds of the sequences in a batch of one: a single token, a whole chunk, ragged ends.
VARIABLE = {"chunk": [0, 1, 65, 130, 150], "fused_recurrent": [0, 1, 5, 12]}

KERNELS = [k for k in corpus.load().values() if k.kernel.language == "triton"]
FORMS = sorted({(k.kernel.origin.family, str(k.kernel.form)) for k in KERNELS})
FAMILIES = sorted({family for family, _ in FORMS})


def _missing() -> str | None:
    """Return why the interpreter cannot run here, or None."""
    for module in ("torch", "numpy", "triton"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    release, numpy = (Version(importlib.metadata.version(name)) for name in ("triton", "numpy"))
    if release < Version("3.3"):
        return f"the interpreter of Triton {release} gets tl.dot wrong"
    if release < Version("3.7") and numpy >= Version("2.4"):
        return f"the interpreter of Triton {release} fails on loops under NumPy {numpy}; one before 2.4 works"
    return None


def run_checks(family: str) -> list[dict[str, Any]]:
    """Return every check's errors, from one process in which the interpreter is on."""
    reason = _missing()
    if reason:
        pytest.skip(reason)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    root = ROOT
    folder = str(find_shipped_folder("kernels"))
    command = [sys.executable, "-m", "tests.kernels.test_numerics", folder, family]
    run = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def _own_kernels(family: str) -> set[str]:
    """Return a family's kernels without those that another family launches with more arguments."""
    owners: dict[str, tuple[int, str]] = {}
    for source in KERNELS:
        arguments = source.launches[0].args.values()
        count = sum(argument is not None for argument in arguments)
        candidate = (count, source.kernel.origin.family)
        owners[source.kernel.digest] = max(candidate, owners.get(source.kernel.digest, candidate))
    own = set()
    for source in KERNELS:
        origin = source.kernel.origin
        if origin.family == family and owners[source.kernel.digest][1] == family:
            own.add(origin.name)
    return own


def _name(module: Any) -> str:
    return str(module.__name__).rpartition(".")[2]


def _shapes_of(family: str, form: str) -> list[tuple[int, ...]]:
    if form == "fused_recurrent":
        return RECURRENT
    if family in WITH_ROW_DECAYS:
        return GATED_CHUNK
    return CHUNK


def _too_far(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    far = []
    for check in checks:
        limit = TOLERANCE[check["dtype"]]
        if not all(error <= limit for error in check["errors"].values()):
            far.append(check)
    return far


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_computes_what_its_papers_define(family: str) -> None:
    """Output, final state and gradients agree with the recurrence for every shape, dtype,
    configuration and batch of sequences; arguments that do not fit are refused."""
    checks: dict[str, list[dict[str, Any]]] = {}
    for outcome in run_checks(family):
        checks.setdefault(outcome["check"], []).append(outcome)
    refused = {each["form"] for each in checks.pop("refused")}
    forms = {form for name, form in FORMS if name == family}
    assert refused == forms
    for each in checks.values():
        assert _too_far(each) == []
    expected_shapes = {(f, *s, d) for f in forms for s in _shapes_of(family, f) for d in TOLERANCE}
    assert {(c["form"], *c["shape"], c["dtype"]) for c in checks["shape"]} == expected_shapes
    outputs = {"o"} if family in STATELESS else {"o", "ht"}
    assert all(outputs < set(each["errors"]) for each in checks["shape"])
    for form in forms:
        with_state = [each for each in checks["shape"] if each["form"] == form]
        assert any("dh0" in each["errors"] for each in with_state) == (family not in STATELESS)
    variable = {(each["form"], each["dtype"]) for each in checks.get("variable", ())}
    assert variable in (set(), {(form, dtype) for form in forms for dtype in TOLERANCE})
    assert {each["kernel"] for each in checks.get("configuration", ())} == _own_kernels(family)
    # Equal keys without decay do not break the triangular inverse.
    assert len(checks.get("alike", ())) == family.endswith("delta_rule")


def _multiply_bf16_values() -> None:
    """Make `tl.dot` multiply bf16 values: the interpreter keeps them as 16-bit patterns."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    dot = InterpreterBuilder.create_dot

    def values(operand: Any) -> Any:
        if operand.dtype.scalar != tl.bfloat16:
            return operand
        return TensorHandle((operand.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    InterpreterBuilder.create_dot = lambda self, a, b, *rest: dot(self, values(a), values(b), *rest)


def _round_to_nearest_bf16() -> None:
    """Make the interpreter round fp32 to bf16 as a GPU does, to nearest even: it truncates, which doubles the error."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    cast = InterpreterBuilder.cast_impl

    def cast_to_nearest(self: Any, source: Any, target: Any) -> Any:
        if (source.dtype.scalar, target.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, source, target)
        bits = np.ascontiguousarray(source.data).view(np.uint32)
        nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        # A NaN's carry would run into its sign.
        patterns = np.where(np.isnan(source.data), 0x7FC0, nearest).astype(np.uint16)
        return TensorHandle(patterns, target.scalar)

    InterpreterBuilder.cast_impl = cast_to_nearest


def _do_without_a_driver() -> None:
    """Supply a benchmark function: Triton 3.3 reads the GPU driver's when it imports an autotuned kernel."""
    from triton.runtime import driver

    driver.set_active(SimpleNamespace(get_benchmarker=lambda: None))


def _compare(module: Any, form: str, arguments: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    right, cotangents = numerics.compute_reference(module, arguments, seed)
    ours = numerics.compute(module, form, arguments, cotangents)
    return {"form": form, "errors": numerics.relative_errors(ours, right)}


def _shapes(module: Any) -> Iterator[dict[str, Any]]:
    import torch

    for form in numerics.forms_of(module):
        for i, shape in enumerate(_shapes_of(_name(module), form)):
            for dtype in TOLERANCE:
                arguments = numerics.draw(module, shape, getattr(torch, dtype), "cpu", i)
                if i % 2 and "h0" in arguments:
                    arguments["h0"] = None
                outcome = _compare(module, form, arguments, i)
                yield {"check": "shape", "shape": shape, "dtype": dtype, **outcome}


def _variable(module: Any) -> Iterator[dict[str, Any]]:
    import torch

    if not numerics.accepts_variable_lengths(module):
        return
    for form in numerics.forms_of(module):
        bounds = VARIABLE[form]
        for dtype in TOLERANCE:
            shape = (1, bounds[-1], 1, 64, 32)
            arguments = numerics.draw(module, shape, getattr(torch, dtype), "cpu", 1, bounds)
            yield {"check": "variable", "dtype": dtype, **_compare(module, form, arguments)}


def _configurations(module: Any) -> Iterator[dict[str, Any]]:
    import torch

    width = 64 if _name(module) in WITH_ROW_DECAYS else 128
    for kernel in sorted(_own_kernels(_name(module))):
        form = module.KERNELS[kernel]["form"]
        tokens = 70
        if form == "fused_recurrent":
            tokens = 5
        elif _name(module) in WITH_ROW_DECAYS:
            tokens = 20
        arguments = numerics.draw(module, (1, tokens, 1, width, 64), torch.float32, "cpu", 0)
        autotuner = getattr(module, kernel)
        preset = autotuner.configs
        for config in {str(c.kwargs): c for c in autotuner.all}.values():
            autotuner.configs = [config]
            outcome = _compare(module, form, arguments)
            yield {"check": "configuration", "kernel": kernel, "dtype": "float32", **outcome}
        autotuner.configs = preset


def _alike(module: Any) -> Iterator[dict[str, Any]]:
    import torch

    if "beta" not in inspect.signature(module.reference).parameters:
        return
    arguments = numerics.draw(module, (1, 100, 1, 64, 64), torch.float32, "cpu", 0)
    arguments["k"] = arguments["k"][:, :1].expand_as(arguments["k"]).contiguous()
    arguments["beta"] = torch.ones_like(arguments["beta"])
    if "g" in arguments:
        arguments["g"] = torch.zeros_like(arguments["g"])
    yield {"check": "alike", "dtype": "float32", **_compare(module, "chunk", arguments)}


def _refusals(module: Any) -> Iterator[dict[str, Any]]:
    import torch

    arguments = numerics.draw(module, (1, 3, 1, 64, 64), torch.float32, "cpu", 0)
    for form in numerics.forms_of(module):
        try:
            _, second, *_ = arguments
            getattr(module, form)(**{**arguments, second: arguments[second][:, :2]})
        except ValueError:
            yield {"check": "refused", "form": form}


def _main(folder: Path, family: str) -> None:
    import torch

    torch.set_num_threads(1)
    _do_without_a_driver()
    _multiply_bf16_values()
    _round_to_nearest_bf16()
    module = numerics.load_family(folder, family)
    for autotuner in numerics.loaded_autotuners():
        # Timing a choice needs a GPU; with one configuration there is none to time. The largest
        # tile is quickest.
        autotuner.all = autotuner.configs
        autotuner.configs = [max(autotuner.all, key=lambda c: c.kwargs.get("BV", 0))]
    for check in (_shapes, _variable, _configurations, _alike, _refusals):
        for outcome in check(module):
            print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
