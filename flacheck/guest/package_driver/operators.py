"""What a package offers that ends in a launch: functions, autograd functions, layers. A function
leads to a kernel by the names in its code and what they are bound to."""

import dis
import functools
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from ..fake_cuda.registered import BODIES
from . import usage

FUNCTION, LAYER = "function", "layer"
# A name that a function takes out of its `**kwargs`.
_HIDDEN = re.compile(r"kwargs(?:\.get|\.pop)?[(\[]\s*['\"](\w+)['\"]")
# What a module runs as a script: programs and the tests and benchmarks of their authors.
_SCRIPTS = re.compile(r"main$|test_|bench(mark)?(_|$)")
# Autotuners and heuristics around one kernel.
_MOST_WRAPPERS = 8
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class Operator:
    """Something to call. `outer` ones are offered by a package's own namespace or called by nothing
    else in it, `shared` ones called by its functions (layers aside); `parameters` are a layer's
    constructor's. `source` is the function whose code and documentation tell of the arguments."""

    name: str
    call: Any
    kind: str
    outer: bool
    kernels: frozenset[str]
    parameters: tuple[inspect.Parameter, ...]
    source: Callable[..., Any]
    shared: bool = False

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]

    @functools.cached_property
    def takes(self) -> tuple[inspect.Parameter, ...]:
        """A function's parameters or those of a layer's forward, and those hidden in kwargs."""
        parameters = self.parameters
        if self.kind == LAYER:
            # Without `self`.
            parameters = tuple(inspect.signature(self.source).parameters.values())[1:]
            parameters = _told(self.source, parameters)
        named = {p.name: p for p in parameters if p.kind not in _VARIADIC}
        if self.kind == LAYER and len(named) == len(parameters):
            return parameters
        try:
            text = inspect.getsource(self.source)
        except (OSError, TypeError):
            text = ""
        for name in _HIDDEN.findall(text):
            optional = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            named.setdefault(name, optional)
        return tuple(named.values())


def operators(modules: Iterable[ModuleType], packages: Iterable[str]) -> list[Operator]:
    """Every operator of some modules, all of these packages, that leads to a kernel."""
    uses = _Uses(packages)
    namespaces = [vars(module) for module in modules if "__path__" in vars(module)]
    offered = {id(thing) for namespace in namespaces for thing in namespace.values()}
    defined = [(name, thing) for module in modules for name, thing in _defined(module)]
    things = [thing for _, thing in defined]
    called = _called(things, uses)
    by_functions = _called([thing for thing in things if not _is_layer(thing)], uses)
    offering = []
    for name, thing in defined:
        kernels = uses.kernels(thing)
        if kernels:
            outer = id(thing) in offered or id(thing) not in called
            shared = id(thing) in by_functions
            offering.append(_operator(name, thing, outer, kernels, shared))
    return [operator for operator in offering if operator is not None]


def kernel_name(thing: Any) -> str | None:
    """`module:qualname` of a kernel, also below tuners and heuristics; None for anything else."""
    if isinstance(thing, ModuleType):
        return None
    if isinstance(thing, _LocalKernel):
        return thing.name
    # Some objects answer every attribute, with more of their kind: there are not so many wrappers.
    for _ in range(_MOST_WRAPPERS):
        if not (hasattr(thing, "arg_names") and hasattr(thing, "run") and hasattr(thing, "fn")):
            return None
        if inspect.isfunction(thing.fn):
            return f"{thing.fn.__module__}:{thing.fn.__qualname__.replace('.<locals>', '')}"
        thing = thing.fn
    return None


@dataclass(frozen=True)
class _LocalKernel:
    """A kernel that a function defines when it is called, by the name that it will have."""

    name: str


def _local_kernels(function: FunctionType) -> Iterator[_LocalKernel]:
    for name in usage.local_kernels(function):
        yield _LocalKernel(f"{function.__module__}:{function.__qualname__}.{name}")


