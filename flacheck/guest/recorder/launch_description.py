"""A launch as JSON: whose kernel it is, its arguments and configurations, and where its tensors lie
in memory, so that others like them can be made. What is in them is left out, for their contents are
random where a launch is timed; only the values of small integers, which kernels index with, are
kept. `functions` throughout are the jit functions that the launch hands over, with their names in
the kernel's module."""

from __future__ import annotations

import functools
import inspect
import math
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from types import FunctionType
from typing import Any

from ..engine.messages import Kernel
from ..workers.values import TORCH_NAMES

Functions = dict[Kernel, str]

_DTYPES = {torch_name: name for name, torch_name in TORCH_NAMES.items()}
# Triton specialises pointers by whether 16 divides them, and asks nothing beyond.
ALIGNMENT = 16
# What later releases added to tensor descriptors stands there when it is used.
DESCRIPTOR_EXTRAS = ("padding", "round_f32_to_tf32")
# Offsets of sequences and the like; more would make a line of the launches file long.
_VALUES_UP_TO = 4096
# By the storage's identity: its index among those of the launch, and its size in bytes.
_Storages = dict[int, tuple[int, int]]


def argument(value: Any, functions: Functions) -> Any:
    """One argument: `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"bool"}`, `{"tuple"}`,
    `{"constexpr"}` or None. Any other is `{"unknown": its type}`: no launch is built with it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if type(value).__name__ == "constexpr":
        return {"constexpr": constant(value.value, functions)}
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _tensor(value)
    if isinstance(value, (tuple, list)):
        return {"tuple": [argument(item, functions) for item in value]}
    if hasattr(value, "base") and hasattr(value, "block_shape"):
        return _descriptor(value)
    if hasattr(value, "__index__"):
        return {"int": value.__index__()}
    if hasattr(value, "__float__"):
        return {"float": _number(float(value))}
    other = constant(value, functions)
    if isinstance(other, dict) and "unknown" in other:
        return other
    return {"constexpr": other}


def _tensor(tensor: Any) -> dict[str, Any]:
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in _DTYPES:
        return {"unknown": f"tensor of {dtype}"}
    # The largest power of two up to 16 that divides the address.
    return {"dtype": _DTYPES[dtype], "align": math.gcd(tensor.data_ptr(), ALIGNMENT)}


def _descriptor(descriptor: Any) -> dict[str, Any]:
    described = {
        **_tensor(descriptor.base),
        "shape": [int(extent) for extent in descriptor.shape],
        "strides": [int(stride) for stride in descriptor.strides],
        "block": [int(extent) for extent in descriptor.block_shape],
    }
    for name in DESCRIPTOR_EXTRAS:
        value = getattr(descriptor, name, None)
        if value not in (None, False, "zero"):
            described[name] = value
    if "unknown" in described:
        return described
    return {"descriptor": described}


def constant(value: Any, functions: Functions) -> Any:
    """A literal, or `{"dtype"}` of the language, `{"tuple"}`, `{"function"}`, `{"float"}` for what
    JSON has no number for, `{"unknown"}`."""
    if value is None or isinstance(value, bool):
        return value
    # An enumeration's member is its number or text.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _constant_number(float(value))
    kind = type(value)
    if kind.__name__ == "constexpr":
        return constant(value.value, functions)
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        # The language's name for what a pointer to booleans points to.
        return {"dtype": "i1" if str(value) == "int1" else str(value)}
    if isinstance(value, (tuple, list)):
        return {"tuple": [constant(item, functions) for item in value]}
    if kind.__name__ == "JITFunction":
        return {"function": functions.get(value, value.fn.__name__)}
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return _constant_number(float(value))
    return {"unknown": f"{kind.__module__}.{kind.__qualname__}"}


def _number(value: float) -> float | str:
    """The number, or its word: JSON has no infinity and no NaN."""
    if math.isfinite(value):
        return value
    return str(value)


def _constant_number(value: float) -> Any:
    """Where a text may stand as well, a word says that it is a number."""
    if math.isfinite(value):
        return value
    return {"float": str(value)}


def configuration(config: Any, functions: Functions) -> dict[str, Any]:
    """`kwargs`, num_warps, num_stages, and the options that are not at their defaults."""
    kwargs = {name: constant(value, functions) for name, value in config.kwargs.items()}
    entry: dict[str, Any] = {"kwargs": kwargs}
    kind: Any = type(config)
    usual = _defaults(kind)
    for name, value in config.all_kwargs().items():
        if name in kwargs:
            continue
        is_usual = name in usual and value == usual[name]
        if name in ("num_warps", "num_stages") or not (value is None or is_usual):
            entry[name] = constant(value, functions)
    return entry


@functools.cache
def _defaults(kind: Any) -> dict[str, Any]:
    """What a kind of configuration takes where nothing is said."""
    parameters = inspect.signature(kind.__init__).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def memory_layout(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`storages`, each one's bytes, and `tensors` by argument: the index of its storage among
    those, its shape, strides and offset in elements, and the known `values` of integers in the
    order of its indices. An item of a tuple is called `name[0]`; a tensor descriptor's tensor has
    the argument's name. What is no tensor of torch's, or lies in no memory, is left out."""
    storages: _Storages = {}
    tensors = {}
    for name, value in arguments.items():
        for path, tensor in _tensors(name, value):
            try:
                tensors[path] = _in_storage(tensor, storages)
            except (AttributeError, RuntimeError):  # another library's tensor, or a sparse one
                continue
    return {"storages": [size for _, size in storages.values()], "tensors": tensors}


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}[{index}]", item)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        yield path, value.base
    elif hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        yield path, value


