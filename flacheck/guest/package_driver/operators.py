"""Something of a package that ends in a launch, as something to call: a function, an autograd
function, a layer, a method of an object."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import usage

FUNCTION, LAYER, METHOD = "function", "layer", "method"
# A name that a function takes out of its `**kwargs`.
_HIDDEN = re.compile(r"kwargs(?:\.get|\.pop)?[(\[]\s*['\"](\w+)['\"]")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True)
class Operator:
    """Something to call. `outer` ones are offered by a package's own namespace or called by nothing
    else in it, `shared` ones called by its functions (layers aside). Of a layer or a method `call`
    is the class, and `parameters` are its constructor's; `method` is called what is called of the
    object. `source` is the function whose code and documentation tell of the arguments."""

    name: str
    call: Any
    kind: str
    outer: bool
    kernels: frozenset[str]
    parameters: tuple[inspect.Parameter, ...]
    source: Callable[..., Any]
    shared: bool = False
    method: str = ""

    @property
    def is_built(self) -> bool:
        """Whether an object is made first, which is then called."""
        return self.kind in (LAYER, METHOD)

    @property
    def is_of_object(self) -> bool:
        """Whether it is a method of a class that is no layer, a static one included."""
        return "." in self.name.partition(":")[2]

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]

    @functools.cached_property
    def takes(self) -> tuple[inspect.Parameter, ...]:
        """A function's parameters, those of a layer's forward or of a method, and those hidden in
        kwargs."""
        parameters = self.parameters
        if self.is_built:
            # Without `self`.
            parameters = tuple(inspect.signature(self.source).parameters.values())[1:]
            parameters = _told(self.source, parameters)
        named = {p.name: p for p in parameters if p.kind not in _VARIADIC}
        if self.is_built and not any(p.kind in _POSITIONAL for p in named.values()):
            named = {p.name: p for p in _out_of_all(self.source)} | named
        if self.is_built and len(named) == len(parameters):
            return parameters
        try:
            text = inspect.getsource(self.source)
        except (OSError, TypeError):
            text = ""
        for name in _HIDDEN.findall(text):
            optional = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            named.setdefault(name, optional)
        return tuple(named.values())


def parameters_of(thing: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (ValueError, TypeError):
        return ()
    named = [p for p in parameters if p.kind not in _VARIADIC]
    if parameters and not named and inspect.isfunction(thing):
        named = _out_of_all(inspect.unwrap(thing))
    return _told(thing, named)


def _out_of_all(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a function takes out of its `*args`."""
    positional = inspect.Parameter.POSITIONAL_ONLY
    names = dict.fromkeys(usage.positional(function))
    return [inspect.Parameter(name, positional) for name in names]


def _told(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> tuple[inspect.Parameter, ...]:
    """Parameters without an annotation are annotated with what is done with them."""
    if isinstance(function, type):
        # What a constructor does with what it is given.
        function = getattr(function, "__init__")  # noqa: B009
    elif inspect.ismethod(function):
        function = function.__func__
    told = usage.kinds(inspect.unwrap(function)) if inspect.isfunction(function) else {}
    return tuple(
        p.replace(annotation=told[p.name]) if _is_untold(p) and p.name in told else p
        for p in parameters
    )


def _is_untold(parameter: inspect.Parameter) -> bool:
    nothing = inspect.Parameter.empty
    return parameter.annotation is nothing and parameter.default in (nothing, None)