class _Uses:
    """What functions and classes refer to, followed within some packages."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = tuple(packages)
        # By id, for a kernel or a list cannot be hashed; each kept, so that no id is given twice.
        self._direct: dict[int, tuple[Any, list[Any]]] = {}

    def kernels(self, thing: Any) -> frozenset[str]:
        """Every kernel that a function or class may launch."""
        names = [kernel_name(end) for end in self.reached(thing, kernel_name)]
        return frozenset(name for name in names if name)

    def reached(self, thing: Any, is_end: Callable[[Any], object]) -> Iterator[Any]:
        """The things that `thing` leads to, at which `is_end` stops the walk."""
        seen: set[int] = set()
        waiting = [thing]
        while waiting:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if is_end(current):
                yield current
                continue
            if id(current) not in self._direct:
                self._direct[id(current)] = (current, list(self._references(current)))
            waiting += self._direct[id(current)][1]

    def _references(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, ModuleType):
            # Its names count one by one, and asking a lazy one for others may raise anything.
            return
        if isinstance(thing, CustomOpDef):
            yield from (thing._init_fn, *thing._backend_fns.values(), thing._backward_fn)
        elif isinstance(thing, (staticmethod, classmethod)):
            yield thing.__func__
        elif inspect.isfunction(thing):
            yield from self._function(thing)
        elif isinstance(thing, type) and self._ours(thing.__module__):
            yield from (part for part in vars(thing).values() if _leads(part))
            yield from (base for base in thing.__bases__ if self._ours(base.__module__))
        elif isinstance(thing, (tuple, list, set)):
            yield from thing
        elif isinstance(thing, dict):
            yield from thing.values()
        elif inspect.ismethod(thing):
            yield from (thing.__func__, thing.__self__)
        elif hasattr(thing, "__wrapped__"):
            yield thing.__wrapped__
        elif isinstance(thing, property):
            yield thing.fget
        elif self._is_own_object(thing):
            # A tuner of the package's own that holds a kernel.
            yield from list(vars(thing).values())

    def _function(self, function: FunctionType) -> Iterator[Any]:
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not bound yet
                continue
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        if self._ours(function.__module__):
            yield from _local_kernels(function)
            yield from self._named(function.__code__, function.__globals__)

    def _named(self, code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
        names = code.co_names
        for name in names:
            bound = scope.get(name)
            if bound is None and "." in name:
                bound = sys.modules.get(name)
            if isinstance(bound, ModuleType):
                if self._ours(bound.__name__):
                    yield from (vars(bound)[other] for other in names if other in vars(bound))
                elif bound is torch and "ops" in names:
                    # `torch.ops.namespace.name`: what was registered under that name.
                    yield from (body for other in names for body in BODIES.named(other))
            elif bound is not None and (
                _leads(bound) or kernel_name(bound) or self._is_own_object(bound)
            ):
                yield bound
        for module, name in _imported_inside(code, scope):
            if self._ours(module) and module in sys.modules:
                # What a lazy module would import when it is asked may fail.
                yield vars(sys.modules[module]).get(name)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._named(constant, scope)

    def _is_own_object(self, thing: Any) -> bool:
        """Whether a thing is an instance of one of the packages' classes, none of torch's among its
        bases: modules and tensors hold too much."""
        kind = type(thing)
        if not self._ours(kind.__module__):
            return False
        bases = {base.__module__.partition(".")[0] for base in kind.__mro__}
        return "torch" not in bases and isinstance(getattr(thing, "__dict__", None), dict)

    def _ours(self, module: str | None) -> bool:
        return (module or "").partition(".")[0] in self._packages


def _imported_inside(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The modules and names of `from … import …` within a function, which many a package writes so
    that it can be imported without Triton."""
    if _IMPORT_FROM not in code.co_code[::2]:
        return
    loaded: list[Any] = []
    module = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            loaded.append(instruction.argval)
        elif instruction.opname == "IMPORT_NAME":
            # Before it stand the count of dots and the names.
            dots = "." * loaded[-2]
            try:
                module = importlib.util.resolve_name(
                    dots + instruction.argval, scope.get("__package__")
                )
            except (ImportError, ValueError):
                module = ""
        elif instruction.opname == "IMPORT_FROM" and module:
            yield module, instruction.argval


