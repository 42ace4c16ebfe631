"""Errors of the corpus's operators against the recurrences of their papers, with gradients.

Runs under Triton's interpreter (`tests/kernels/test_numerics.py`) and on a GPU
(`tests/gpu/check_numerics.py`), without an import of flacheck.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from pathlib import Path
from typing import Any

PACKAGE = "corpus_under_test"


def load_family(folder: Path, name: str) -> Any:
    """Return a family's file as a module; it imports shared files from the same folder."""
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.{name}")


def family_names(folder: Path) -> list[str]:
    """Return the names of the files that declare a family."""
    return sorted(file.stem for file in folder.glob("[!_]*.py"))


def loaded_autotuners() -> list[Any]:
    """Return the autotuned kernels of the families and shared files that are loaded."""
    from triton.runtime.autotuner import Autotuner

    autotuners = {}
    for name, module in sys.modules.items():
        if name.startswith(f"{PACKAGE}."):
            for value in vars(module).values():
                if isinstance(value, Autotuner):
                    autotuners[id(value)] = value
    return list(autotuners.values())


def forms_of(module: Any) -> list[str]:
    """Return the forms in which a family computes."""
    return sorted({entry["form"] for entry in module.KERNELS.values()})


def accepts_variable_lengths(module: Any) -> bool:
    """Return True if a family's operators have an argument `cu_seqlens`."""
    return "cu_seqlens" in inspect.signature(module.reference).parameters


def draw(
    module: Any, shape: tuple[int, ...], dtype: Any, device: str, seed: int, bounds: Any = None
) -> dict[str, Any]:
    """Return random arguments; `bounds` of sequences in a batch of one make the lengths vary."""
    import torch

    arguments: dict[str, Any] = module.inputs(*shape, dtype=dtype, device=device, seed=seed)
    if bounds:
        h0 = arguments["h0"]
        arguments["h0"] = torch.randn(len(bounds) - 1, *h0.shape[1:], device=device)
        arguments["cu_seqlens"] = torch.tensor(bounds, device=device)
    return arguments


def compute_reference(
    module: Any, arguments: dict[str, Any], seed: int = 0
) -> tuple[dict[str, Any], list[Any]]:
    """Return the recurrence's results by name, and the cotangents of its output and final state.

    A cotangent is the output itself plus noise: sums over all tokens then do not cancel by chance.
    `dg terms`: the parts of a head's constant decay's gradient that come from each token.
    """
    import torch

    with torch.no_grad():
        outputs = module.reference(**arguments)
    # The first argument: the queries, or the input of a family without queries.
    first = next(iter(arguments.values()))
    generator = torch.Generator(first.device).manual_seed(seed)
    cotangents = []
    dtypes = (first.dtype, torch.float32)
    for output, dtype in zip(outputs, dtypes, strict=False):
        noise = torch.randn(output.shape, generator=generator, device=output.device)
        normal = output / output.square().mean().sqrt().clamp_min(1e-30)
        cotangents.append((normal + noise).to(dtype))
    right = compute(module, "reference", arguments, cotangents)
    gate = arguments.get("g")
    if gate is not None and gate.dim() == 1:
        of_tokens = {**arguments, "g": gate.expand(first.shape[:3])}
        right["dg terms"] = compute(module, "reference", of_tokens, cotangents)["dg"]
    return right, cotangents


def compute(
    module: Any, form: str, arguments: dict[str, Any], cotangents: list[Any]
) -> dict[str, Any]:
    """Return output, final state and the gradient of each floating-point tensor, by name."""
    import torch

    leaves = {}
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            leaves[name] = value.detach().clone().requires_grad_()
    outputs = getattr(module, form)(**{**arguments, **leaves})
    gradients = {}
    for name, output in zip(("o", "ht"), outputs, strict=False):
        gradients[name] = output.detach()
    pairs = zip(outputs, cotangents, strict=True)
    torch.autograd.backward(outputs, [cotangent.to(output.dtype) for output, cotangent in pairs])
    for name, leaf in leaves.items():
        gradients[f"d{name}"] = leaf.grad
    return gradients


def relative_errors(ours: dict[str, Any], right: dict[str, Any]) -> dict[str, float]:
    """Return ||ours - right|| / ||right|| of each result.

    A sum over all tokens may cancel to almost nothing, and rounding errors do not shrink with it.
    Its size is at least the norm of its terms.
    """
    errors = {}
    for name in ours:
        value = right[name]
        size = max(value.double().norm().item(), 1e-30)
        if f"{name} terms" in right:
            size = max(size, right[f"{name} terms"].double().norm().item())
        errors[name] = (ours[name].double() - value.double()).norm().item() / size
    return errors
