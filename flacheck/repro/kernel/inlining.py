"""Helper functions written out where they are called."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from flacheck.repro.kernel.syntax import (
    COMPOUND,
    Block,
    Renaming,
    assign,
    blocks,
    constant,
    free_name,
    statements,
    substituted,
    writes,
)


def inlined(body: Block, functions: Mapping[str, ast.FunctionDef]) -> Block:
    """The body with calls of helpers replaced by what they do; a helper with branches that return
    stays.
    """
    taken = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    plain = {name: function for name, function in functions.items() if _is_plain(function)}
    for block in blocks(body):
        block[:] = [part for statement in block for part in _written_out(statement, plain, taken)]
    return body


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether it returns at its end and nowhere else, and takes no more than its parameters."""
    returns = [s for s in statements(function.body) if isinstance(s, ast.Return)]
    last = function.body[-1]
    return (
        not function.args.vararg
        and not function.args.kwarg
        and all(r is last and r.value for r in returns)
    )


def _written_out(
    statement: ast.stmt, functions: Mapping[str, ast.FunctionDef], taken: set[str]
) -> Block:
    before: Block = []
    visitor = _Calls(functions, taken, before)
    if isinstance(statement, COMPOUND):
        head = "iter" if isinstance(statement, ast.For) else "test"
        if not isinstance(statement, ast.While):
            setattr(statement, head, visitor.visit(getattr(statement, head)))
        return [*before, statement]
    changed = visitor.visit(statement)
    if isinstance(changed, ast.Expr) and changed.value is None:
        return before
    return [*before, changed]


class _Calls(ast.NodeTransformer):
    """Puts a helper's statements into `before` and its result where the call was."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef], taken: set[str], before: Block
    ) -> None:
        self._functions, self._taken, self._before = functions, taken, before

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A branch may never be evaluated: calls in it stay."""
        return node

    visit_Lambda = visit_IfExp  # type: ignore[assignment]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = self._functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        given = _given(function, node) if function else None
        if function is None or given is None:
            return node
        return self._result(copy.deepcopy(function), given)

    def _result(self, function: ast.FunctionDef, given: Mapping[str, ast.expr]) -> ast.expr:
        stored = set().union(*map(writes, function.body))
        names = {name: free_name(self._taken, name) for name in sorted(stored)}
        self._taken |= set(names.values())
        direct = {
            n: v
            for n, v in given.items()
            if n not in stored and (constant(v) or isinstance(v, ast.Name))
        }
        for name, value in given.items():
            if name not in direct:
                names.setdefault(name, free_name(self._taken, name))
                self._taken.add(names[name])
                self._before.append(assign(names[name], value))
        body = [substituted(Renaming(names).visit(s), direct) for s in function.body]
        last = body.pop() if isinstance(body[-1], ast.Return) else None
        self._before += body
        return last.value if isinstance(last, ast.Return) and last.value else ast.Constant(None)


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Each parameter's argument; None for a call that is not understood."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = [parameter.arg for parameter in parameters]
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(names):
        return None
    defaults = function.args.defaults
    positional = names[: len(names) - len(function.args.kwonlyargs)]
    given = dict(zip(positional[len(positional) - len(defaults) :], defaults)) if defaults else {}
    given |= {k.arg: d for k, d in zip(function.args.kwonlyargs, function.args.kw_defaults) if d}
    given |= dict(zip(names, call.args)) | {k.arg: k.value for k in call.keywords if k.arg}
    return {name: given[name] for name in names} if set(given) == set(names) else None