def _leads(thing: Any) -> bool:
    kinds = (type, staticmethod, classmethod, property, tuple, list, dict, CustomOpDef)
    is_function = inspect.isfunction(thing) or inspect.ismethod(thing)
    return is_function or isinstance(thing, kinds) or hasattr(thing, "__wrapped__")


def _called(defined: Iterable[Any], uses: _Uses) -> set[int]:
    """The ids of those functions and classes that another of them uses."""
    wrapped = {id(inspect.unwrap(thing)): id(thing) for thing in defined}
    homes = {*wrapped, *wrapped.values()}
    used: set[int] = set()
    for thing in defined:
        used |= _others(thing, homes, uses)
    return used | {wrapped[each] for each in used if each in wrapped}


def _others(thing: Any, homes: set[int], uses: _Uses) -> set[int]:
    """The ids of the nearest of some functions and classes that one of them leads to."""
    others = homes - {id(thing), id(inspect.unwrap(thing))}
    return {id(end) for end in uses.reached(thing, lambda end: id(end) in others)}


def _defined(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes whose home a module is."""
    for name, thing in list(vars(module).items()):
        if _is_home(module.__name__, name, thing) and not _SCRIPTS.match(name):
            yield f"{module.__name__}:{name}", thing


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, torch.nn.Module)


def _is_home(module: str, name: str, thing: Any) -> bool:
    if isinstance(thing, CustomOpDef):
        return bool(thing._init_fn.__module__ == module)
    if inspect.isfunction(thing) or isinstance(thing, type):
        return thing.__module__ == module and thing.__name__ == name
    return False


def _operator(
    name: str, thing: Any, outer: bool, kernels: frozenset[str], shared: bool
) -> Operator | None:
    if isinstance(thing, CustomOpDef):
        body = inspect.unwrap(thing._init_fn)
        return Operator(name, thing, FUNCTION, outer, kernels, _parameters(body), body, shared)
    if inspect.isfunction(thing):
        source = inspect.unwrap(thing)
        parameters = _parameters(thing)
        return Operator(name, thing, FUNCTION, outer, kernels, parameters, source, shared)
    if issubclass(thing, torch.autograd.Function):
        forward = inspect.unwrap(thing.forward)
        parameters = tuple(p for p in _parameters(forward) if p.name != "ctx")
        return Operator(name, thing.apply, FUNCTION, False, kernels, parameters, forward)
    if issubclass(thing, torch.nn.Module) and thing.forward is not torch.nn.Module.forward:
        source = inspect.unwrap(thing.forward)
        return Operator(name, thing, LAYER, outer, kernels, _parameters(thing), source)
    return None


def _parameters(thing: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (ValueError, TypeError):
        return ()
    named = [p for p in parameters if p.kind not in _VARIADIC]
    if parameters and not named and inspect.isfunction(thing):
        # All that it takes it takes out of `*args`.
        positional = inspect.Parameter.POSITIONAL_ONLY
        names = dict.fromkeys(usage.positional(inspect.unwrap(thing)))
        named = [inspect.Parameter(name, positional) for name in names]
    return _told(thing, named)


def _told(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> tuple[inspect.Parameter, ...]:
    """Parameters without an annotation are annotated with what is done with them."""
    told = usage.kinds(inspect.unwrap(function)) if inspect.isfunction(function) else {}
    return tuple(
        p.replace(annotation=told[p.name]) if _is_untold(p) and p.name in told else p
        for p in parameters
    )


def _is_untold(parameter: inspect.Parameter) -> bool:
    nothing = inspect.Parameter.empty
    return parameter.annotation is nothing and parameter.default in (nothing, None)
