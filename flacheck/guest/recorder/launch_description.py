"""A launch as JSON: its kernel, arguments, configurations, and its tensors' layout in memory.

The layout suffices to make similar tensors. The contents of tensors are left out, because a launch
is timed with random contents. Only the values of small integer tensors are kept, because kernels
index with them. `functions` are always the jit functions that the launch passes, with their names
in the kernel's module.
"""

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

from ..engine.messages import Json, Kernel
from ..workers.values import TORCH_NAMES

Functions = dict[Kernel, str]

_DTYPES = {torch_name: name for name, torch_name in TORCH_NAMES.items()}
# Triton specialises pointers by divisibility by 16 only.
ALIGNMENT = 16
# Fields of tensor descriptors that later releases added; written if they are in use.
DESCRIPTOR_EXTRAS = ("padding", "round_f32_to_tf32")
# The maximum number of values: enough for offsets of sequences. More would make a line of the
# launches file long.
_VALUES_UP_TO = 4096
# By the storage's identity: its index among the launch's storages, and its size in bytes.
_Storages = dict[int, tuple[int, int]]
# A distribution and the text that lists its files.
_Listing = tuple[Distribution, str]


def argument(value: Any, functions: Functions) -> Any:
    """Return the description of an argument.

    It is `{"dtype", "align"}`, `{"int"}`, `{"float"}`, `{"bool"}`, `{"tuple"}`, `{"constexpr"}` or
    None. Any other value is `{"unknown": its type}`, from which no launch is built.
    """
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


def _tensor(tensor: Any) -> Json:
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in _DTYPES:
        return {"unknown": f"tensor of {dtype}"}
    # The largest power of two up to 16 that divides the address.
    alignment = math.gcd(tensor.data_ptr(), ALIGNMENT)
    return {"dtype": _DTYPES[dtype], "align": alignment}


def _descriptor(descriptor: Any) -> Json:
    fields = {
        **_tensor(descriptor.base),
        "shape": [int(extent) for extent in descriptor.shape],
        "strides": [int(stride) for stride in descriptor.strides],
        "block": [int(extent) for extent in descriptor.block_shape],
    }
    for name in DESCRIPTOR_EXTRAS:
        value = getattr(descriptor, name, None)
        if value not in (None, False, "zero"):
            fields[name] = value
    if "unknown" in fields:
        return fields
    return {"descriptor": fields}


def constant(value: Any, functions: Functions) -> Any:
    """Return the description of a constant.

    It is a literal, or `{"dtype"}` of the language, `{"tuple"}`, `{"function"}`, `{"float"}` for
    numbers that JSON lacks, or `{"unknown"}`.
    """
    if value is None or isinstance(value, bool):
        return value
    # A member of an enumeration is described by its number or text.
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
        # The language's name for the element of a pointer to booleans.
        name = str(value)
        if name == "int1":
            name = "i1"
        return {"dtype": name}
    if isinstance(value, (tuple, list)):
        return {"tuple": [constant(item, functions) for item in value]}
    if kind.__name__ == "JITFunction":
        return {"function": functions.get(value, value.fn.__name__)}
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return _constant_number(float(value))
    return {"unknown": f"{kind.__module__}.{kind.__qualname__}"}


def is_unknown(description: Any) -> bool:
    """Return True for the description of a constant whose value is unknown."""
    return isinstance(description, dict) and "unknown" in description


def _number(value: float) -> float | str:
    """Return the number, or its text for infinity and NaN, which JSON lacks."""
    if math.isfinite(value):
        return value
    return str(value)


def _constant_number(value: float) -> Any:
    """Return the number, marked as such if it has to be written as text."""
    if math.isfinite(value):
        return value
    return {"float": str(value)}


def configuration(config: Any, functions: Functions) -> Json:
    """Return `kwargs`, num_warps, num_stages, and the options that differ from defaults.

    An option that an absent package would compute is left out: the compiler's default remains.
    """
    kwargs = {}
    for name, value in config.kwargs.items():
        kwargs[name] = constant(value, functions)
    entry: Json = {"kwargs": kwargs}
    kind: Any = type(config)
    usual = _defaults(kind)
    for name, value in config.all_kwargs().items():
        if name in kwargs:
            continue
        is_usual = name in usual and value == usual[name]
        if name in ("num_warps", "num_stages") or not (value is None or is_usual):
            description = constant(value, functions)
            if not is_unknown(description):
                entry[name] = description
    return entry


