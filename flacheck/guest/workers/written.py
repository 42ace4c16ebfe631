"""Values as Python text that means the same under every release: literals, and paths into triton."""

from __future__ import annotations

import math
import types

_DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_PREFIXES = (("triton.language", "tl"),)


class Unwritten(Exception):
    """A value that no text stands for."""


def literal(value) -> str:
    """A literal, `tl.constexpr(…)` of one, or a dtype of the language; an enumeration's number or
    text is one.
    """
    if value is None or isinstance(value, bool):
        return repr(value)
    for plain in (int, str):
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if math.isfinite(value) else f'float("{value}")'
    if type(value) in (tuple, list):
        items = ", ".join(map(literal, value))
        return (
            f"({items}{',' if len(value) == 1 else ''})"
            if isinstance(value, tuple)
            else f"[{items}]"
        )
    kind = type(value)
    if kind.__name__ == "constexpr":
        return f"tl.constexpr({literal(value.value)})"
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return "tl." + _DTYPES.get(str(value), str(value))
    raise Unwritten(f"a value of {kind.__module__}.{kind.__qualname__} cannot be written down")


def path_of(value) -> tuple[str, str | None]:
    """Where triton has it, and the module to import first, if `import triton.language` does not
    bring it.
    """
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "triton":
        return _short(value.__name__), _import(value.__name__)
    function = getattr(value, "fn", value)
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if not name or not str(module).startswith("triton"):
        raise Unwritten(
            f"{name or type(value).__name__} of {module} is no part of triton and cannot be cut out"
        )
    return _found(value, name) or (f"{_short(module)}.{name}", _import(module))


def _found(value, name: str) -> tuple[str, None] | None:
    """The shortest public path to it."""
    import triton
    import triton.language as tl

    for place, prefix in ((tl, "tl"), (tl.math, "tl.math"), (triton, "triton")):
        if getattr(place, name, None) is value:
            return f"{prefix}.{name}", None
    return None


def _short(module: str) -> str:
    for long, short in _PREFIXES:
        if module == long or module.startswith(long + "."):
            return short + module[len(long) :]
    return module


def _import(module: str) -> str | None:
    return module if module.count(".") > 1 and module not in ("triton.language.math",) else None
