"""Values as Python text that means the same under every release: literals and paths into triton."""

from __future__ import annotations

import math
import types
from typing import Any

from .values import LANGUAGE_NAMES


class Unwritten(Exception):
    """A value that no text stands for."""


def literal(value: Any) -> str:
    """A literal, `tl.constexpr(…)` of one, or a dtype of the language. Raises Unwritten."""
    if value is None or isinstance(value, bool):
        return repr(value)
    # The class's own text: that of an enumeration is no literal.
    for plain in (int, str):
        if isinstance(value, plain):
            return plain.__repr__(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float.__repr__(value)
        return f'float("{value}")'
    if type(value) is list:
        return "[" + ", ".join(map(literal, value)) + "]"
    if type(value) is tuple:
        if len(value) == 1:
            return f"({literal(value[0])},)"
        return "(" + ", ".join(map(literal, value)) + ")"
    kind = type(value)
    if kind.__name__ == "constexpr":
        return f"tl.constexpr({literal(value.value)})"
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return "tl." + LANGUAGE_NAMES.get(str(value), str(value))
    raise Unwritten(f"a value of {kind.__module__}.{kind.__qualname__} cannot be written down")


def path_of(value: Any) -> tuple[str, str | None]:
    """Where triton has it, and the module to import first where `triton.language` lacks it."""
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "triton":
        return _short(value.__name__), _import(value.__name__)
    function = getattr(value, "fn", value)
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if not name or not str(module).startswith("triton"):
        called = name or type(value).__name__
        raise Unwritten(f"{called} of {module} is no part of triton and cannot be cut out")
    return _public(value, name) or (f"{_short(str(module))}.{name}", _import(str(module)))


def _public(value: Any, name: str) -> tuple[str, None] | None:
    """The shortest public path to it: where it is defined moves from release to release."""
    import triton
    import triton.language as tl

    for place, prefix in ((tl, "tl"), (tl.math, "tl.math"), (triton, "triton")):
        if getattr(place, name, None) is value:
            return f"{prefix}.{name}", None
    return None


def _short(module: str) -> str:
    language = "triton.language"
    if module == language or module.startswith(language + "."):
        return "tl" + module[len(language) :]
    return module


def _import(module: str) -> str | None:
    if module.count(".") > 1 and module != "triton.language.math":
        return module
    return None