@functools.cache
def _defaults(kind: Any) -> Json:
    """Return the default options of a class of configurations and of its base classes."""
    defaults = {}
    for base in reversed(kind.__mro__):
        for name, parameter in inspect.signature(base.__init__).parameters.items():
            defaults[name] = parameter.default
    return defaults


def memory_layout(arguments: Mapping[str, Any]) -> Json:
    """Return the layout of a launch's tensors in memory.

    `storages` lists the bytes of each. `tensors` gives by argument the index of its storage, its
    shape, strides and offset in elements, and the available `values` of integers in the order of
    its indices. An item of a tuple is called `name[0]`; a tensor descriptor's tensor has the
    argument's name. Values that are not torch tensors, or that lie in no memory, are left out.
    """
    storages: _Storages = {}
    tensors = {}
    for name, value in arguments.items():
        for path, tensor in _tensors(name, value):
            try:
                tensors[path] = _in_storage(tensor, storages)
            except (AttributeError, RuntimeError):  # another library's tensor, or a sparse one
                continue
    sizes = [size for _, size in storages.values()]
    return {"storages": sizes, "tensors": tensors}


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}[{index}]", item)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        yield path, value.base
    elif hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        yield path, value


def _in_storage(tensor: Any, storages: _Storages) -> Json:
    storage = tensor.untyped_storage()
    new_entry = len(storages), storage.nbytes()
    index, _ = storages.setdefault(storage._cdata, new_entry)
    entry: Json = {
        "storage": index,
        "shape": [int(extent) for extent in tensor.shape],
        "strides": [int(stride) for stride in tensor.stride()],
        "offset": int(tensor.storage_offset()),
    }
    whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
    if whole and tensor.numel() <= _VALUES_UP_TO:
        # Only now, because the module needs torch.
        from ..fake_cuda import known_values

        values = known_values.read(tensor)
        if values is not None:
            entry["values"] = values
    return entry


def program() -> str:
    """Return the name under which the main module would be imported."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return pathlib.Path(getattr(main, "__file__", None) or "__main__").stem


class Identities:
    """Identities of kernels and files.

    `packages` maps the folders of recorded packages to their `name==version`.
    """

    def __init__(self, packages: Mapping[str, str]) -> None:
        self._packages: dict[str, str] = {}
        for folder, package in packages.items():
            self._packages[os.path.realpath(folder)] = package
        # By folder: the distributions installed in it, each with the list of its files.
        self._distributions: dict[str, list[_Listing]] = {}
        self._by_module: dict[str, str | None] = {}

    def of(self, function: FunctionType) -> tuple[str, str | None]:
        """Return `module:qualname` and the package's `name==version`, None for the program."""
        module = function.__module__
        if module == "__main__":
            module = program()
        if module not in self._by_module:
            file = function.__code__.co_filename
            if not os.path.isfile(file):
                # The module executes text of its own, under a name that is no file's.
                file = function.__globals__.get("__file__") or file
            self._by_module[module] = self.package_of(file)
        name = f"{module}:{function.__qualname__.replace('.<locals>', '')}"
        return name, self._by_module[module]

    def package_of(self, file: str) -> str | None:
        """Return the `name==version` of the package of a file, None for the program's own."""
        package, _ = self.find_installed(file) or (None, None)
        return package

    def find_installed(self, file: str) -> tuple[str, str] | None:
        """Return the package of a file and the folder in which it is installed."""
        file = os.path.realpath(file)
        for folder in _above(file):
            package = self._packages.get(folder)
            if not package:
                path = os.path.relpath(file, folder)
                package = self._owner(folder, path)
            if package:
                return package, folder
        return None

    def is_recorded_package(self, file: str) -> bool:
        """Return True if a file is part of a recorded package."""
        path = os.path.realpath(file)
        return any(folder in self._packages for folder in _above(path))

    def _owner(self, folder: str, path: str) -> str | None:
        """Return the package installed in a folder whose list of files has this path."""
        if folder not in self._distributions:
            self._distributions[folder] = []
            for distribution in _all(folder):
                files = distribution.read_text("RECORD") or ""
                self._distributions[folder].append((distribution, files))
        for distribution, files in self._distributions[folder]:
            if f"\n{path}," in f"\n{files}":
                return f"{distribution.metadata['Name']}=={distribution.version}"
        return None


def _above(file: str) -> Iterator[str]:
    folder = os.path.dirname(file)
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)


def _all(folder: str) -> Iterable[Distribution]:
    """Return the distributions of a folder; most folders above a file have none."""
    try:
        names = os.listdir(folder)
    except OSError:
        # A folder above those that the process may read.
        return ()
    if any(name.endswith(".dist-info") for name in names):
        return distributions(path=[folder])
    return ()
