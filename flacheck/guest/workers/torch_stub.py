"""A stand-in for torch, so that kernels load where torch is absent and nothing else of it runs.

It has what modules read while they are imported: dtypes, base classes, decorators that hand their
function back, and the capability of the card in question. Anything else is a `Placeholder` that
can be called, subscripted and inherited from in a module's body but never iterated, compared or
counted, so that a package cannot loop on it: then `StubError` says what was missing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types

from .values import DType

VERSION = "2.6.0"
_DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool float8_e4m3fn float8_e5m2 complex64".split()
_ALIASES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
_DECORATORS = {
    "compile",
    "no_grad",
    "custom_fwd",
    "custom_bwd",
    "disable",
    "enable_grad",
    "inference_mode",
    "script",
    "ignore",
}
_ROOTS = ("torch",)


class StubError(RuntimeError):
    """The stub of torch was asked for more than it can be; flacheck's limit, not the kernel's
    fault.
    """


class _Type(type):
    """Placeholders are classes, so that they can be inherited from and stand in annotations."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __call__(cls, *args, **kwargs):
        if cls is Placeholder or cls.__dict__.get("_stub"):
            return _called(cls, args, kwargs)
        return super().__call__(*args, **kwargs)

    def _refuse(cls, *args):
        raise StubError(f"the stub of torch cannot compute with {cls.__qualname__}")

    __iter__ = __len__ = __bool__ = __lt__ = __gt__ = __le__ = __ge__ = __add__ = __mul__ = (
        __sub__
    ) = __int__ = _refuse


class Placeholder(metaclass=_Type):
    """Anything of torch that only has to be nameable."""


def placeholder(name: str) -> type:
    return _Type(
        name.rpartition(".")[2],
        (Placeholder,),
        {"_stub": True, "__qualname__": name, "__module__": "torch"},
    )


def _called(cls, args, kwargs):
    """A decorator gives its function back, bare or with options; any other call another
    placeholder.
    """
    if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], _Type):
        return args[0]
    return placeholder(cls.__qualname__ + "()")


def decorator(*args, **kwargs):
    if len(args) == 1 and not kwargs and callable(args[0]):
        return args[0]
    return decorator


class Function:
    """torch.autograd.Function: only ever inherited from here."""

    @classmethod
    def apply(cls, *args, **kwargs):
        raise StubError(f"{cls.__name__}.apply needs a real torch")


class Module:
    """torch.nn.Module: only ever inherited from here."""


class _Stub(types.ModuleType):
    """A module of the stub; unknown names become submodules, decorators or placeholders."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        value = decorator if name in _DECORATORS else placeholder(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import of torch, before any real one can."""

    def __init__(self, driver) -> None:
        self._driver = driver

    def find_spec(self, name: str, path=None, target=None):
        if name.partition(".")[0] in _ROOTS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Stub(spec.name)

    def exec_module(self, module) -> None:
        fill = _CONTENTS.get(module.__name__)
        if fill:
            fill(module, self._driver)


def _torch(module, driver) -> None:
    module.__version__ = VERSION
    for name in _DTYPES:
        setattr(module, name, DType(name))
    for alias, name in _ALIASES.items():
        setattr(module, alias, DType(name))
    module.dtype = DType
    module.Tensor = placeholder("torch.Tensor")
    for name in ("cuda", "nn", "autograd", "amp", "version", "library"):
        setattr(module, name, importlib.import_module("torch." + name))


def _cuda(module, driver) -> None:
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.get_device_capability = lambda *_: tuple(driver.card["capability"])
    module.get_device_name = lambda *_: driver.card["gpu"]
    module.is_bf16_supported = lambda *_, **__: driver.card["bf16"]
    module.get_device_properties = lambda *_: _properties(driver.card)


def _properties(card: dict) -> types.SimpleNamespace:
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


def _version(module, driver) -> None:
    module.cuda = "12.4" if driver.card.get("backend") != "hip" else None
    module.hip = "6.3" if driver.card.get("backend") == "hip" else None


def _autograd(module, driver) -> None:
    module.Function = Function


def _nn(module, driver) -> None:
    module.Module = Module


_CONTENTS = {
    "torch": _torch,
    "torch.cuda": _cuda,
    "torch.version": _version,
    "torch.autograd": _autograd,
    "torch.nn": _nn,
    "torch.autograd.function": _autograd,
}


def install(driver) -> None:
    """Put the stand-in before any real torch; what it says of the card is asked anew for every
    card.
    """
    sys.meta_path.insert(0, Finder(driver))


def turn(card: dict) -> None:
    """Forget what was said of another card."""
    for name in list(sys.modules):
        if name.partition(".")[0] in _ROOTS:
            del sys.modules[name]