def _in_storage(tensor: Any, storages: _Storages) -> dict[str, Any]:
    storage = tensor.untyped_storage()
    index, _ = storages.setdefault(storage._cdata, (len(storages), storage.nbytes()))
    entry: dict[str, Any] = {
        "storage": index,
        "shape": [int(extent) for extent in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()],
        "offset": int(tensor.storage_offset()),
    }
    whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    if whole and tensor.numel() <= _VALUES_UP_TO:
        # Only now: the module needs torch.
        from ..fake_cuda import known_values

        values = known_values.read(tensor)
        if values is not None:
            entry["values"] = values
    return entry


def program() -> str:
    """What the main module would be imported as."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return pathlib.Path(getattr(main, "__file__", None) or "__main__").stem


class Identities:
    """`packages` maps folders to the packages that were put there, each as `name==version`."""

    def __init__(self, packages: Mapping[str, str]) -> None:
        self._packages = {os.path.realpath(folder): package for folder, package in packages.items()}
        # By folder: what is installed there, each with the text that lists its files.
        self._installed: dict[str, list[tuple[Distribution, str]]] = {}
        self._by_module: dict[str, str | None] = {}

    def of(self, function: FunctionType) -> tuple[str, str | None]:
        """`module:qualname`, and `name==version` of the package, None for a program's own."""
        module = function.__module__
        if module == "__main__":
            module = program()
        if module not in self._by_module:
            self._by_module[module] = self.package_of(function.__code__.co_filename)
        name = f"{module}:{function.__qualname__.replace('.<locals>', '')}"
        return name, self._by_module[module]

    def package_of(self, file: str) -> str | None:
        """`name==version` of the package that a file belongs to, None for a program's own."""
        package, _ = self.find_installed(file) or (None, None)
        return package

    def find_installed(self, file: str) -> tuple[str, str] | None:
        """The package that a file belongs to, and the folder that it is installed in."""
        file = os.path.realpath(file)
        for folder in _above(file):
            package = self._packages.get(folder)
            package = package or self._owner(folder, os.path.relpath(file, folder))
            if package:
                return package, folder
        return None

    def is_recorded_package(self, file: str) -> bool:
        """Whether a file is one of the packages that were put there to be recorded."""
        return any(folder in self._packages for folder in _above(os.path.realpath(file)))

    def _owner(self, folder: str, path: str) -> str | None:
        """The package installed in a folder whose list of files has this one."""
        if folder not in self._installed:
            self._installed[folder] = [(d, d.read_text("RECORD") or "") for d in _all(folder)]
        for distribution, files in self._installed[folder]:
            if f"\n{path}," in f"\n{files}":
                return f"{distribution.metadata['Name']}=={distribution.version}"
        return None


def _above(file: str) -> Iterator[str]:
    folder = os.path.dirname(file)
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)


def _all(folder: str) -> Iterable[Distribution]:
    """The distributions of a folder; most folders above a file have none, which is seen at once."""
    if any(name.endswith(".dist-info") for name in os.listdir(folder)):
        return distributions(path=[folder])
    return ()
