"""Simple queries on syntax trees: names, parameters, assignments and call arguments."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from flacheck import files
from flacheck.guest.pysource.functions import dotted_name, last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITION = (*FUNCTION, ast.ClassDef)
# After `import triton`, and after `from triton import jit`.
_JIT = ("triton.jit", "jit")


# Several readers parse the same module shortly after each other. The trees of a whole package take
# a hundred megabytes, so the cache holds only the last few.
@lru_cache(maxsize=64)
def parse(source: bytes | str) -> ast.Module:
    """Parse a module; the tree is shared, so callers must not change it.

    Raises SyntaxError and the parser's other errors for text that is not Python.
    """
    with warnings.catch_warnings():
        # A user of flacheck cannot mend invalid escapes in a package's strings.
        warnings.simplefilter("ignore")
        return ast.parse(source)


def tree(source: bytes | str) -> ast.Module:
    """Return the syntax tree of a module, empty if the text is not Python."""
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def content(file: Path) -> bytes:
    """Return the bytes of a file, empty if the file cannot be read."""
    try:
        return files.read_bytes(file, links=True)
    except OSError:
        return b""


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Return the plain names among some nodes, not those below them."""
    return (node.id for node in nodes if isinstance(node, ast.Name))


def called_name(node: ast.AST) -> str:
    """Return the last part of the called name, or of a name: `cdiv` for `triton.cdiv(…)`."""
    if isinstance(node, ast.Call):
        node = node.func
    return last_name(node)


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return a call's argument for a parameter, passed by name or at a position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and len(call.args) > position:
        return call.args[position]
    return None


def elements(node: ast.AST | None) -> list[ast.expr]:
    """Return the elements of a list or tuple display, an empty list for any other node."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return list(node.elts)
    return []


def constants_in(node: ast.AST | None) -> list[ast.Constant]:
    """Return the constants among the elements of a list or a tuple."""
    return [each for each in elements(node) if isinstance(each, ast.Constant)]


def defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Return the default of each parameter that has one."""
    positional = [*arguments.posonlyargs, *arguments.args]
    by_name: dict[str, ast.expr] = {}
    # Defaults belong to the last positional parameters.
    for parameter, default in zip(reversed(positional), reversed(arguments.defaults)):
        by_name[parameter.arg] = default
    for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if keyword_default is not None:
            by_name[parameter.arg] = keyword_default
    return by_name


def is_kernel(node: ast.AST) -> bool:
    """Return True for a function that Triton compiles (`@triton.jit`, perhaps with arguments)."""
    if not isinstance(node, FUNCTION):
        return False
    for decorator in node.decorator_list:
        function = getattr(decorator, "func", decorator)
        if is_jit(function):
            return True
    return False


def is_jit(node: ast.AST) -> bool:
    """Return True for the name of Triton's decorator of kernels."""
    return dotted_name(node) in _JIT


def launched_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of what a call may launch.

    `name[grid](…)`, `wrap_triton(name)[grid](…)`, `(a if c else b)[grid](…)`, `name.run(…)`.
    """
    match getattr(node, "func", None):
        case ast.Subscript(value) | ast.Attribute(value, "run" | "warmup"):
            yield from possible_names(value)


def possible_names(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that an expression may be worth.

    Calls may be wrappers (`triton.autotune(…)(name)`), branches and containers hold several values.
    """
    name = dotted_name(node)
    if name is not None:
        yield name
        return
    parts: list[ast.AST] = []
    match node:
        case ast.IfExp():
            parts = [node.body, node.orelse]
        case ast.Call(ast.Name("getattr"), [owner, ast.Constant(str(attribute)), *_]):
            yield f"{dotted_name(owner)}.{attribute}"
        case ast.Call():
            parts = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
        case ast.Tuple() | ast.List() | ast.Set():
            parts = [*node.elts]
        case ast.Dict() | ast.BoolOp():
            parts = [*node.values]
        case ast.Subscript() | ast.Starred() | ast.DictComp():
            parts = [node.value]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            parts = [node.elt]
    for part in parts:
        yield from possible_names(part)


def first_line(statement: ast.stmt) -> int:
    """Return the line on which a statement begins, its decorators included."""
    line = statement.lineno
    if isinstance(statement, DEFINITION):
        for decorator in statement.decorator_list:
            line = min(line, decorator.lineno)
    return line


def targets(node: ast.stmt) -> list[ast.expr]:
    """Return the targets of an assignment, an empty list for any other statement."""
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return [node.target]
    if isinstance(node, ast.Assign):
        return node.targets
    return []


def inner_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements in a statement."""
    for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        for field in ("body", "orelse", "finalbody"):
            yield getattr(part, field, [])
