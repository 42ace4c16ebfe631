"""The first pass: known constants go into the kernel, its helpers are inlined."""

import ast
import copy
from collections.abc import Generator, Mapping
from typing import Any

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.block_types import NAMES, DTypeValue
from flacheck.capabilities.repro.kernel.constant_folding import fold_constants, literal
from flacheck.capabilities.repro.kernel.rewriting import replace_nodes, rewrite
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.type_inference import infer_types
from flacheck.source import syntax

# Each round inlines one level of calls; helpers nest less deeply.
_ROUNDS = 6


def partial_evaluation(best: Specimen) -> Generator[Specimen, bool, None]:
    """With the launch's constants: no constexpr parameter is left that need not be."""
    # Inlining may change what the compiler does: without it when the failure needs the call.
    for inline in (True, False):
        if (yield evaluate_constants(best, inline)):
            return


def evaluate_constants(specimen: Specimen, inline: bool = True) -> Specimen:
    """The specimen with its constants in place of its constexpr parameters."""
    values, args = {}, {}
    for name, spec in specimen.args.items():
        value = literal_of(spec)
        if value is None:
            args[name] = spec
        else:
            values[name] = value
    changed = trees.writes(specimen.function)
    bound = [trees.assign(name, value) for name, value in values.items() if name in changed]
    known = specimen.constants
    known |= {name: value for name, value in values.items() if name not in changed}
    helpers = specimen.helpers if inline else {}
    body = _settled([*bound, *specimen.copied_body()], known, helpers)
    specimen = rewrite(specimen, body, args)
    # `x.dtype` is written as `tl.float16`: then `x` itself may go.
    named: dict[ast.AST, ast.AST] = {}
    for node, kind in infer_types(specimen).items():
        if not isinstance(kind, DTypeValue) or kind.name not in NAMES:
            continue
        if not ast.unparse(node).startswith("tl."):
            named[node] = trees.expression("tl." + NAMES[kind.name])
    if not named:
        return specimen
    return replace_nodes(specimen, named)


def literal_of(spec: Any) -> ast.expr | None:
    """The expression for a constant argument; None for one that differs from launch to launch."""
    match spec:
        case {"constexpr": {"dtype": name}}:
            return trees.expression("tl." + NAMES.get(name, name))
        case {"constexpr": {"function": name}}:
            return trees.variable(name)
        case {"constexpr": {"tuple": parts}}:
            items = [literal_of({"constexpr": part}) for part in parts]
            known = [item for item in items if item is not None]
            if len(known) == len(parts):
                return ast.Tuple(known, ast.Load())
        case {"constexpr": value} if not isinstance(value, Mapping):
            return literal(value)
        case None | bool() | str():
            return literal(spec)
    return None


def _settled(
    body: trees.Block, constants: Mapping[str, ast.expr], functions: Mapping[str, ast.FunctionDef]
) -> trees.Block:
    """Substitute, fold and inline until nothing changes."""
    known = dict(constants)
    for _ in range(_ROUNDS):
        before = [ast.dump(statement) for statement in body]
        body = trees.expand_statements(fold_constants(trees.substitute(body, known)), _plain)
        body = fold_constants(inline_calls(body, functions))
        known |= _constant_variables(body)
        if [ast.dump(statement) for statement in body] == before:
            break
    return body


def _constant_variables(body: trees.Block) -> dict[str, ast.expr]:
    """Variables that are bound once, outside every branch and loop, to a literal."""
    bound: list[str] = []
    for statement in trees.all_statements(body):
        if not isinstance(statement, (ast.If, ast.While)):
            bound += trees.writes(statement)
        if isinstance(statement, ast.For):
            # Twice: a loop's variable has another value in every turn.
            bound += trees.writes(statement.target)
    constants = {}
    for statement in body:
        plain = trees.assignment(statement)
        if plain and trees.is_literal(plain.value) and bound.count(plain.name) == 1:
            constants[plain.name] = plain.value
    return constants


def _plain(statement: ast.stmt) -> trees.Block:
    """Assignments of one name each: no tuples, and operators are spelt out."""
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        target, value = statement.target, statement.value
        if not isinstance(target, ast.Name) or value is None:
            return [statement]
        if isinstance(statement, ast.AugAssign):
            value = ast.BinOp(trees.variable(target.id), statement.op, value)
        return [trees.assign(target.id, value)]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return _untupled(statement, statement.targets[0], statement.value)
    return [statement]


def _untupled(statement: ast.Assign, target: ast.expr, value: ast.expr) -> trees.Block:
    """`a, b = x, y` as two statements, unless `y` reads what `a` was before."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return [statement]
    if len(target.elts) != len(value.elts):
        return [statement]
    parts: trees.Block = []
    for at, (left, right) in enumerate(zip(target.elts, value.elts)):
        later = ast.Tuple(value.elts[at + 1 :], ast.Load())
        if not isinstance(left, ast.Name) or left.id in trees.reads(later):
            return [statement]
        parts.append(trees.assign(left.id, copy.copy(right)))
    return parts


def inline_calls(body: trees.Block, functions: Mapping[str, ast.FunctionDef]) -> trees.Block:
    """The body with what helpers do in place of their calls; one that returns early stays."""
    taken = {name.id for statement in body for name in trees.names_in(statement)}
    plain = {}
    for name, function in functions.items():
        returns = [s for s in trees.all_statements(function.body) if isinstance(s, ast.Return)]
        returns_at_end = all(r is function.body[-1] and r.value for r in returns)
        if returns_at_end and not function.args.vararg and not function.args.kwarg:
            plain[name] = function

    def written_out(statement: ast.stmt) -> trees.Block:
        visitor = _Calls(plain, taken)
        if isinstance(statement, ast.For):
            statement.iter = visitor.visit(statement.iter)
        elif isinstance(statement, ast.If):
            statement.test = visitor.visit(statement.test)
        elif not isinstance(statement, trees.COMPOUND):
            statement = visitor.visit(statement)
        return [*visitor.before, statement]

    return trees.expand_statements(body, written_out)


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
        body = trees.substitute(body, direct)
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
