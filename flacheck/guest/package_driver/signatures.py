"""The dimensions that a function's signature spells out: in a comment behind a parameter
(`x: Tensor,  # [batch, heads, dim]`), or in its annotation (`IntTensor[n, 4]`, `Float[Tensor, "b n
d"]`, `Annotated[Tensor, "B, T"]`)."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

# Brackets with a list in them: `[B, T, H]`, `(num_tokens, 4)`.
_GROUP = re.compile(r"[\[(]([^\[\]()]{1,60})[\])]")
_OF_TENSOR = re.compile(r"Tensor\b|^(Float|Int|Bool|Num|Shaped|BFloat16|Float16|Float32)\[")
_QUOTED = re.compile(r"['\"]([^'\"]{1,60})['\"]")


def spelled_out(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Parameter and the text that lists its dimensions, with commas between them."""
    try:
        text = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        node = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return
    if not isinstance(node, ast.FunctionDef):
        return
    lines = text.splitlines()
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    starts = [each.lineno for each in parameters]
    for parameter in parameters:
        annotation = ""
        if parameter.annotation is not None:
            annotation = ast.unparse(parameter.annotation)
        # A line with two parameters speaks of neither alone.
        if starts.count(parameter.lineno) == 1:
            comment = _comment(lines[(parameter.end_lineno or parameter.lineno) - 1])
            group = _GROUP.search(comment)
            if group:
                yield parameter.arg, group[1]
        if _OF_TENSOR.search(annotation):
            yield from ((parameter.arg, said) for said in _annotated(annotation))


def _comment(line: str) -> str:
    """What stands behind the first `#`; a string may hold one, and then lists no dimensions."""
    return line.partition("#")[2]


def _annotated(annotation: str) -> Iterator[str]:
    quoted = _QUOTED.search(annotation)
    if quoted:
        said = quoted[1].strip()
        if "," not in said:
            said = ", ".join(said.split())
        yield said
        return
    listed = re.search(r"Tensor\[([^\[\]]{1,60})\]$", annotation)
    if listed:
        yield listed[1]
