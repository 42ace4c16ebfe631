"""Edits of specimens: other statements, nodes or parameters."""

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import Block, copied, names_in, without_dead
from flacheck.guest.pysource.functions import names_of
from flacheck.guest.pysource.functions import parameters as all_parameters
from flacheck.source.kernel_source import free_names

# Names of new pointers, as in Triton's own tests: x and y are the most familiar.
_POINTERS = "xyzwuvst"


def rewrite(
    specimen: Specimen,
    body: Block,
    args: Mapping[str, Any] | None = None,
    decorators: Sequence[ast.expr] | None = None,
) -> Specimen:
    """Return the specimen with this body without dead code; `args` has its parameters.

    The body must not share nodes with the specimen's tree.
    """
    if args is None:
        args = specimen.args
    old = specimen.function
    function = copy.copy(old)
    function.body = without_dead(body) or [ast.Pass()]
    # The remaining parameters in their order, then new ones.
    parameters = {parameter.arg: parameter for parameter in all_parameters(old)}
    left = [
        p for name, p in parameters.items() if name in args or name in specimen.omitted_parameters
    ]
    new = [ast.arg(name) for name in args if name not in parameters]
    function.args = ast.arguments(
        posonlyargs=[], args=[*left, *new], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function.decorator_list = [
        _without_removed_parameters(decorator, args)
        for decorator in decorators or old.decorator_list
    ]
    module = list(specimen.tree.body)
    module[module.index(old)] = function
    return specimen.with_(source=_module_text(module, function), args=dict(args))


def replace_nodes(
    specimen: Specimen, new: Mapping[ast.AST, ast.AST], args: Mapping[str, Any] | None = None
) -> Specimen:
    """Return the specimen with nodes of its tree replaced; identity decides about a node."""
    by_identity = {id(old): node for old, node in new.items()}
    return rewrite(specimen, copied(specimen.function.body, by_identity), args)


def without_parameters(specimen: Specimen, names: Iterable[str]) -> Specimen:
    """Return the specimen without these parameters."""
    args = dict(specimen.args)
    for name in names:
        args.pop(name, None)
    return rewrite(specimen, specimen.copied_body(), args)


def drop_unread_parameters(specimen: Specimen) -> Specimen:
    """Return the specimen without the parameters that no statement reads."""
    names = _names_in_body(specimen)
    unread = [name for name in specimen.args if name not in names]
    if not unread:
        return specimen
    return without_parameters(specimen, unread)


def pointer_to(dtype: str, args: dict[str, Any], specimen: Specimen) -> str:
    """Return the parameter that points to a dtype; if there is none, add one to `args`."""
    for name, spec in args.items():
        if isinstance(spec, Mapping) and spec.get("dtype") == dtype:
            return name
    reserved = {*args, *_names_in_body(specimen)}
    new = f"{dtype}_pointer"
    for letter in _POINTERS:
        if letter not in reserved:
            new = letter
            break
    # The alignment of torch's allocations; the last passes try without it.
    args[new] = {"dtype": dtype, "align": 16}
    return new


def _names_in_body(specimen: Specimen) -> set[str]:
    return names_of(ast.Module(specimen.function.body, []))


def _without_removed_parameters(decorator: ast.expr, args: Mapping[str, Any]) -> ast.expr:
    """Return `@triton.jit(do_not_specialize=[…])` without removed parameters."""
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "triton.jit":
        return decorator
    keywords = []
    for keyword in decorator.keywords:
        value = keyword.value
        if isinstance(value, (ast.List, ast.Tuple)):
            items = [e for e in value.elts if not isinstance(e, ast.Constant) or e.value in args]
            if not items:
                continue
            keyword = ast.keyword(keyword.arg, type(value)(items, ast.Load()))
        keywords.append(keyword)
    if not keywords:
        return decorator.func
    return ast.Call(decorator.func, decorator.args, keywords)


def _module_text(module: Block, kernel: ast.FunctionDef) -> str:
    """Return the text of a module: its imports and the statements that the kernel uses."""
    # The text below begins with these two imports.
    usual = ("triton", "triton.language")
    dependencies = _dependencies(module, kernel)
    imports: Block = []
    others: Block = []
    for statement in module:
        if isinstance(statement, ast.Import) and statement.names[0].name not in usual:
            imports.append(statement)
        if statement in dependencies:
            others.append(statement)
    rest = ast.Module([*imports, *others], [])
    ast.fix_missing_locations(rest)
    parts = [ast.unparse(statement).strip() for statement in rest.body]
    return "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n"


def _dependencies(module: Block, kernel: ast.FunctionDef) -> set[ast.stmt]:
    """Return the kernel with the functions and constants that it uses directly or indirectly."""
    definitions: dict[str, ast.stmt] = {}
    for statement in module:
        if isinstance(statement, ast.FunctionDef):
            definitions[statement.name] = statement
            continue
        for name in names_in(statement):
            if isinstance(name.ctx, ast.Store):
                definitions[name.id] = statement
    dependencies: set[ast.stmt] = {kernel}
    waiting: list[ast.stmt] = [kernel]
    while waiting:
        names = free_names(waiting.pop()) & set(definitions)
        uses = {definitions[name] for name in names}
        waiting += uses - dependencies
        dependencies |= uses
    return dependencies
