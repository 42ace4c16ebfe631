"""Objects that operators take besides tensors and numbers: configurations, metadata, whatever class
of the package an argument is to be of. They are made as their constructors ask."""

import enum
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .operators import Operator

# Classes that have an attribute: each costs a call.
_MOST = 3
_LIBRARIES = ("torch", "triton", "numpy")
# What stands for any module of torch's.
MODEL = torch.nn.Linear
_NO_OBJECTS = (torch.Tensor, torch.dtype, torch.device, torch.nn.Module, torch.Generator)


class OptionTable(dict[str, Any]):
    """A dictionary of options that a function looks things up in, as kernels' configurations are:
    numbers that suit most of them."""

    def __init__(self, keys: Iterable[str]) -> None:
        super().__init__({key: self._likely(key) for key in keys})

    @staticmethod
    def _likely(key: str) -> int:
        lowered = key.lower()
        if "warp" in lowered or "group" in lowered:
            return 4
        if "stage" in lowered:
            return 2
        if "split" in lowered:
            return 1
        return 64


def annotated(operator: Operator, parameter: inspect.Parameter) -> str | None:
    """The class that an argument is to be of, as `module:name`; None for what is no object of
    somebody's own class."""
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        annotation = _resolved(operator, annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(
            (each for each in typing.get_args(annotation) if _is_objects(each)), annotation
        )
    if _is_objects(annotation):
        return named(annotation)
    return None


def takes_none(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Whether an argument is an object of somebody's own class, or a tensor, or nothing."""
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        annotation = _resolved(operator, annotation)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return False
    parts = typing.get_args(annotation)
    return type(None) in parts and any(_is_objects(each) or each is torch.Tensor for each in parts)


def is_model(operator: Operator, parameter: inspect.Parameter) -> bool:
    """Whether an argument is to be a module of torch's, whichever."""
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        annotation = _resolved(operator, annotation)
    return isinstance(annotation, type) and annotation in MODEL.__mro__[:-1]


def classes(operator: Operator, wanted: Any) -> Iterator[str]:
    """Classes around an operator that have an attribute, or the class that is wanted."""
    if isinstance(wanted, str) and hasattr(MODEL, wanted) and not hasattr(torch.Tensor, wanted):
        # Asked for its `parameters` or `named_children`.
        yield named(MODEL)
        return
    if isinstance(wanted, type):
        if _is_objects(wanted):
            yield named(wanted)
        return
    seen: dict[str, None] = {}
    package = operator.module.partition(".")[0]
    near = [name for name in sys.modules if name.partition(".")[0] == package]
    near.sort(key=lambda name: (name != operator.module, name))
    for name in near:
        for thing in list(vars(sys.modules[name]).values()):
            if _is_objects(thing) and wanted in _attributes(thing):
                seen.setdefault(named(thing))
        if len(seen) >= _MOST:
            break
    yield from list(seen)[:_MOST]


def _attributes(kind: type) -> set[str]:
    names = {name for each in kind.__mro__[:-1] for name in vars(each)}
    for each in kind.__mro__[:-1]:
        annotations = vars(each).get("__annotations__")
        # Classes of extensions have a descriptor under that name.
        if isinstance(annotations, dict):
            names.update(annotations)
    return names


def find(name: str) -> type:
    """The class named `module:name`."""
    module, _, inner = name.partition(":")
    found: Any = sys.modules[module]
    for part in inner.split("."):
        found = getattr(found, part)
    kind: type = found
    return kind


def concrete(kind: type) -> type:
    """The class, or the nearest of those that make objects of an abstract one."""
    waiting = [kind]
    while waiting:
        each = waiting.pop(0)
        if not inspect.isabstract(each):
            return each
        waiting += each.__subclasses__()
    return kind


def constructor(kind: type) -> Operator:
    """The class as something to call, so that its arguments are made up as all others are."""
    parameters = []
    if not issubclass(kind, enum.Enum):
        signature = inspect.signature(kind)
        variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = [p for p in signature.parameters.values() if p.kind not in variadic]
    return Operator(named(kind), kind, "object", False, frozenset(), tuple(parameters), kind)


def _resolved(operator: Operator, annotation: str) -> Any:
    try:
        scope = vars(sys.modules[operator.module])
        return eval(annotation, {**vars(typing), **scope})
    except Exception:
        return None


def _is_objects(kind: Any) -> bool:
    if not isinstance(kind, type) or issubclass(kind, _NO_OBJECTS):
        return False
    if typing.get_origin(kind) is not None:
        return False
    library = kind.__module__.partition(".")[0]
    return library not in sys.stdlib_module_names and library not in _LIBRARIES


def named(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
