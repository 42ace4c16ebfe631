"""Typed replacement: an expression becomes something simpler of the same type that is there
already, or is loaded.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Generator, Iterator, Mapping

from flacheck.repro.kernel import addresses
from flacheck.repro.kernel.dataflow import Types
from flacheck.repro.kernel.editing import Kernel, edited
from flacheck.repro.kernel.inference import inferred
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import assigned, called, statements
from flacheck.repro.kernel.types import Tensor, Type

_POINTERS = "xyzwuvst"
# Arguments that no release does without.
_LEAST = {
    "tl.store": 2,
    "tl.dot": 2,
    "tl.where": 3,
    "tl.make_block_ptr": 6,
    "tl.arange": 2,
    "tl.zeros": 2,
    "tl.full": 3,
    "tl.maximum": 2,
    "tl.minimum": 2,
    "tl.cdiv": 2,
    "tl.advance": 2,
    "tl.broadcast_to": 2,
    "tl.expand_dims": 2,
    "tl.reshape": 2,
    "tl.join": 2,
}
Replace = Callable[[ast.expr, ast.expr], Specimen]


class Expressions:
    """Every expression, outermost and last first: a variable or an operand of its type, a plain
    load, a literal.
    """

    name = "expressions"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        at = 0
        while at < len(places := list(_places(best))):
            for candidate in _simpler(best, places[at]):
                if (yield candidate):
                    best = candidate
                    break
            else:
                at += 1


def _places(specimen: Specimen) -> Iterator[ast.expr]:
    """All expressions that are evaluated, those of the last statement first, outer before inner;
    not addresses in their plain form.
    """
    for statement in reversed(list(statements(specimen.function.body))):
        heads = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        for head in heads:
            yield from _below(head)


def _below(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Constant, ast.Slice)) or isinstance(
        getattr(node, "ctx", None), ast.Store
    ):
        return
    if isinstance(node, ast.BinOp) and addresses.is_plain(node):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield from _below(child.value)
        elif isinstance(child, ast.expr):
            yield from _below(child)


def _simpler(specimen: Specimen, node: ast.expr) -> Iterator[Specimen]:
    types = inferred(specimen)
    kind = types.get(node)
    for other in _same_type(specimen, node, types):
        yield _with(specimen, node, other)
    if isinstance(kind, Tensor) and not kind.pointer and not _is_plain_load(node):
        yield _loaded(specimen, node, kind)
    if kind == Tensor("i32") or kind == Tensor("i1"):
        yield _with(specimen, node, ast.Constant(0))
    if isinstance(node, ast.Call):
        yield from _without_arguments(specimen, node)


def _is_plain_load(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and called(node) == "tl.load"
        and not node.keywords
        and _plainly(node.args)
    )


def _plainly(args: list[ast.expr]) -> bool:
    return len(args) == 1 and addresses.is_plain(args[0])


def _same_type(specimen: Specimen, node: ast.expr, types: Types) -> Iterator[ast.expr]:
    """Operands of the node's type, then variables that are bound before it."""
    kind = types.get(node)
    inner = [
        n
        for n in ast.walk(node)
        if isinstance(n, ast.expr) and n is not node and not isinstance(n, ast.Constant)
    ]
    if kind is not None:
        yield from (n for n in inner if types.get(n) == kind)
    elif not isinstance(node, ast.Name):
        yield from (n for n in inner if isinstance(n, ast.Name) and n.id in specimen.args)
    if isinstance(kind, Tensor) and not kind.pointer:
        yield from (ast.Name(name, ast.Load()) for name in _variables(specimen, node, types, kind))


def _variables(specimen: Specimen, node: ast.expr, types: Types, kind: Type) -> Iterator[str]:
    same = node.id if isinstance(node, ast.Name) else None
    for statement in statements(specimen.function.body):
        if any(n is node for n in ast.walk(statement)) and not isinstance(
            statement, (ast.For, ast.If, ast.While)
        ):
            return
        name = assigned(statement)
        if (
            isinstance(statement, ast.Assign)
            and name
            and name != same
            and types.get(statement.value) == kind
        ):
            yield name


