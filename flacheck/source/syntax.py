"""What syntax says at a glance: names, parameters, what a statement binds, what a call is given."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITION = (*FUNCTION, ast.ClassDef)
# An argument holds nothing but its annotation; the others hold nothing, and are most of a tree.
_LEAVES = (ast.arg, ast.Constant, ast.expr_context, ast.operator, ast.cmpop)
# As it is imported: `import triton`, or `from triton import jit`.
_JIT = ("triton.jit", "jit")


# A module is read by several readers, one soon after the other; the trees of a whole package take
# a hundred megabytes, so only the last few stay.
@lru_cache(maxsize=64)
def parse(source: bytes | str) -> ast.Module:
    """The syntax tree of a module, shared by all who read it: nobody changes it. Raises SyntaxError
    and what else the parser raises for text that is not Python."""
    with warnings.catch_warnings():
        # Invalid escapes in other people's strings are none of our user's concern.
        warnings.simplefilter("ignore")
        return ast.parse(source)


def tree(source: bytes | str) -> ast.Module:
    """The syntax tree of a module, empty when the text is not Python."""
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def content(file: Path) -> bytes:
    """The bytes of a file, none of a file that cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def dotted_name(node: ast.AST | None) -> str | None:
    """`a.b.c` of a name or a chain of attributes, None for all else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted_name(node.value)):
        return f"{base}.{node.attr}"
    return None


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The plain names among some nodes, not those below them."""
    return (node.id for node in nodes if isinstance(node, ast.Name))


def names_below(node: ast.AST) -> set[str]:
    """Every plain name in a node."""
    return set(names_in(ast.walk(node)))


def called_name(node: ast.AST) -> str:
    """The last part of the name that is called, or of a name itself: `cdiv` of `triton.cdiv(…)`."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return getattr(node, "id", "")


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call is given for a parameter, by name or, where it may be, by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and len(call.args) > position:
        return call.args[position]
    return None


def elements(node: ast.AST | None) -> list[ast.expr]:
    """The elements of a list or a tuple that is written out, none of anything else."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return list(node.elts)
    return []


def constants_in(node: ast.AST | None) -> list[ast.Constant]:
    """The constants among the elements of a list or a tuple."""
    return [each for each in elements(node) if isinstance(each, ast.Constant)]


def parameters(function: Function) -> list[ast.arg]:
    """The parameters of a function, less `*args` and `**kwargs`."""
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    by_place = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(by_place), reversed(arguments.defaults)),
        *zip(arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return {parameter.arg: default for parameter, default in pairs if default is not None}


def is_kernel(node: ast.AST) -> bool:
    """Whether a function is compiled by Triton (`@triton.jit`, perhaps with arguments)."""
    if not isinstance(node, FUNCTION):
        return False
    decorators = (getattr(decorator, "func", decorator) for decorator in node.decorator_list)
    return any(dotted_name(decorator) in _JIT for decorator in decorators)


def launched_name(node: ast.AST) -> str | None:
    """The name of the kernel that a call launches (`name[grid](…)`), None for any other node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
        return getattr(node.func.value, "id", None)
    return None


def first_line(statement: ast.stmt) -> int:
    """The line on which a statement begins, its decorators included."""
    if isinstance(statement, DEFINITION):
        return min([statement.lineno, *(d.lineno for d in statement.decorator_list)])
    return statement.lineno


def targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    if isinstance(node, ast.Assign):
        return node.targets
    return []


def evaluated_parts(node: ast.AST) -> Iterable[ast.AST]:
    """A node's children without annotations: naming a layer as a type does not run it."""
    if isinstance(node, FUNCTION):
        return [*node.decorator_list, node.args, *node.body]
    if isinstance(node, ast.AnnAssign):
        return [part for part in (node.target, node.value) if part]
    if isinstance(node, _LEAVES):
        return ()
    return ast.iter_child_nodes(node)


def dotted_parts(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Every name or chain of attributes that is evaluated in some nodes, in whatever branch."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if dotted_name(node):
            yield node
        else:
            todo += evaluated_parts(node)


def stored_names(*nodes: ast.AST) -> frozenset[str]:
    """Every variable and attribute that is assigned in some nodes."""
    parts = dotted_parts(*nodes)
    return frozenset(
        str(dotted_name(part))
        for part in parts
        if isinstance(getattr(part, "ctx", None), ast.Store)
    )


def inner_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements that a statement holds."""
    for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for field in ("body", "orelse", "finalbody"):
            yield getattr(part, field, [])
