"""Replacement of expressions by simpler ones of the same type."""

import ast
import copy
from collections.abc import Iterator

from flacheck.capabilities.repro.kernel import plain_addresses
from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.expression_types import Tensor, Types
from flacheck.capabilities.repro.kernel.rewriting import (
    drop_unread_parameters,
    pointer_to,
    replace_nodes,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import (
    Proposals,
    propose_at_each,
    propose_while_accepted,
)

# The number of arguments that all releases require; for other functions it is one.
_LEAST = {
    "tl.advance": 2,
    "tl.arange": 2,
    "tl.broadcast_to": 2,
    "tl.cdiv": 2,
    "tl.dot": 2,
    "tl.expand_dims": 2,
    "tl.full": 3,
    "tl.join": 2,
    "tl.make_block_ptr": 6,
    "tl.make_tensor_descriptor": 4,
    "tl.maximum": 2,
    "tl.minimum": 2,
    "tl.reshape": 2,
    "tl.store": 2,
    "tl.where": 3,
    "tl.zeros": 2,
}


def expressions(best: Specimen) -> Proposals:
    """Propose for every expression an operand or variable of its type, a load, or a literal."""
    yield from propose_at_each(best, _all_expressions, _simpler)


def _all_expressions(specimen: Specimen) -> list[ast.expr]:
    """Return all expressions but plain addresses, the last statement first, outer before inner."""
    # The last statement first, because a simpler one may make others unnecessary.
    expressions: list[ast.expr] = []
    for statement in reversed(list(trees.all_statements(specimen.function.body))):
        for expression in trees.child_expressions(statement):
            expressions += _below(expression)
    return expressions


def _below(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Constant, ast.Slice)):
        return
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return
    if isinstance(node, ast.BinOp) and plain_addresses.is_plain(node):
        return
    yield node
    if trees.callee_name(node) == trees.DESCRIPTOR:
        # The shape of a descriptor must stay a shape: zeros would compile as well.
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            child = child.value
        if isinstance(child, ast.expr):
            yield from _below(child)


def _simpler(specimen: Specimen, node: ast.expr) -> Iterator[Specimen]:
    types = specimen.types
    kind = types.get(node)
    for other in _same_type(specimen, node, types):
        yield _with(specimen, node, other)
    if isinstance(kind, Tensor) and not kind.pointer and not _is_plain_load(node):
        args = dict(specimen.args)
        load = plain_addresses.load(pointer_to(kind.dtype, args, specimen), kind.shape)
        yield drop_unread_parameters(replace_nodes(specimen, {node: load}, args))
    if kind in (Tensor("i32"), Tensor("i1")):
        yield _with(specimen, node, ast.Constant(0))
    if isinstance(node, ast.Call):
        for shorter in _shorter_calls(node):
            yield _with(specimen, node, shorter)


def _shorter_calls(call: ast.Call) -> Iterator[ast.Call]:
    """Yield a call without each keyword, and without its last positional argument."""
    count = len(call.args) + len(call.keywords)
    if count <= _LEAST.get(trees.callee_name(call), 1):
        return
    for at in range(len(call.keywords)):
        keywords = list(call.keywords)
        del keywords[at]
        yield ast.Call(call.func, call.args, keywords)
    if len(call.args) > 1:
        yield ast.Call(call.func, call.args[:-1], call.keywords)


def _is_plain_load(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or trees.callee_name(node) != "tl.load":
        return False
    if node.keywords or len(node.args) != 1:
        return False
    return plain_addresses.is_plain(node.args[0])


def _same_type(specimen: Specimen, node: ast.expr, types: Types) -> Iterator[ast.expr]:
    """Yield operands of the node's type, then variables that are bound before it."""
    kind = types.get(node)
    for inner in ast.walk(node):
        if inner is node or not isinstance(inner, ast.expr) or isinstance(inner, ast.Constant):
            continue
        if kind is not None:
            if types.get(inner) == kind:
                yield inner
        elif isinstance(inner, ast.Name) and inner.id in specimen.args:
            yield inner
    if isinstance(kind, Tensor) and not kind.pointer:
        yield from _variables(specimen, node, types)


def _variables(specimen: Specimen, node: ast.expr, types: Types) -> Iterator[ast.Name]:
    """Yield other variables of a node's type that are bound before it."""
    for statement in trees.all_statements(specimen.function.body):
        if not isinstance(statement, trees.COMPOUND) and node in ast.walk(statement):
            return
        plain = trees.assignment(statement)
        if plain is None or types.get(plain.value) != types.get(node):
            continue
        if not isinstance(node, ast.Name) or node.id != plain.name:
            yield trees.variable(plain.name)


def _with(specimen: Specimen, node: ast.expr, other: ast.expr) -> Specimen:
    candidate = replace_nodes(specimen, {node: copy.deepcopy(other)})
    return drop_unread_parameters(candidate)


def sinks(best: Specimen) -> Proposals:
    """Propose to store another variable that requires less of the kernel."""
    yield from propose_while_accepted(best, _other_sinks)


def _other_sinks(specimen: Specimen) -> Iterator[Specimen]:
    body = specimen.function.body
    stores = []
    for statement in body:
        if not isinstance(statement, ast.Expr):
            continue
        if trees.callee_name(statement.value) == "tl.store":
            stores.append(statement)
    types = specimen.types
    for statement in body:
        plain = trees.assignment(statement)
        if plain is None:
            continue
        kind = types.get(plain.value)
        if not isinstance(kind, Tensor) or kind.pointer:
            continue
        for old in stores:
            args = dict(specimen.args)
            pointer = pointer_to(kind.dtype, args, specimen)
            value = trees.variable(plain.name)
            new = plain_addresses.store(pointer, kind.shape, value)
            candidate = replace_nodes(specimen, {old: new}, args)
            yield drop_unread_parameters(candidate)