def _with(specimen: Specimen, node: ast.expr, other: ast.expr) -> Specimen:
    with edited(specimen) as kernel:
        kernel.body = copy.deepcopy(specimen.function.body, {id(node): copy.deepcopy(other)})
    return trimmed(kernel.specimen)


def _loaded(specimen: Specimen, node: ast.expr, kind: Tensor) -> Specimen:
    with edited(specimen) as kernel:
        pointer = pointer_to(kernel, kind.dtype)
        kernel.body = copy.deepcopy(
            specimen.function.body, {id(node): addresses.load(pointer, kind.shape)}
        )
    return trimmed(kernel.specimen)


def pointer_to(kernel: Kernel, dtype: str) -> str:
    """A parameter that points to a dtype; a new one where there is none."""
    for known, spec in kernel.args.items():
        if isinstance(spec, Mapping) and spec.get("dtype") == dtype:
            return known
    taken = {
        *kernel.args,
        *(n.id for s in kernel.body for n in ast.walk(s) if isinstance(n, ast.Name)),
    }
    name: str = next(letter for letter in (*_POINTERS, f"{dtype}_pointer") if letter not in taken)
    kernel.args[name] = {"dtype": dtype, "align": 16}
    return name


def trimmed(specimen: Specimen) -> Specimen:
    """Without the parameters that nothing reads."""
    read = {
        n.id for n in ast.walk(ast.Module(specimen.function.body, [])) if isinstance(n, ast.Name)
    }
    unread = [name for name in specimen.args if name not in read]
    if not unread:
        return specimen
    with edited(specimen) as kernel:
        kernel.drop(unread)
    return kernel.specimen


def _without_arguments(specimen: Specimen, node: ast.Call) -> Iterator[Specimen]:
    """Without one keyword or the last positional argument, as long as enough are left."""
    if len(node.args) + len(node.keywords) <= _LEAST.get(called(node), 1):
        return
    for at in range(len(node.keywords)):
        fewer = ast.Call(node.func, node.args, node.keywords[:at] + node.keywords[at + 1 :])
        yield _with(specimen, node, fewer)
    if len(node.args) > 1:
        yield _with(specimen, node, ast.Call(node.func, node.args[:-1], node.keywords))


class Sinks:
    """What is stored: another variable, where that needs less of the kernel."""

    name = "sinks"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        while True:
            for candidate in _other_sinks(best):
                if (yield candidate):
                    best = candidate
                    break
            else:
                return


def _other_sinks(specimen: Specimen) -> Iterator[Specimen]:
    yield from _bare(specimen)
    body = specimen.function.body
    stores = [s for s in body if isinstance(s, ast.Expr) and called(s.value) == "tl.store"]
    types = inferred(specimen)
    for statement in body:
        name = assigned(statement)
        kind = types.get(statement.value) if isinstance(statement, ast.Assign) else None
        if name and isinstance(kind, Tensor) and not kind.pointer:
            for old in stores:
                with edited(specimen) as kernel:
                    pointer = pointer_to(kernel, kind.dtype)
                    new = addresses.store(pointer, kind.shape, ast.Name(name, ast.Load()))
                    kernel.body = copy.deepcopy(body, {id(old): new})
                yield trimmed(kernel.specimen)


def _bare(specimen: Specimen) -> Iterator[Specimen]:
    """The kernel up to a call whose result nobody needs: enough for what fails in the front end."""
    for at, statement in enumerate(specimen.function.body):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call):
            for inner in (*(n for n in value.args if isinstance(n, ast.Call)), value):
                with edited(specimen) as kernel:
                    kernel.body = [*kernel.body[:at], ast.Expr(copy.deepcopy(inner))]
                yield trimmed(kernel.specimen)
