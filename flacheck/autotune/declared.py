"""An autotuned kernel as its source declares it: arguments, keys and where they stand, read with
`ast`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.source.kernel_source import KernelSource

_TUNERS = ("autotune", "fla_cache_autotune")


@dataclass(frozen=True)
class Span:
    """A part of a source file, lines from 1, with what stands before and after it on its first and
    last line.
    """

    line: int
    end_line: int
    text: str
    before: str
    after: str

    def rewritten(self, text: str) -> str:
        """Its lines with another text in its place."""
        return self.before + text + self.after


@dataclass(frozen=True)
class Declared:
    """`keys` with the line of each; `key_list` is the list itself where it is written out;
    `signature` the parameters between the parentheses of `def`, `parameters` each with its text and
    line; `jit_line` where `@triton.jit` stands.

    `heuristics` are names that @triton.heuristics supplies before the autotuner sees the arguments;
    `unspecialized` are those that the compiler is told not to look at. `file` is None for a source
    that lies in no file, whose lines then mean nothing.
    """

    file: str | None
    line: int
    arguments: tuple[str, ...]
    constexprs: tuple[str, ...]
    keys: tuple[tuple[str, int], ...]
    key_list: Span | None
    signature: Span
    parameters: tuple[tuple[str, str, int], ...]
    jit_line: int
    heuristics: tuple[str, ...] = ()
    unspecialized: tuple[str, ...] = ()

    def key_line(self, name: str) -> int:
        """Where a key stands; the list's line for one that the source does not spell out."""
        listed = self.key_list.line if self.key_list else self.line
        return dict(self.keys).get(name, listed)

    def with_keys(self, names: Iterable[str]) -> str:
        """The lines of the key list with these names in it, ready to paste."""
        quote = '"' if self.key_list and '"' in self.key_list.text else "'"
        written = "[" + ", ".join(f"{quote}{name}{quote}" for name in names) + "]"
        return self.key_list.rewritten(written) if self.key_list else f"key={written},"

    def moved_last(self, names: Sequence[str]) -> str:
        """The lines of the signature with these parameters behind all others but those with a
        default.
        """
        ordered = sorted(
            self.parameters, key=lambda parameter: ("=" in parameter[1], parameter[0] in names)
        )
        body = "".join(f"    {text},\n" for _, text, _ in ordered)
        return self.signature.rewritten(f"\n{body}")


def of_module(root: Path, kernel: str) -> Declared | None:
    """The kernel `module:qualname` below a folder for imports; None for one that is not at a
    module's top level.
    """
    module, _, qualname = kernel.partition(":")
    base = root.joinpath(*module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_file():
            return of_file(file, qualname, str(file.relative_to(root)))
    return None


def of_file(file: Path, name: str, shown: str) -> Declared | None:
    """The function of that name in a file that reports call `shown`."""
    try:
        source = _source(file)
    except (MatrixError, UnicodeDecodeError):
        return None
    function = source.function(name)
    return _declared(source, function, shown) if function else None


def of_text(text: str, name: str) -> Declared | None:
    """The function of that name in a source that was cut out of its file."""
    source = KernelSource.parsed(Path("<cut>"), text)
    function = source.function(name)
    return _declared(source, function, None) if function else None


def names_in(file: Path) -> list[str]:
    """The autotuned functions of a file; none of one that is no Python."""
    try:
        if b"autotune" not in file.read_bytes():
            return []
        source = _source(file)
    except (MatrixError, UnicodeDecodeError):
        return []
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if _tuner(node)]


@lru_cache(maxsize=64)
def _source(file: Path) -> KernelSource:
    return KernelSource.of(file)


