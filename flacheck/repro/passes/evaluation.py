"""The pass that comes first: known constants go into the kernel, its helpers are inlined, its
statements made plain.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Mapping
from typing import Any

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.folding import folded, literal
from flacheck.repro.kernel.inference import inferred
from flacheck.repro.kernel.inlining import inlined
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import (
    Block,
    assign,
    assigned,
    blocks,
    constant,
    expression,
    statements,
    substituted,
    writes,
)
from flacheck.repro.kernel.types import NAMES, DType

_ROUNDS = 6


class Evaluation:
    """Partial evaluation with the launch's constants: no constexpr parameter is left that need not
    be.
    """

    name = "partial evaluation"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        # Inlining may change what the compiler does: without it when the failure needs the call.
        for inline in (True, False):
            if (yield evaluated(best, inline)):
                return


def evaluated(specimen: Specimen, inline: bool = True) -> Specimen:
    """The specimen with its constants in place of its constexpr parameters."""
    with edited(specimen) as kernel:
        known = {
            name: literal_of(specimen.args[name]) for name in kernel.args if name in specimen.args
        }
        values = {name: value for name, value in known.items() if value is not None}
        changed = set().union(*map(writes, kernel.body)) if kernel.body else set()
        kernel.drop(values)
        kernel.body = [
            assign(name, value) for name, value in values.items() if name in changed
        ] + kernel.body
        constants = {**kernel.constants(), **{n: v for n, v in values.items() if n not in changed}}
        kernel.body = _settled(kernel.body, constants, kernel.functions if inline else {})
    return with_dtypes(kernel.specimen)


def with_dtypes(specimen: Specimen) -> Specimen:
    """The specimen with dtypes named: `tl.float16` for `x.dtype`."""
    types = inferred(specimen)
    named = {
        id(node): expression("tl." + NAMES[kind.name])
        for node, kind in types.items()
        if isinstance(kind, DType)
        and kind.name in NAMES
        and not ast.unparse(node).startswith("tl.")
    }
    if not named:
        return specimen
    with edited(specimen) as kernel:
        kernel.body = copy.deepcopy(specimen.function.body, named)
    return kernel.specimen


def literal_of(spec: Any) -> ast.expr | None:
    """The expression for a constant argument; None for one that differs from launch to launch."""
    if spec is None or isinstance(spec, (bool, str)):
        return literal(spec)
    if isinstance(spec, Mapping) and "constexpr" in spec:
        return _constexpr(spec["constexpr"])
    return None


def _constexpr(value: Any) -> ast.expr | None:
    if isinstance(value, Mapping):
        if "dtype" in value:
            return expression("tl." + NAMES.get(str(value["dtype"]), str(value["dtype"])))
        if "function" in value:
            return ast.Name(value["function"], ast.Load())
        if "tuple" in value:
            items = [_constexpr(item) for item in value["tuple"]]
            return (
                None if None in items else ast.Tuple([item for item in items if item], ast.Load())
            )
        return None
    return literal(value)


def _settled(
    body: Block, constants: Mapping[str, ast.expr], functions: Mapping[str, ast.FunctionDef]
) -> Block:
    """Substitute, fold and inline until nothing changes."""
    known = dict(constants)
    for _ in range(_ROUNDS):
        before = [ast.dump(statement) for statement in body]
        body = plain(_folded([substituted(s, known) for s in body]))
        body = _folded(inlined(body, functions))
        known |= _constant_variables(body)
        if [ast.dump(statement) for statement in body] == before:
            break
    return body


def _folded(body: Block) -> Block:
    return folded(ast.Module(body, [])).body


def _constant_variables(body: Block) -> dict[str, ast.expr]:
    """Variables that are bound once, outside every branch and loop, to a literal."""
    bound = [
        name
        for s in statements(body)
        for name in writes(s)
        if not isinstance(s, (ast.If, ast.While))
    ]
    loops = {name for s in statements(body) if isinstance(s, ast.For) for name in writes(s.target)}
    once = {name for name in bound if bound.count(name) == 1} - loops
    found = {}
    for statement in body:
        name = assigned(statement)
        if isinstance(statement, ast.Assign) and name in once and constant(statement.value):
            found[name] = statement.value
    return found


def plain(body: Block) -> Block:
    """One name an assignment: tuples are taken apart, augmented and annotated assignments spelt
    out.
    """
    for block in blocks(body):
        block[:] = [part for statement in block for part in _plain(statement)]
    return body


def _plain(statement: ast.stmt) -> Block:
    if (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.value
    ):
        return [assign(statement.target.id, statement.value)]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        left = ast.Name(statement.target.id, ast.Load())
        return [assign(statement.target.id, ast.BinOp(left, statement.op, statement.value))]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _untupled(statement, statement.targets[0], statement.value)
    return [statement]


def _untupled(statement: ast.Assign, target: ast.expr, value: ast.expr) -> Block:
    """`a, b = x, y` as two statements, unless `y` reads what `a` was before."""
    if (
        not isinstance(target, ast.Tuple)
        or not isinstance(value, ast.Tuple)
        or len(target.elts) != len(value.elts)
    ):
        return [statement]
    pairs = list(zip(target.elts, value.elts))
    for at, (left, _) in enumerate(pairs):
        later = {
            n.id for _, right in pairs[at + 1 :] for n in ast.walk(right) if isinstance(n, ast.Name)
        }
        if not isinstance(left, ast.Name) or left.id in later:
            return [statement]
    return [
        assign(left.id, copy.copy(right)) for left, right in pairs if isinstance(left, ast.Name)
    ]
