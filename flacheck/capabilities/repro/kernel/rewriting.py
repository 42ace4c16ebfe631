"""Specimens written again with other statements, nodes or parameters."""

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import Block, names_in, without_dead
from flacheck.source import syntax
from flacheck.source.kernel_source import free_names

# Names of new pointers, after those of Triton's own tests: x and y are most read.
_POINTERS = "xyzwuvst"


def rewrite(
    specimen: Specimen,
    body: Block,
    args: Mapping[str, Any] | None = None,
    decorators: Sequence[ast.expr] | None = None,
) -> Specimen:
    """The specimen with this body, less dead code; its parameters are the keys of `args`. The body
    must not share nodes with the specimen's tree."""
    if args is None:
        args = specimen.args
    old = specimen.function
    function = copy.copy(old)
    function.body = without_dead(body) or [ast.Pass()]
    # The parameters that are left, in their order, then new ones.
    parameters = {parameter.arg: parameter for parameter in syntax.parameters(old)}
    left = [
        p for name, p in parameters.items() if name in args or name in specimen.omitted_parameters
    ]
    new = [ast.arg(name) for name in args if name not in parameters]
    function.args = ast.arguments(
        posonlyargs=[], args=[*left, *new], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function.decorator_list = [
        _without_lost_parameters(decorator, args) for decorator in decorators or old.decorator_list
    ]
    module = [function if statement is old else statement for statement in specimen.tree.body]
    return specimen.with_(source=_written(module, function), args=dict(args))


def replace_nodes(
    specimen: Specimen, new: Mapping[ast.AST, ast.AST], args: Mapping[str, Any] | None = None
) -> Specimen:
    """The specimen with nodes of its tree replaced; each node is known by identity."""
    memo: dict[int, Any] = {id(old): node for old, node in new.items()}
    return rewrite(specimen, copy.deepcopy(specimen.function.body, memo), args)


def without_parameters(specimen: Specimen, names: Iterable[str]) -> Specimen:
    doomed = set(names)
    args = {name: spec for name, spec in specimen.args.items() if name not in doomed}
    return rewrite(specimen, specimen.copied_body(), args)


def drop_unread_parameters(specimen: Specimen) -> Specimen:
    """Without the parameters that nothing reads."""
    read = {name.id for statement in specimen.function.body for name in names_in(statement)}
    unread = [name for name in specimen.args if name not in read]
    if not unread:
        return specimen
    return without_parameters(specimen, unread)


def pointer_to(dtype: str, args: dict[str, Any], specimen: Specimen) -> str:
    """The parameter that points to a dtype; where none does, a new one is added to `args`."""
    for name, spec in args.items():
        if isinstance(spec, Mapping) and spec.get("dtype") == dtype:
            return name
    taken = {*args, *(n.id for s in specimen.function.body for n in names_in(s))}
    new = next((letter for letter in _POINTERS if letter not in taken), f"{dtype}_pointer")
    # As aligned as what torch allocates; the last passes try without.
    args[new] = {"dtype": dtype, "align": 16}
    return new


def _without_lost_parameters(decorator: ast.expr, args: Mapping[str, Any]) -> ast.expr:
    """`@triton.jit(do_not_specialize=[…])` without parameters that are gone."""
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "triton.jit":
        return decorator
    keywords = []
    for keyword in decorator.keywords:
        value = keyword.value
        if isinstance(value, (ast.List, ast.Tuple)):
            left = [e for e in value.elts if not isinstance(e, ast.Constant) or e.value in args]
            if not left:
                continue
            keyword = ast.keyword(keyword.arg, type(value)(left, ast.Load()))
        keywords.append(keyword)
    if not keywords:
        return decorator.func
    return ast.Call(decorator.func, decorator.args, keywords)


def _written(module: Block, kernel: ast.FunctionDef) -> str:
    """The text of a module: Triton's imports, other plain imports, what the kernel uses."""
    # The head that is written below has them already.
    usual = ("triton", "triton.language")
    imports = [s for s in module if isinstance(s, ast.Import) and s.names[0].name not in usual]
    used = _used(module, kernel)
    left = ast.Module([*imports, *(s for s in module if s in used)], [])
    ast.fix_missing_locations(left)
    parts = [ast.unparse(statement).strip() for statement in left.body]
    return "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n"


def _used(module: Block, kernel: ast.FunctionDef) -> set[ast.stmt]:
    """The functions and constants that the kernel needs, directly or not, and itself."""
    bound: dict[str, ast.stmt] = {}
    for statement in module:
        if isinstance(statement, ast.FunctionDef):
            bound[statement.name] = statement
            continue
        for name in names_in(statement):
            if isinstance(name.ctx, ast.Store):
                bound[name.id] = statement
    used: set[ast.stmt] = {kernel}
    waiting: list[ast.stmt] = [kernel]
    while waiting:
        needed = {bound[name] for name in free_names(waiting.pop()) & set(bound)}
        waiting += needed - used
        used |= needed
    return used