def _declared(source: KernelSource, function: ast.FunctionDef, shown: str | None) -> Declared:
    tuner, lines = _tuner(function), source.text.splitlines()
    listed = _resolved(source, _argument(tuner, "key", 1)) if tuner else None
    parameters = [*function.args.posonlyargs, *function.args.args]
    keys = (
        [(str(e.value), e.lineno) for e in listed.elts if isinstance(e, ast.Constant)]
        if listed
        else []
    )
    return Declared(
        file=shown,
        line=function.lineno,
        arguments=tuple(p.arg for p in parameters),
        constexprs=tuple(
            p.arg for p in parameters if p.annotation and "constexpr" in ast.unparse(p.annotation)
        ),
        keys=tuple(keys),
        key_list=_span(lines, listed) if listed else None,
        signature=_signature(lines, function),
        parameters=tuple(
            zip([p.arg for p in parameters], _written(function), [p.lineno for p in parameters])
        ),
        jit_line=next(
            (d.lineno for d in function.decorator_list if _name(d) == "jit"), function.lineno
        ),
        heuristics=tuple(_heuristics(source, function)),
        unspecialized=tuple(_unspecialized(function)),
    )


def _tuner(function: ast.FunctionDef) -> ast.Call | None:
    return next(
        (d for d in function.decorator_list if isinstance(d, ast.Call) and _called(d) in _TUNERS),
        None,
    )


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _name(decorator: ast.expr) -> str:
    return (
        _called(decorator)
        if isinstance(decorator, ast.Call)
        else ast.unparse(decorator).rpartition(".")[2]
    )


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return given.get(name) or (call.args[position] if len(call.args) > position else None)


def _resolved(source: KernelSource, node: ast.expr | None) -> ast.List | ast.Tuple | None:
    """The list itself, or what a module-level name stands for."""
    if isinstance(node, ast.Name):
        bound = source.bound.get(node.id, ())
        node = bound[-1].value if bound and isinstance(bound[-1], ast.Assign) else None
    return node if isinstance(node, (ast.List, ast.Tuple)) else None


def _span(lines: Sequence[str], node: ast.expr) -> Span:
    """`ast` counts columns in bytes of UTF-8."""
    first, last = (
        lines[node.lineno - 1].encode(),
        lines[(node.end_lineno or node.lineno) - 1].encode(),
    )
    start, end = node.col_offset, node.end_col_offset or 0
    inside = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return Span(
        node.lineno,
        node.end_lineno or node.lineno,
        inside,
        first[:start].decode(),
        last[end:].decode(),
    )


def _signature(lines: Sequence[str], function: ast.FunctionDef) -> Span:
    """From `def` to the colon before the body; the parameters are what may be rewritten."""
    end = function.body[0].lineno - 1
    while end > function.lineno and not lines[end - 1].rstrip().endswith(":"):
        end -= 1
    inside = "\n".join(lines[function.lineno - 1 : end])
    return Span(function.lineno, end, inside, f"def {function.name}(", "):")


def _written(function: ast.FunctionDef) -> list[str]:
    """Each parameter with its annotation and default."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(parameters) - len(function.args.defaults)) + list(
        function.args.defaults
    )
    return [
        ast.unparse(parameter) + (f" = {ast.unparse(default)}" if default else "")
        for parameter, default in zip(parameters, defaults)
    ]


def _heuristics(source: KernelSource, function: ast.FunctionDef) -> list[str]:
    """Names supplied by heuristics that stand above the autotuner."""
    names: list[str] = []
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and _called(decorator) in _TUNERS:
            break
        if isinstance(decorator, ast.Call) and _called(decorator) == "heuristics":
            values = _argument(decorator, "values", 0)
            if isinstance(values, ast.Dict):
                names += [str(key.value) for key in values.keys if isinstance(key, ast.Constant)]
    return names


def _unspecialized(function: ast.FunctionDef) -> list[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and _called(decorator) == "jit":
            given = {keyword.arg: keyword.value for keyword in decorator.keywords}
            listed = given.get("do_not_specialize")
            if isinstance(listed, (ast.List, ast.Tuple)):
                return [str(e.value) for e in listed.elts if isinstance(e, ast.Constant)]
    return []
