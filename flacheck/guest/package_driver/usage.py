"""What arguments without an annotation are, by what is done with them: a function that asks for
`x.stride(0)` takes a tensor, one that divides by `n` in a grid a number, one that says `if causal`
a truth. What a function passes to a kernel is what the kernel does with it: a pointer is loaded
from, what is multiplied to find an address is a number, and a tensor whose entries are used as
addresses holds integers."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

from torch._library.custom_ops import CustomOpDef

TENSOR, INDICES, NUMBER, TRUTH, FRACTION = "Tensor", "IntTensor", "int", "bool", "float"
# Numbers that are no sizes and no offsets, by their names.
_FRACTIONS = re.compile(r"scale|eps|alpha|beta|temp|softcap|momentum|rate|slope|(^|_)p$")
WHOLES, FRACTIONS = "list[int]", "list[float]"
_SEVERAL = {"int": WHOLES, "float": FRACTIONS}
# The kinds of what several places do with one argument: the first of these that any says.
_ORDER = (INDICES, TENSOR, WHOLES, FRACTIONS, FRACTION, NUMBER, TRUTH)
# Callees are followed so far.
_DEEPEST = 4
_OF_TENSORS = frozenset(
    """
    shape stride dtype device data_ptr contiguous is_contiguous size view reshape ndim dim numel
    is_cuda t T transpose permute unsqueeze squeeze to float half bfloat16 new_empty new_zeros
    element_size requires_grad clone detach copy_ zero_ fill_ flatten expand untyped_storage
    """.split()
)
_LIKE = ("empty_like", "zeros_like", "ones_like", "rand_like", "full_like", "is_tensor")
_OF_NUMBERS = ("range", "cdiv", "next_power_of_2", "ceil", "log2", "sqrt")
_MEMORY = frozenset(
    """
    load store make_block_ptr make_tensor_descriptor advance atomic_add atomic_max atomic_min
    atomic_cas atomic_xchg atomic_or atomic_and
    """.split()
)

Kinds = dict[str, str]


@functools.cache
def kinds(function: Callable[..., Any], depth: int = 0) -> Kinds:
    """Parameter → what it is, where what the function and those it calls do with it tells."""
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return {}
    if _is_kernel(node):
        return of_kernel(node, getattr(inspect.unwrap(function), "__globals__", {}), depth)
    own = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    own |= set(_positional(node))
    told: dict[str, set[str]] = {name: set() for name in own}
    for name, kind in _direct(node):
        if name in own:
            told[name].add(kind)
    if depth < _DEEPEST:
        scope = getattr(inspect.unwrap(function), "__globals__", {})
        for name, kind in _passed(node, scope, depth):
            if name in own:
                told[name].add(kind)
    return {name: _kind(name, said) for name, said in told.items() if said}


def local_kernels(function: Callable[..., Any]) -> list[str]:
    """The kernels among the functions that a function defines, by their names in it."""
    if not any(isinstance(each, CodeType) for each in function.__code__.co_consts):
        return []
    node = _tree(function)
    inner = ast.walk(node) if isinstance(node, ast.FunctionDef) else ()
    return [
        each.name
        for each in inner
        if isinstance(each, ast.FunctionDef) and each is not node and _is_kernel(each)
    ]


def positional(function: Callable[..., Any], depth: int = 0) -> list[str]:
    """What a function calls the arguments that it takes out of its `*args`, in their order."""
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return []
    named = _positional(node)
    if named or node.args.vararg is None or depth >= _DEEPEST:
        return named
    # `parsed = _parse(*args)`: what they are called there.
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or len(call.args) != 1:
            continue
        (passed,) = call.args
        is_all = isinstance(passed, ast.Starred)
        name = getattr(getattr(passed, "value", None), "id", "")
        callee, _ = _callee(call.func, scope)
        if is_all and name == node.args.vararg.arg and callee is not None:
            return positional(callee, depth + 1)
    return []


def _positional(node: ast.FunctionDef) -> list[str]:
    if node.args.vararg is None:
        return []
    whole: list[list[str]] = []
    for part in ast.walk(node):
        # `x, y = args`
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Tuple):
            parts = [*_names(part.targets[0].elts)]
            is_whole = getattr(part.value, "id", "") == node.args.vararg.arg
            if is_whole and len(parts) == len(part.targets[0].elts):
                whole.append(parts)
    if whole:
        # As few as will do.
        return min(whole, key=len)
    names: dict[int, str] = {}
    for part in ast.walk(node):
        if not isinstance(part, ast.Assign) or not isinstance(part.targets[0], ast.Name):
            continue
        value = part.value
        if isinstance(value, ast.IfExp):
            # `args[0] if args else kwargs.get("input")`
            value = value.body
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            index = value.slice.value
            if getattr(value.value, "id", "") == node.args.vararg.arg and type(index) is int:
                names.setdefault(index, part.targets[0].id)
    return [names[index] for index in itertools.takewhile(names.__contains__, itertools.count())]


def _kind(name: str, said: set[str]) -> str:
    kind = next(each for each in _ORDER if each in said)
    if kind == NUMBER and _FRACTIONS.search(name):
        return FRACTION
    return kind


@functools.cache
def _tree(function: Callable[..., Any]) -> ast.stmt | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None


def _is_kernel(node: ast.FunctionDef) -> bool:
    for each in node.decorator_list:
        called = getattr(each, "func", each)
        if getattr(called, "attr", getattr(called, "id", "")) == "jit":
            return True
    return False


def _direct(node: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """What the function itself does with names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            if part.attr in _OF_TENSORS:
                yield part.value.id, TENSOR
        elif isinstance(part, ast.Call):
            yield from _of_call(part)
        elif isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Mod, ast.FloorDiv)):
            yield from ((name, NUMBER) for name in _names((part.left, part.right)))
        elif isinstance(part, (ast.If, ast.IfExp, ast.While)):
            yield from _truths(part.test)
        elif isinstance(part, (ast.GeneratorExp, ast.ListComp)):
            yield from _several(part)


