"""The first pass: it substitutes constants and inlines helpers."""

import ast
import copy
from collections.abc import Mapping
from typing import Any

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants, literal
from flacheck.capabilities.repro.kernel.expression_types import NAMES, DTypeValue
from flacheck.capabilities.repro.kernel.rewriting import replace_nodes, rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes.search import Proposals
from flacheck.guest.pysource.functions import parameter_names
from flacheck.source import syntax

# Each round inlines one level of calls; helpers nest less deeply.
_ROUNDS = 6
Functions = Mapping[str, ast.FunctionDef]


def partial_evaluation(best: Specimen) -> Proposals:
    """Propose the kernel with the launch's constants instead of constexpr parameters."""
    # Inlining may change the compile, so the second candidate keeps the calls.
    for inline in (True, False):
        if (yield evaluate_constants(best, inline)):
            return


def evaluate_constants(specimen: Specimen, inline: bool = True) -> Specimen:
    """Return the specimen with its constants in place of its constexpr parameters."""
    values, args = {}, {}
    for name, spec in specimen.args.items():
        value = literal_of(spec)
        if value is None:
            args[name] = spec
        else:
            values[name] = value
    reassigned = trees.writes(specimen.function)
    constants = specimen.constants
    body = specimen.copied_body()
    for name, value in reversed(values.items()):
        if name in reassigned:
            body.insert(0, trees.assign(name, value))
    for name, value in values.items():
        if name not in reassigned:
            constants[name] = value
    helpers = specimen.helpers if inline else {}
    body = _simplify(body, constants, helpers)
    specimen = rewrite(specimen, body, args)
    # With `tl.float16` for `x.dtype`, later passes may remove `x` itself.
    dtype_names: dict[ast.AST, ast.AST] = {}
    for node, kind in specimen.types.items():
        if not isinstance(kind, DTypeValue) or kind.name not in NAMES:
            continue
        is_name = ast.unparse(node).startswith("tl.")
        if not is_name:
            name = "tl." + NAMES[kind.name]
            dtype_names[node] = trees.expression(name)
    if not dtype_names:
        return specimen
    return replace_nodes(specimen, dtype_names)


def literal_of(spec: Any) -> ast.expr | None:
    """Return the expression for a constant argument; None for an argument that is not constant."""
    match spec:
        case {"constexpr": {"dtype": name}}:
            return trees.expression("tl." + NAMES.get(name, name))
        case {"constexpr": {"function": name}}:
            return trees.variable(name)
        case {"constexpr": {"tuple": parts}}:
            items = []
            for part in parts:
                item = literal_of({"constexpr": part})
                if item is None:
                    return None
                items.append(item)
            return ast.Tuple(items, ast.Load())
        case {"constexpr": value} if not isinstance(value, Mapping):
            return literal(value)
        case None | bool() | str():
            return literal(spec)
    return None


def _simplify(
    body: trees.Block, constants: Mapping[str, ast.expr], functions: Functions
) -> trees.Block:
    """Substitute, fold and inline until the body no longer changes."""
    values = dict(constants)
    for _ in range(_ROUNDS):
        before = list(map(ast.dump, body))
        body = fold_constants(trees.substitute(body, values))
        body = trees.expand_statements(body, _plain_assignments)
        body = fold_constants(inline_calls(body, functions))
        values |= _constant_variables(body)
        if list(map(ast.dump, body)) == before:
            break
    return body


def _constant_variables(body: trees.Block) -> dict[str, ast.expr]:
    """Return variables with one assignment, of a literal, outside every branch and loop."""
    bound: list[str] = []
    for statement in trees.all_statements(body):
        if not isinstance(statement, (ast.If, ast.While)):
            bound += trees.writes(statement)
        if isinstance(statement, ast.For):
            # A second count, because a loop's variable has another value in every iteration.
            bound += trees.writes(statement.target)
    constants = {}
    for statement in body:
        plain = trees.assignment(statement)
        if plain is None or bound.count(plain.name) > 1:
            continue
        if trees.is_literal(plain.value):
            constants[plain.name] = plain.value
    return constants


