"""Autotuned kernels as their source declares them: arguments, keys and their lines."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck import files
from flacheck.errors import MatrixError
from flacheck.source.kernel_source import KernelSource
from flacheck.source.modules import file_of
from flacheck.source.syntax import argument, called_name, constants_in, defaults

# Triton's decorator, and the one by which flash-linear-attention wraps it.
_TUNERS = ("autotune", "fla_cache_autotune")


@dataclass(frozen=True)
class Span:
    """A part of a source file: lines from 1, and the text before and after it on these lines."""

    line: int
    end_line: int
    text: str
    before: str
    after: str

    def with_text(self, text: str) -> str:
        """Return the lines with the span replaced by a text."""
        return self.before + text + self.after


@dataclass(frozen=True)
class AutotunedKernel:
    """An autotuned kernel and its decorators.

    `keys` pairs each key with its line; `key_list` is the list's span if it is written out.
    `signature` spans the parameters between the parentheses of `def`; `parameters` holds each with
    its text and line. `jit_line` is the line of `@triton.jit`. `heuristics` are the names that
    @triton.heuristics supplies before the autotuner reads the arguments. `do_not_specialize` are
    the arguments on whose values Triton does not specialize. `file` is None for a source outside
    any file; its lines are then meaningless.
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
        """Return the lines of the key list with these names in it, ready to paste."""
        if self.key_list is None:
            return f"key=[{', '.join(map(repr, names))}],"
        quote = "'"
        if '"' in self.key_list.text:
            quote = '"'
        keys = ", ".join(f"{quote}{name}{quote}" for name in names)
        return self.key_list.with_text(f"[{keys}]")

    def with_parameters_last(self, names: Sequence[str]) -> str:
        """Return the signature's lines with these parameters last, before those with a default."""

        def position(parameter: tuple[str, str, int]) -> tuple[bool, bool]:
            name, text, _ = parameter
            return "=" in text, name in names

        body = ""
        for _, text, _ in sorted(self.parameters, key=position):
            body += f"    {text},\n"
        return self.signature.with_text(f"\n{body}")


def of_module(root: Path, kernel: str) -> AutotunedKernel | None:
    """Read the kernel `module:qualname` below a folder; None unless at a module's top level."""
    module, _, qualname = kernel.partition(":")
    file = file_of(root, module)
    if file is None:
        return None
    return of_file(file, qualname, str(file.relative_to(root)))


def of_file(file: Path, name: str, label: str) -> AutotunedKernel | None:
    """Read the function of that name in a file; reports show the file as `label`."""
    try:
        return _read(KernelSource.of(file), name, label)
    except (MatrixError, UnicodeDecodeError):
        return None


def of_text(text: str, name: str) -> AutotunedKernel | None:
    """Read the function of that name in a source that was cut out of its file."""
    return _read(KernelSource.from_text(Path("<cut>"), text), name, None)


def names_in(file: Path, tuners: Sequence[str] = _TUNERS) -> list[str]:
    """Return the functions of a file with one of these decorators; none if it is not Python."""
    try:
        # A package has hundreds of files, and few of them have an autotuner.
        if b"autotune" not in files.read_bytes(file, links=True):
            return []
        source = KernelSource.of(file)
    except (MatrixError, UnicodeDecodeError):
        return []
    names = []
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and any(_decorations(node, *tuners)):
            names.append(node.name)
    return names


def _read(source: KernelSource, name: str, label: str | None) -> AutotunedKernel | None:
    function = source.function(name)
    if function is None:
        return None
    lines = source.text.splitlines()
    tuner = next(_decorations(function, *_TUNERS), None)
    key_list = _key_list(source, tuner)
    parameters = [*function.args.posonlyargs, *function.args.args]
    names = [parameter.arg for parameter in parameters]
    jit_line = function.lineno
    for decorator in reversed(function.decorator_list):
        if called_name(decorator) == "jit":
            jit_line = decorator.lineno
    jit = next(_decorations(function, "jit"), None)
    do_not_specialize = jit and argument(jit, "do_not_specialize")
    constexprs = []
    for parameter in parameters:
        if parameter.annotation and "constexpr" in ast.unparse(parameter.annotation):
            constexprs.append(parameter.arg)
    texts = _parameter_texts(function)
    parameter_lines = [parameter.lineno for parameter in parameters]
    return AutotunedKernel(
        file=label,
        line=function.lineno,
        arguments=tuple(names),
        constexprs=tuple(constexprs),
        keys=tuple((str(key.value), key.lineno) for key in constants_in(key_list)),
        key_list=_span(lines, key_list),
        signature=_signature(lines, function),
        parameters=tuple(zip(names, texts, parameter_lines)),
        jit_line=jit_line,
        heuristics=tuple(_heuristics(function)),
        do_not_specialize=tuple(str(each.value) for each in constants_in(do_not_specialize)),
    )


def _decorations(function: ast.FunctionDef, *names: str) -> Iterator[ast.Call]:
    """Yield the decorators that are calls of these names, the outermost first."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and called_name(decorator) in names:
            yield decorator


def _key_list(source: KernelSource, tuner: ast.Call | None) -> ast.List | ast.Tuple | None:
    """Return the list of keys, also when the decorator names a module-level variable."""
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
    first = lines[node.lineno - 1].encode()
    last = lines[end_line - 1].encode()
    return Span(
        line=node.lineno,
        end_line=end_line,
        text="\n".join(lines[node.lineno - 1 : end_line]),
        before=first[: node.col_offset].decode(),
        after=last[node.end_col_offset :].decode(),
    )


def _signature(lines: Sequence[str], function: ast.FunctionDef) -> Span:
    """Return the span from `def` to the colon before the body; only parameters may be replaced."""
    end = function.body[0].lineno - 1
    while end > function.lineno and not lines[end - 1].rstrip().endswith(":"):
        end -= 1
    inside = "\n".join(lines[function.lineno - 1 : end])
    return Span(function.lineno, end, inside, f"def {function.name}(", "):")


def _parameter_texts(function: ast.FunctionDef) -> Iterator[str]:
    """Yield each parameter with its annotation and default."""
    default_of = defaults(function.args)
    for parameter in (*function.args.posonlyargs, *function.args.args):
        text = ast.unparse(parameter)
        if parameter.arg in default_of:
            text += f" = {ast.unparse(default_of[parameter.arg])}"
        yield text


def _heuristics(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names supplied by heuristics above the autotuner.

    Heuristics below it run after the autotuner has read its keys.
    """
    for decorator in _decorations(function, "heuristics", *_TUNERS):
        if called_name(decorator) in _TUNERS:
            break
        values = argument(decorator, "values", 0)
        if isinstance(values, ast.Dict):
            for key in values.keys:
                if isinstance(key, ast.Constant):
                    yield str(key.value)