def _of_call(call: ast.Call) -> Iterator[tuple[str, str]]:
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if called in _LIKE or called == "save_for_backward":
        yield from ((name, TENSOR) for name in _names(call.args))
    elif called in _OF_NUMBERS:
        yield from ((name, NUMBER) for name in _names(call.args))


def _several(made: ast.GeneratorExp | ast.ListComp) -> Iterator[tuple[str, str]]:
    """`tuple(int(n) for n in widths)`: several numbers."""
    source, element = made.generators[0], made.elt
    if not isinstance(element, ast.Call) or not isinstance(source.iter, ast.Name):
        return
    called = getattr(element.func, "id", "")
    if called in _SEVERAL and [*_names(element.args)] == [*_names([source.target])]:
        yield source.iter.id, _SEVERAL[called]


def _truths(test: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(test, ast.Name):
        yield test.id, TRUTH
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truths(test.operand)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _truths(part)


def _names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    """Those of expressions that are nothing but a name."""
    yield from (node.id for node in nodes if isinstance(node, ast.Name))


def _passed(node: ast.FunctionDef, scope: dict[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """What kernels and functions of the package do with what they are passed by name."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        callee, skipped = _callee(call.func, scope)
        if callee is None:
            continue
        theirs = kinds(callee, depth + 1)
        names = list(inspect.signature(callee).parameters)[skipped:]
        passed = [*zip(names, call.args), *((k.arg, k.value) for k in call.keywords if k.arg)]
        for name, given in passed:
            if isinstance(given, ast.Name) and name in theirs:
                yield given.id, theirs[name]


def _callee(node: ast.expr, scope: dict[str, Any]) -> tuple[Callable[..., Any] | None, int]:
    """The function that a call or a launch goes to, and how many parameters it gets otherwise."""
    skipped = 0
    called: Any = None
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        called = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and node.attr == "apply":
        called = getattr(scope.get(getattr(node.value, "id", "")), "forward", None)
        skipped = 1
    if isinstance(called, CustomOpDef):
        called = called._init_fn
    for _ in range(_DEEPEST):
        if not inspect.isfunction(called) and hasattr(called, "fn"):
            called = called.fn
    if not inspect.isfunction(called):
        return None, 0
    package = str(scope.get("__name__", "")).partition(".")[0]
    if str(called.__module__).partition(".")[0] != package:
        return None, 0
    return inspect.unwrap(called), skipped


def of_kernel(node: ast.FunctionDef, scope: dict[str, Any] | None = None, depth: int = 0) -> Kinds:
    """A kernel's parameters: pointers, pointers to indices, and numbers; also by what the kernels
    do that it calls."""
    parameters = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
    assigned: dict[str, ast.expr] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            assigned.setdefault(part.targets[0].id, part.value)
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and _is_memory(part)]
    addresses = [call.args[0] for call in calls if call.args]
    addresses += [k.value for call in calls for k in call.keywords if k.arg == "base"]
    pointers = {root for each in addresses for root in [_root(each, assigned, parameters)] if root}
    handed = dict(_handed(node, scope or {}, assigned, parameters, depth))
    pointers.update(name for name, kind in handed.items() if kind in (TENSOR, INDICES))
    told: Kinds = {name: NUMBER for name in parameters if name not in pointers}
    told |= dict.fromkeys(pointers, TENSOR)
    told |= {name: kind for name, kind in handed.items() if kind == INDICES}
    for name in _used_as_addresses(addresses, assigned):
        loaded = assigned.get(name)
        while isinstance(loaded, ast.Call) and isinstance(loaded.func, ast.Attribute):
            if loaded.func.attr == "load" and loaded.args:
                root = _root(loaded.args[0], assigned, parameters)
                if root:
                    told[root] = INDICES
                break
            # `tl.load(…).to(tl.int64)`
            loaded = loaded.func.value
    return told


def _handed(
    node: ast.FunctionDef,
    scope: dict[str, Any],
    assigned: dict[str, ast.expr],
    parameters: list[str],
    depth: int,
) -> Iterator[tuple[str, str]]:
    """The parameters that a kernel hands on to others as pointers, perhaps moved on."""
    if depth >= _DEEPEST:
        return
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        callee, _ = _callee(call.func, scope)
        if callee is None:
            continue
        theirs = kinds(callee, depth + 1)
        passed = [*zip(inspect.signature(callee).parameters, call.args)]
        passed += [(each.arg, each.value) for each in call.keywords if each.arg]
        for name, given in passed:
            if theirs.get(name) in (TENSOR, INDICES):
                root = _root(given, assigned, parameters)
                if root:
                    yield root, theirs[name]


def _is_memory(call: ast.Call) -> bool:
    return getattr(call.func, "attr", "") in _MEMORY


def _root(
    node: ast.expr, assigned: dict[str, ast.expr], parameters: list[str], depth: int = 0
) -> str | None:
    """The parameter that an address begins with: the leftmost part of a sum."""
    if depth > _DEEPEST * _DEEPEST:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _root(node.left, assigned, parameters, depth + 1) or _root(
            node.right, assigned, parameters, depth + 1
        )
    if isinstance(node, ast.Name):
        if node.id in assigned:
            found = _root(assigned[node.id], assigned, parameters, depth + 1)
            if found or node.id not in parameters:
                return found
        return node.id if node.id in parameters else None
    if isinstance(node, ast.Call) and _is_memory(node) and node.args:
        return _root(node.args[0], assigned, parameters, depth + 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # `x.to(tl.pointer_type(…))`
        return _root(node.func.value, assigned, parameters, depth + 1)
    return None


def _used_as_addresses(addresses: list[ast.expr], assigned: dict[str, ast.expr]) -> set[str]:
    """The names that addresses are computed with, directly or not."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(addresses)
    while waiting:
        for part in ast.walk(waiting.pop()):
            if isinstance(part, ast.Name) and part.id not in names:
                names.add(part.id)
                value = assigned.get(part.id)
                # What was loaded is an entry; what it was loaded from is another address.
                if value is not None and not any(
                    getattr(getattr(p, "func", None), "attr", "") == "load" for p in ast.walk(value)
                ):
                    waiting.append(value)
    return names
