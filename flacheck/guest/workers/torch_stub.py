"""A stand-in for torch, so that kernels load without torch.

It has the names that modules read while they are imported: dtypes, base classes, decorators that
return their function, and the capability of the current card. Any other name is a `Placeholder`. A
module's body can call it, subscript it and inherit from it, but not iterate, compare or count it,
so that a package cannot loop on it. `StubError` then names the missing part.
"""

from __future__ import annotations

import importlib.abc
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from ..engine.driver import TargetDriver
from ..engine.messages import CardRow
from .values import DType

# The contents of a module by name.
Names = dict[str, Any]
# The torch release with Triton 3.2. Packages test for features of a release, and this one has those
# that the kernels' modules test for.
VERSION = "2.6.0"
_DTYPES = """
float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool float8_e4m3fn float8_e5m2
complex64
""".split()
_ALIASES = {"half": "float16", "float": "float32", "double": "float64"}
_ALIASES |= {"short": "int16", "int": "int32", "long": "int64"}
_DECORATORS = """
compile no_grad custom_fwd custom_bwd disable enable_grad inference_mode script ignore
""".split()


class StubError(RuntimeError):
    """A use of the stub that it cannot support: a limit of flacheck, not a fault of the kernel."""


class _Type(type):
    """The class of placeholders: they are classes, so that modules can inherit from them."""

    def __getattr__(cls, name: str) -> type:
        # Python looks up special methods on every object and would use a placeholder as one.
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, item: object) -> type:
        return cls

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the function if used as a decorator, else another placeholder."""
        if cls is not Placeholder and not cls.__dict__.get("_stub"):
            return super().__call__(*args, **kwargs)
        if _is_decorating(args, kwargs) and not isinstance(args[0], _Type):
            return args[0]
        return placeholder(cls.__qualname__ + "()")

    def _refuse(cls, *args: object) -> Any:
        raise StubError(f"the stub of torch cannot compute with {cls.__qualname__}")

    __iter__ = __len__ = __bool__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __add__ = __mul__ = __sub__ = __int__ = _refuse


class Placeholder(metaclass=_Type):
    """Any part of torch that only needs a name."""


def placeholder(name: str) -> type:
    """Return a new placeholder with its own name in messages."""
    contents = {"_stub": True, "__qualname__": name, "__module__": "torch"}
    return _Type(name.rpartition(".")[2], (Placeholder,), contents)


def decorator(*args: Any, **kwargs: Any) -> Any:
    """Return the function, or this decorator if called with options."""
    if _is_decorating(args, kwargs):
        return args[0]
    return decorator


def _is_decorating(args: tuple[Any, ...], kwargs: Names) -> bool:
    return len(args) == 1 and not kwargs and callable(args[0])


class Function:
    """torch.autograd.Function, which modules only inherit from."""

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> None:
        raise StubError(f"{cls.__name__}.apply needs a real torch")


class Module:
    """torch.nn.Module, which modules only inherit from."""


class _Stub(types.ModuleType):
    """A module of the stub; unknown names become submodules, decorators or placeholders."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any = decorator
        if name not in _DECORATORS:
            value = placeholder(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder for every import of torch, before any real one."""

    def __init__(self, driver: TargetDriver) -> None:
        self._driver = driver

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] == "torch":
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> _Stub:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        contents = _CONTENTS.get(module.__name__)
        if contents:
            vars(module).update(contents(self._driver))


_Contents = Callable[[TargetDriver], Names]


def _torch(driver: TargetDriver) -> Names:
    contents: Names = {"__version__": VERSION}
    for name in _DTYPES:
        contents[name] = DType(name)
    for alias, name in _ALIASES.items():
        contents[alias] = DType(name)
    contents["dtype"] = DType
    contents["Tensor"] = placeholder("torch.Tensor")
    for name in ("cuda", "nn", "autograd", "amp", "version", "library"):
        contents[name] = importlib.import_module("torch." + name)
    return contents


def _cuda(driver: TargetDriver) -> Names:
    # The card is read at call time: torch may be imported before a card is selected, and the
    # importing module may outlive one.
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: tuple(driver.card["capability"]),
        "get_device_name": lambda *_: driver.card["gpu"],
        "is_bf16_supported": lambda *_, **__: driver.card["bf16"],
        "get_device_properties": lambda *_: _properties(driver.card),
    }


def _properties(card: CardRow) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=card["gpu"],
        major=card["capability"][0],
        minor=card["capability"][1],
        multi_processor_count=card["multiprocessors"],
        total_memory=card["memory_gb"] << 30,
        shared_memory_per_block_optin=card["shared_limit"],
        warp_size=card["warp_size"],
        gcnArchName=str(card["arch"]),
    )


def _version(driver: TargetDriver) -> Names:
    # Programs derive the vendor from these two; the release hardly matters.
    if driver.card.get("backend") == "hip":
        return {"cuda": None, "hip": "6.3"}
    return {"cuda": "12.4", "hip": None}


_CONTENTS: dict[str, _Contents] = {
    "torch": _torch,
    "torch.cuda": _cuda,
    "torch.version": _version,
    "torch.autograd": lambda driver: {"Function": Function},
    "torch.nn": lambda driver: {"Module": Module},
    "torch.autograd.function": lambda driver: {"Function": Function},
}


def check_reads(function: types.FunctionType) -> None:
    """Raise StubError if a function's body reads a part of torch, whose value only torch has.

    A kernel's front end evaluates such a name, `torch.finfo(torch.float32).max` for one.
    """
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, (_Stub, _Type)):
            raise StubError(f"the kernel reads {name}, and torch is not installed here")


def install(driver: TargetDriver) -> None:
    """Put the stand-in before any real torch; it describes the driver's card."""
    sys.meta_path.insert(0, Finder(driver))


def turn(card: CardRow) -> None:
    """Remove the modules of the stand-in, so that the next import describes the new card."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "torch":
            del sys.modules[name]