def _plain_assignments(statement: ast.stmt) -> trees.Block:
    """Return assignments of one name each, without tuples and augmented operators."""
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        target, value = statement.target, statement.value
        if not isinstance(target, ast.Name) or value is None:
            return [statement]
        if isinstance(statement, ast.AugAssign):
            value = ast.BinOp(trees.variable(target.id), statement.op, value)
        return [trees.assign(target.id, value)]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _split_tuple(statement, statement.targets[0], statement.value)
    return [statement]


def _split_tuple(statement: ast.Assign, target: ast.expr, value: ast.expr) -> trees.Block:
    """Return `a, b = x, y` as two statements, unless `y` reads the old `a`."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return [statement]
    if len(target.elts) != len(value.elts):
        return [statement]
    parts: trees.Block = []
    for at, (name, part) in enumerate(zip(target.elts, value.elts)):
        later = ast.Tuple(value.elts[at + 1 :], ast.Load())
        if not isinstance(name, ast.Name) or name.id in trees.reads(later):
            return [statement]
        parts.append(trees.assign(name.id, copy.copy(part)))
    return parts


def inline_calls(body: trees.Block, functions: Functions) -> trees.Block:
    """Return the body with helpers inlined, except those that return early."""
    used_names: set[str] = set()
    for statement in body:
        used_names.update(name.id for name in trees.names_in(statement))
    inlinable = {name: each for name, each in functions.items() if _can_inline(each)}

    def inline_in(statement: ast.stmt) -> trees.Block:
        visitor = _Calls(inlinable, used_names)
        if isinstance(statement, ast.For):
            statement.iter = visitor.visit(statement.iter)
        elif isinstance(statement, ast.If):
            statement.test = visitor.visit(statement.test)
        elif not isinstance(statement, trees.COMPOUND):
            statement = visitor.visit(statement)
        return [*visitor.before, statement]

    return trees.expand_statements(body, inline_in)


def _can_inline(function: ast.FunctionDef) -> bool:
    """Return True if a function returns only at its end and without variadic parameters."""
    for statement in trees.all_statements(function.body):
        is_last = statement is function.body[-1]
        if isinstance(statement, ast.Return) and not (is_last and statement.value):
            return False
    return not function.args.vararg and not function.args.kwarg


class _Calls(trees.Extraction):
    """A transformer that moves a helper's statements before the statement of its call."""

    def __init__(self, functions: Functions, used_names: set[str]) -> None:
        super().__init__(used_names)
        self._functions = functions

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._functions:
            return node
        function = copy.deepcopy(self._functions[node.func.id])
        arguments = _arguments(function, node)
        if arguments is None:
            return node
        variables: set[str] = set()
        for statement in function.body:
            variables |= trees.writes(statement)
        # The order makes the new names reproducible.
        names = {name: self.new_name(name) for name in sorted(variables)}
        direct = {}
        for name, value in arguments.items():
            # A name or literal may be repeated; another argument must be computed once.
            is_simple = trees.is_literal(value) or isinstance(value, ast.Name)
            if is_simple and name not in variables:
                direct[name] = value
                continue
            if name not in names:
                names[name] = self.new_name(name)
            self.before.append(trees.assign(names[name], value))
        renaming = trees.Renaming(names)
        body = [renaming.visit(statement) for statement in function.body]
        body = trees.substitute(body, direct)
        last = body[-1]
        if isinstance(last, ast.Return) and last.value:
            self.before += body[:-1]
            return last.value
        self.before += body
        return ast.Constant(None)


def _arguments(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return each parameter's argument; None if the call does not match the parameters."""
    names = parameter_names(function)
    has_starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if has_starred or len(call.args) > len(names):
        return None
    arguments = syntax.defaults(function.args) | dict(zip(names, call.args))
    for keyword in call.keywords:
        if keyword.arg:
            arguments[keyword.arg] = keyword.value
    if set(arguments) != set(names):
        return None
    return {name: arguments[name] for name in names}
