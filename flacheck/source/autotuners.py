"""An autotuned kernel as its source declares it: arguments, keys and where they stand."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.source.kernel_source import KernelSource
from flacheck.source.modules import file_of
from flacheck.source.syntax import argument, called_name, constants_in, defaults

# Triton's own, and the one by which flash-linear-attention wraps it.
_TUNERS = ("autotune", "fla_cache_autotune")


@dataclass(frozen=True)
class Span:
    """A part of a source file, lines from 1, and what stands before and after it on these lines."""

    line: int
    end_line: int
    text: str
    before: str
    after: str

    def with_text(self, text: str) -> str:
        """Its lines with another text in its place."""
        return self.before + text + self.after


@dataclass(frozen=True)
class AutotunedKernel:
    """`keys` with the line of each; `key_list` is the list itself where it is written out;
    `signature` the parameters between the parentheses of `def`, `parameters` each with its text and
    line; `jit_line` where `@triton.jit` stands.

    `heuristics` are names that @triton.heuristics supplies before the autotuner sees the arguments;
    `do_not_specialize` are those on whose values Triton does not specialize. `file` is None for a
    source that lies in no file, whose lines then mean nothing.
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
    do_not_specialize: tuple[str, ...] = ()

    def with_keys(self, names: Iterable[str]) -> str:
        """The lines of the key list with these names in it, ready to paste."""
        if self.key_list is None:
            return f"key=[{', '.join(map(repr, names))}],"
        quote = "'"
        if '"' in self.key_list.text:
            quote = '"'
        listed = ", ".join(f"{quote}{name}{quote}" for name in names)
        return self.key_list.with_text(f"[{listed}]")

    def with_parameters_last(self, names: Sequence[str]) -> str:
        """The signature's lines with these parameters last, before those that have a default."""
        ordered = sorted(
            self.parameters, key=lambda parameter: ("=" in parameter[1], parameter[0] in names)
        )
        body = "".join(f"    {text},\n" for _, text, _ in ordered)
        return self.signature.with_text(f"\n{body}")


def of_module(root: Path, kernel: str) -> AutotunedKernel | None:
    """The kernel `module:qualname` below a folder; None unless at a module's top level."""
    module, _, qualname = kernel.partition(":")
    file = file_of(root, module)
    if file is None:
        return None
    return of_file(file, qualname, str(file.relative_to(root)))


def of_file(file: Path, name: str, shown: str) -> AutotunedKernel | None:
    """The function of that name in a file that reports call `shown`."""
    try:
        return _declared(KernelSource.of(file), name, shown)
    except (MatrixError, UnicodeDecodeError):
        return None


def of_text(text: str, name: str) -> AutotunedKernel | None:
    """The function of that name in a source that was cut out of its file."""
    return _declared(KernelSource.from_text(Path("<cut>"), text), name, None)


def names_in(file: Path, tuners: Sequence[str] = _TUNERS) -> list[str]:
    """Return the functions of a file with one of these decorators; none of one that is not
    Python."""
    try:
        # A package has hundreds of files, and few of them tune anything.
        if b"autotune" not in file.read_bytes():
            return []
        source = KernelSource.of(file)
    except (MatrixError, UnicodeDecodeError):
        return []
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if any(_decorations(node, *tuners))]


def _declared(source: KernelSource, name: str, shown: str | None) -> AutotunedKernel | None:
    function = source.function(name)
    if function is None:
        return None
    lines = source.text.splitlines()
    tuner = next(_decorations(function, *_TUNERS), None)
    listed = _key_list(source, tuner)
    parameters = [*function.args.posonlyargs, *function.args.args]
    names = [parameter.arg for parameter in parameters]
    jit_lines = (d.lineno for d in function.decorator_list if called_name(d) == "jit")
    jit = next(_decorations(function, "jit"), None)
    do_not_specialize = jit and argument(jit, "do_not_specialize")
    return AutotunedKernel(
        file=shown,
        line=function.lineno,
        arguments=tuple(names),
        constexprs=tuple(
            parameter.arg
            for parameter in parameters
            if parameter.annotation and "constexpr" in ast.unparse(parameter.annotation)
        ),
        keys=tuple((str(key.value), key.lineno) for key in constants_in(listed)),
        key_list=_span(lines, listed),
        signature=_signature(lines, function),
        parameters=tuple(zip(names, _written(function), [each.lineno for each in parameters])),
        jit_line=next(jit_lines, function.lineno),
        heuristics=tuple(_heuristics(function)),
        do_not_specialize=tuple(str(each.value) for each in constants_in(do_not_specialize)),
    )


def _decorations(function: ast.FunctionDef, *names: str) -> Iterator[ast.Call]:
    """The decorators of these names that are called, the outermost first."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and called_name(decorator) in names:
            yield decorator


def _key_list(source: KernelSource, tuner: ast.Call | None) -> ast.List | ast.Tuple | None:
    """The list itself, or what a module-level name stands for."""
    node = tuner and argument(tuner, "key", 1)
    if isinstance(node, ast.Name):
        bound = source.bound.get(node.id, ())
        node = None
        if bound and isinstance(bound[-1], ast.Assign):
            node = bound[-1].value
    if isinstance(node, (ast.List, ast.Tuple)):
        return node
    return None


def _span(lines: Sequence[str], node: ast.expr | None) -> Span | None:
    if node is None:
        return None
    end_line = node.end_lineno or node.lineno
    # `ast` counts columns in bytes of UTF-8.
    first, last = lines[node.lineno - 1].encode(), lines[end_line - 1].encode()
    return Span(
        line=node.lineno,
        end_line=end_line,
        text="\n".join(lines[node.lineno - 1 : end_line]),
        before=first[: node.col_offset].decode(),
        after=last[node.end_col_offset :].decode(),
    )


def _signature(lines: Sequence[str], function: ast.FunctionDef) -> Span:
    """From `def` to the colon before the body; the parameters are what may be with_text."""
    end = function.body[0].lineno - 1
    while end > function.lineno and not lines[end - 1].rstrip().endswith(":"):
        end -= 1
    inside = "\n".join(lines[function.lineno - 1 : end])
    return Span(function.lineno, end, inside, f"def {function.name}(", "):")


def _written(function: ast.FunctionDef) -> Iterator[str]:
    """Each parameter with its annotation and default."""
    given = defaults(function.args)
    for parameter in (*function.args.posonlyargs, *function.args.args):
        text = ast.unparse(parameter)
        if parameter.arg in given:
            text += f" = {ast.unparse(given[parameter.arg])}"
        yield text


def _heuristics(function: ast.FunctionDef) -> Iterator[str]:
    """Names supplied by heuristics that stand above the autotuner."""
    # Those below it run after the autotuner has looked its keys up.
    for decorator in _decorations(function, "heuristics", *_TUNERS):
        if called_name(decorator) in _TUNERS:
            break
        values = argument(decorator, "values", 0)
        if isinstance(values, ast.Dict):
            yield from (str(key.value) for key in values.keys if isinstance(key, ast.Constant))
