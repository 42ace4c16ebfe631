"""The sizes that a package itself names: in its tests and in its configuration classes."""

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from ..inference.operators import parameters_of
from ..pysource.functions import file_tree, last_name, walk

_TESTS = "the package's tests"
# Folders of tests and of what else calls the package as its users do.
_FOLDERS = ("tests", "test", "benchmarks", "benchmark", "examples")
# Names in tests and configuration classes for the sizes of heads and of the model.
_SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "K": ("K", "head_dim", "head_size", "qk_head_dim", "headdim", "head_k_dim"),
    "V": ("V", "v_head_dim", "value_head_dim", "head_v_dim"),
    "D": ("hidden_size", "d_model", "n_embd"),
}
_HEADS = ("num_heads", "num_attention_heads", "n_head", "n_heads")
_MAX_HEAD_SIZE = 1024
# Files of one folder of tests.
_MAX_FILES = 200

# A source, and sizes by their symbol.
Row = dict[str, Any]


def package_sizes(modules: Iterable[ModuleType], checkout: str | None) -> list[Row]:
    """Return the sizes in the tests of a checkout, then those of configuration classes."""
    rows = list(_test_sizes(checkout)) if checkout else []
    for module in modules:
        for name, value in list(vars(module).items()):
            is_own = isinstance(value, type) and value.__module__ == module.__name__
            if is_own and name.endswith("Config"):
                sizes = _sizes({each.name: each.default for each in parameters_of(value)})
                if "K" in sizes:
                    rows.append({"name": f"the package's {name}", "sizes": sizes})
    return rows


def _sizes(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes among named values; without a head size, the model's size by its heads."""
    sizes: dict[str, int] = {}
    for symbol, names in _SYMBOLS.items():
        for name in names:
            if type(values.get(name)) is int:
                sizes.setdefault(symbol, values[name])
    for name in _HEADS:
        heads = values.get(name)
        if type(heads) is int and heads > 0 and "D" in sizes and "K" not in sizes:
            sizes["K"] = int(sizes["D"] * _ratio(values, "expand_k")) // heads
            sizes["V"] = int(sizes["D"] * _ratio(values, "expand_v")) // heads
    if "H" in values and type(values.get("D")) is int:
        # Beside a number of heads, `D` is the size of one.
        sizes.setdefault("K", values["D"])
    if not 0 < sizes.get("K", 0) <= _MAX_HEAD_SIZE:
        return {}
    sizes.setdefault("V", sizes["K"])
    return sizes


def _ratio(values: Mapping[str, Any], name: str) -> float:
    ratio = values.get(name)
    return float(ratio) if isinstance(ratio, (int, float)) else 1.0


def _test_sizes(checkout: str) -> Iterator[Row]:
    """Yield the sizes of parametrized tests."""
    files: list[str] = []
    for folder in _FOLDERS:
        for parent, _, names in os.walk(os.path.join(checkout, folder)):
            files += [os.path.join(parent, name) for name in names if name.endswith(".py")]
    for path in sorted(files)[:_MAX_FILES]:
        tree = file_tree(path)
        for node in walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and last_name(node.func) == "parametrize":
                for case in _cases(node):
                    sizes = _sizes(case)
                    if "K" in sizes:
                        yield {"name": _TESTS, "sizes": sizes}


def _cases(call: ast.Call) -> Iterator[dict[str, Any]]:
    """Yield the cases of `parametrize(("B", "K"), [(2, 64), (4, 128)])`, each by its names."""
    try:
        names = ast.literal_eval(call.args[0])
    except (ValueError, IndexError):
        return
    names = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    for node in walk(call):
        try:
            values = ast.literal_eval(node) if isinstance(node, ast.Tuple) else None
        except ValueError:
            # A case may contain a dtype: `(2, 64, torch.float16)`.
            values = [getattr(each, "value", None) for each in getattr(node, "elts", ())]
        if values is not None and len(values) == len(names):
            yield dict(zip(names, values))
