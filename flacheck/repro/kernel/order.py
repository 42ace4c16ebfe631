"""The total order on specimens: what a maintainer would rather read comes first."""

from __future__ import annotations

import ast
from functools import lru_cache
from math import log2

from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import called, statements

CONTROL, HELPER, ODD_ACCESS, LINE, PARAMETER, CONSTANT, NODE = 400, 300, 80, 40, 25, 30, 2
USUAL_OPTIONS = {"num_warps": 4}
OPTION, ALIGNMENT, DTYPE = 60, 4, 6
# fp16 is what most of Triton's own tests use.
DTYPES = ("fp32", "fp16", "bf16")

Cost = tuple[int, str]


@lru_cache(maxsize=256)
def cost(specimen: Specimen) -> Cost:
    """Smaller is better; ties are decided by the text, so that no two specimens are equal."""
    function = specimen.function
    helpers = sum(isinstance(s, ast.FunctionDef) for s in specimen.tree.body) - 1
    control = sum(isinstance(s, (ast.For, ast.While, ast.If)) for s in statements(function.body))
    weight = (
        CONTROL * control
        + HELPER * helpers
        + LINE * sum(1 for _ in statements(function.body))
        + NODE * specimen.nodes
        + sum(map(_node, ast.walk(function)))
        + sum(map(_argument, specimen.args.values()))
        + sum(_option(name, value) for name, value in specimen.options.items())
        + OPTION * len(specimen.omitted)
    )
    return round(weight), specimen.key


def _node(node: ast.AST) -> float:
    """Block pointers, masks and large numbers are more to read than their nodes say."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        return _magnitude(node.value)
    if called(node) in ("tl.make_block_ptr", "tl.advance", "tl.make_tensor_descriptor"):
        return ODD_ACCESS
    if isinstance(node, ast.keyword) and node.arg in ("mask", "boundary_check", "other"):
        return ODD_ACCESS / 2
    return 0


def _magnitude(value: float) -> float:
    """Large numbers are more to read; 1 for what is no finite number."""
    return log2(abs(value) + 1) if abs(value) < float("inf") else 1.0


def _argument(spec: object) -> float:
    if not isinstance(spec, dict):
        return PARAMETER
    if "constexpr" in spec:
        value = spec["constexpr"]
        size = _magnitude(value) if isinstance(value, (int, float)) else 1
        return PARAMETER + CONSTANT + size
    if "dtype" in spec:
        rank = DTYPES.index(spec["dtype"]) if spec["dtype"] in DTYPES else len(DTYPES)
        # Unaligned is simpler: the compiler is told nothing of the pointer.
        return PARAMETER + DTYPE * rank + (0 if spec.get("align", 16) % 16 else ALIGNMENT)
    return PARAMETER + _magnitude(float(spec.get("int", 0)))


def _option(name: str, value: object) -> float:
    size = abs(value - USUAL_OPTIONS.get(name, 1)) if isinstance(value, (int, float)) else 1
    return OPTION + size
