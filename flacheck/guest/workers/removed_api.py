"""Whether a failure of Triton's front end is about an API that the release lacks.

That is so where the name that fails leads to Triton, or to a module, from the kernel's own
surroundings: no argument of the launch can change what stands there. A name that leads to a
parameter, or to something computed from one, says nothing of the release. Neither can an argument
help where a release lets no kernel read a variable of its module, or where a kernel is written in
Python that the release does not take at all (a `break`).
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator
from typing import Any

# What Python says of a call that a function's parameters do not take; where a release binds the
# arguments itself, without the function's name.
_MISCALLED = re.compile(
    r"(?:(?:[\w<>]+\.)*(?P<name>\w+)\(\) )?"
    r"(?:got an unexpected keyword argument|missing \d+ required |takes |"
    r"missing a required (?:keyword-only )?argument|too many positional arguments|"
    r"got multiple values for argument|multiple values for argument)"
)
_UNREADABLE = re.compile(r"Cannot access global variable")
_UNSUPPORTED = re.compile(r"unsupported AST node type: (?P<node>\w+)")
_NOT_CALLABLE = re.compile(r"object is not callable")
_UNBOUND = object()


def removed_api(error: BaseException) -> str | None:
    """The API as the kernel's source names it (`tl.dot`), None where the failure is another."""
    for cause in reversed(list(_chain(error))):
        written = _UNSUPPORTED.search(str(cause))
        if type(cause).__name__ == "UnsupportedLanguageConstruct" and written is not None:
            # No release compiles a `raise`: the branch that ends in one refuses the arguments.
            if written["node"] == "Raise":
                return None
            return written["node"]
        for generator, node in _visits(cause):
            named = _lacking(cause, generator, node)
            if named is not None:
                return named
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made from, also where the traceback hides that."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _visits(error: BaseException) -> Iterator[tuple[Any, ast.AST]]:
    """The innermost place of a kernel's source that an error came through, with the generator that
    was reading it: nothing for an error that came through none."""
    visits = []
    traceback = error.__traceback__
    while traceback is not None:
        held = traceback.tb_frame.f_locals
        generator, node = held.get("self"), held.get("node")
        if _scope(generator) is not None and isinstance(node, (ast.Call, ast.Attribute, ast.Name)):
            visits.append((generator, node))
        traceback = traceback.tb_next
    yield from visits[-1:]


def _scope(reader: Any) -> tuple[Any, Any] | None:
    """The names outside a kernel, and its own, as what reads its source keeps them: the compiler's
    code generator, or what looks for the functions that a kernel calls. None for anything else."""
    for outside, own in (("gscope", "lscope"), ("globals", "local_names")):
        if _has(reader, outside) and _has(reader, own):
            return getattr(reader, outside), getattr(reader, own)
    return None


def _has(thing: Any, name: str) -> bool:
    """Values of the language stand in the same frames, and a tuple's raises ValueError for a name
    that it has not."""
    try:
        return hasattr(thing, name)
    except Exception:
        # What a value of the language raises is each release's own.
        return False


def _lacking(error: BaseException, generator: Any, node: ast.AST) -> str | None:
    if isinstance(error, AttributeError) and isinstance(node, ast.Attribute):
        owner = _resolved(node.value, generator)
        if isinstance(owner, types.ModuleType) and not hasattr(owner, node.attr):
            return ast.unparse(node)
    if isinstance(error, NameError) and isinstance(node, ast.Name):
        is_global = _resolved(node, generator) is not _UNBOUND
        if is_global and _UNREADABLE.search(str(error)):
            return node.id
    if isinstance(error, TypeError) and isinstance(node, ast.Call):
        function = _resolved(node.func, generator)
        if function is not _UNBOUND and _is_triton(function) and _refuses(function, str(error)):
            return ast.unparse(node.func)
    return None


def _resolved(node: ast.expr, generator: Any) -> Any:
    """What a dotted name leads to outside the kernel: parameters and variables lead nowhere."""
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, generator)
        if owner is _UNBOUND:
            return _UNBOUND
        return getattr(owner, node.attr, _UNBOUND)
    outside, own = _scope(generator) or ({}, {})
    if isinstance(node, ast.Name) and node.id not in own:
        return dict(outside).get(node.id, _UNBOUND)
    return _UNBOUND


def _is_triton(thing: Any) -> bool:
    """Whether it is a part of Triton: a function of the language, a class, a dtype."""
    function = getattr(thing, "fn", thing)
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0] == "triton"


def _refuses(function: Any, said: str) -> bool:
    """Whether Python says that this function does not take such a call, rather than one that it
    calls itself."""
    if _NOT_CALLABLE.search(said):
        return not callable(function)
    miscalled = _MISCALLED.match(said)
    if miscalled is None:
        return False
    name = getattr(getattr(function, "fn", function), "__name__", None)
    return miscalled["name"] in (None, name, "__call__", "__init__", "__new__")
