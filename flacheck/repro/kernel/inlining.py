"""Helper functions written out where they are called."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from flacheck.repro.kernel import syntax_trees as trees
from flacheck.source import syntax


def inlined(body: trees.Block, functions: Mapping[str, ast.FunctionDef]) -> trees.Block:
    """The body with what helpers do in place of their calls; one that returns early stays."""
    taken = {name.id for statement in body for name in trees.names_in(statement)}
    plain = {name: function for name, function in functions.items() if _is_plain(function)}

    def written_out(statement: ast.stmt) -> trees.Block:
        visitor = _Calls(plain, taken)
        if isinstance(statement, ast.For):
            statement.iter = visitor.visit(statement.iter)
        elif isinstance(statement, ast.If):
            statement.test = visitor.visit(statement.test)
        elif not isinstance(statement, trees.COMPOUND):
            statement = visitor.visit(statement)
        return [*visitor.before, statement]

    return trees.expanded(body, written_out)


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether it returns at its end and nowhere else, and takes no more than its parameters."""
    if function.args.vararg or function.args.kwarg:
        return False
    returns = [s for s in trees.all_statements(function.body) if isinstance(s, ast.Return)]
    return all(r is function.body[-1] and r.value for r in returns)


class _Calls(trees.Extraction):
    """Puts a helper's statements into `before` and its result where the call was."""

    def __init__(self, functions: Mapping[str, ast.FunctionDef], taken: set[str]) -> None:
        super().__init__(taken)
        self._functions = functions

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._functions:
            return node
        function = copy.deepcopy(self._functions[node.func.id])
        given = _given(function, node)
        if given is None:
            return node
        stored = set().union(*map(trees.writes, function.body))
        # Sorted, so that the same input gives the same names.
        names = {name: self.new_name(name) for name in sorted(stored)}
        direct = {}
        for name, value in given.items():
            # A name or literal may stand in many places; another argument is computed once.
            if name not in stored and (trees.is_literal(value) or isinstance(value, ast.Name)):
                direct[name] = value
                continue
            if name not in names:
                names[name] = self.new_name(name)
            self.before.append(trees.assign(names[name], value))
        body = [trees.Renaming(names).visit(statement) for statement in function.body]
        body = trees.substituted(body, direct)
        last = body[-1]
        if isinstance(last, ast.Return) and last.value:
            self.before += body[:-1]
            return last.value
        self.before += body
        return ast.Constant(None)


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Each parameter's argument; None for a call that is not understood."""
    names = trees.parameter_names(function)
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(names):
        return None
    given = syntax.defaults(function.args) | dict(zip(names, call.args))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if set(given) != set(names):
        return None
    return {name: given[name] for name in names}
