"""Detection of front-end failures that are about an API which the release lacks.

That is so if the failing name leads from the kernel's own surroundings to Triton or to a module,
because no argument of the launch can change the value of that name. A name that leads to a
parameter, or to a value computed from one, does not depend on the release. Arguments do not help
either if a function of Triton raises the same error whatever it is called with (`make_block_ptr`
in 3.9.0), if a release
forbids kernels to read a variable of their module, or if a kernel uses Python that the release does
not support at all (a `break`).
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from ..engine.host_errors import causes
from ..engine.messages import Kernel
from ..engine.outcomes import outcome_of

# Python's messages about a call that does not fit a function's parameters. They lack the function's
# name if a release binds the arguments itself.
_CALL_MISMATCH = re.compile(
    r"(?:(?:[\w<>]+\.)*(?P<name>\w+)\(\) )?"
    r"(?:got an unexpected keyword argument|missing \d+ required |takes |"
    r"missing a required (?:keyword-only )?argument|too many positional arguments|"
    r"got multiple values for argument|multiple values for argument)"
)
_UNREADABLE = re.compile(r"Cannot access global variable")
_UNSUPPORTED_NODE = re.compile(r"unsupported AST node type: (?P<node>\w+)")
_NOT_CALLABLE = re.compile(r"object is not callable")
_UNBOUND = object()
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NODES = (ast.Call, ast.Attribute, ast.Name)


def removed_api(error: BaseException) -> str | None:
    """Return the API as the kernel's source names it (`tl.dot`), None for another failure."""
    for cause in reversed(list(causes(error))):
        unsupported_node = _UNSUPPORTED_NODE.search(str(cause))
        if type(cause).__name__ == "UnsupportedLanguageConstruct" and unsupported_node is not None:
            # No release compiles a `raise`: the branch that ends in it rejects the arguments.
            if unsupported_node["node"] == "Raise":
                return None
            return unsupported_node["node"]
        for generator, node in _visits(cause):
            api = _missing_api(cause, generator, node)
            if api is not None:
                return api
    return None


def collecting_parameter(function: Kernel) -> str | None:
    """Return the name of the parameter that collects a kernel's constants, else None.

    No release since Triton 2.0 can launch a kernel with such a parameter, whatever it is passed.
    """
    code = function.fn.__code__
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    # Python's order of the names: parameters, those by keyword only, `*args`, `**kwargs`.
    index = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        index += 1
    name: str = code.co_varnames[index]
    return name


def _visits(error: BaseException) -> Iterator[tuple[Any, ast.AST]]:
    """Yield the innermost node of a kernel's source that an error passed, with its generator.

    It yields nothing for an error outside a kernel's source.
    """
    visits = []
    traceback = error.__traceback__
    while traceback is not None:
        local_names = traceback.tb_frame.f_locals
        generator, node = local_names.get("self"), local_names.get("node")
        if isinstance(node, _NODES) and _scope(generator) is not None:
            visits.append((generator, node))
        traceback = traceback.tb_next
    yield from visits[-1:]


def _scope(reader: Any) -> tuple[Any, Any] | None:
    """Return the names outside a kernel and its own names, from a reader of its source.

    The reader is the compiler's code generator, or the search for the functions that a kernel
    calls. The result is None for any other object.
    """
    for outside, own in (("gscope", "lscope"), ("globals", "local_names")):
        if _has(reader, outside) and _has(reader, own):
            return getattr(reader, outside), getattr(reader, own)
    return None


def _has(thing: Any, name: str) -> bool:
    """Return True if the object has an attribute of this name.

    Values of the language are in the same frames, and a tuple of theirs raises ValueError for a
    missing name.
    """
    return outcome_of(lambda: getattr(thing, name))[1] is None


def _missing_api(error: BaseException, generator: Any, node: ast.AST) -> str | None:
    if isinstance(error, AttributeError) and isinstance(node, ast.Attribute):
        owner = _resolve(node.value, generator)
        if isinstance(owner, types.ModuleType) and not hasattr(owner, node.attr):
            return ast.unparse(node)
    if isinstance(error, NameError) and isinstance(node, ast.Name):
        is_global = _resolve(node, generator) is not _UNBOUND
        if is_global and _UNREADABLE.search(str(error)):
            return node.id
    if isinstance(node, ast.Call):
        function = _resolve(node.func, generator)
        if function is _UNBOUND or not _is_triton(function):
            return None
        if isinstance(error, TypeError) and _refuses(function, str(error)):
            return ast.unparse(node.func)
        if _always_raises(function, error, generator):
            return ast.unparse(node.func)
    return None


def _resolve(node: ast.expr, generator: Any) -> Any:
    """Return the value of a dotted name outside the kernel.

    Parameters and variables have none there.
    """
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, generator)
        if owner is _UNBOUND:
            return _UNBOUND
        return getattr(owner, node.attr, _UNBOUND)
    outside, own = _scope(generator) or ({}, {})
    if isinstance(node, ast.Name) and node.id not in own:
        return dict(outside).get(node.id, _UNBOUND)
    return _UNBOUND


def _is_triton(thing: Any) -> bool:
    """Return True for a part of Triton: a function of the language, a class, a dtype."""
    function = getattr(thing, "fn", thing)
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0] == "triton"


def _always_raises(function: Any, error: BaseException, generator: Any) -> bool:
    """Return True if a function of Triton raises this error whatever it is called with.

    The function is called twice with meaningless objects: once for the required arguments, once for
    all.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # A class or another object without a signature.
        return False
    for are_all_passed in (False, True):
        arguments: dict[str, Any] = {}
        for parameter in parameters.values():
            is_required = parameter.default is parameter.empty
            if parameter.kind in _NAMED and (is_required or are_all_passed):
                arguments[parameter.name] = object()
        # The front end passes its state, without which the language's functions reject any call.
        for name in ("semantic", "builder"):
            if f"_{name}" in parameters and _has(generator, name):
                arguments[f"_{name}"] = getattr(generator, name)
        if not _raises(function, arguments, error):
            return False
    return True


def _raises(function: Any, arguments: dict[str, Any], error: BaseException) -> bool:
    """Return True if a call raises an error of the same type and text."""
    _, other = outcome_of(lambda: function(**arguments))
    return type(other) is type(error) and str(other) == str(error)


def _refuses(function: Any, message: str) -> bool:
    """Return True if the message is about a call of this function, not of one that it calls."""
    if _NOT_CALLABLE.search(message):
        return not callable(function)
    mismatch = _CALL_MISMATCH.match(message)
    if mismatch is None:
        return False
    name = getattr(getattr(function, "fn", function), "__name__", None)
    return mismatch["name"] in (None, name, "__call__", "__init__", "__new__")
