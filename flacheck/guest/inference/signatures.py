"""Dimensions that a function's signature contains.

They are in a comment after a parameter (`x: Tensor,  # [batch, heads, dim]`) or in its annotation
(`IntTensor[n, 4]`, `Float[Tensor, "b n d"]`, `Annotated[Tensor, "B, T"]`).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from ..pysource.functions import Function, function_source

# Brackets around a list: `[B, T, H]`, `(num_tokens, 4)`.
_IGNORED = re.compile(r"\b(?:type: *ignore|pyright: *ignore|noqa)\b[^#]*")
_LIST = re.compile(r"[\[(]([^\[\]()]{1,60})[\])]")
_TENSOR_ANNOTATION = re.compile(r"Tensor\b|^(Float|Int|Bool|Num|Shaped|BFloat16|Float16|Float32)\[")
_QUOTED_LIST = re.compile(r"['\"]([^'\"]{1,60})['\"]")
_SUBSCRIPT_LIST = re.compile(r"Tensor\[([^\[\]]{1,60})\]$")


# Annotations such as `Float[Tensor, "b h n d"]` of jaxtyping, and `Float['b h n d']`.
_ARRAY_ANNOTATION = re.compile(
    r"\b(?:B?Float\d*|Int\d*|UInt\d*|Integer|Bool|Shaped|Num|Real|Inexact|Complex\d*)"
    r"\[[^'\"\]]*['\"]([^'\"]*)['\"]\]"
)


def array_dimensions(annotation: str) -> str:
    """Return the dimensions in the first annotation of an array; empty without one."""
    match = _ARRAY_ANNOTATION.search(annotation)
    if match is None:
        return ""
    return match[1]


def signature_shapes(function: Function) -> Iterator[tuple[str, str]]:
    """Yield the parameters with dimensions, each with their list as text."""
    node, lines = function_source(inspect.unwrap(function))
    if node is None:
        return
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    first_lines = [parameter.lineno for parameter in parameters]
    for parameter in parameters:
        # The comment of a line with two parameters belongs to neither of them.
        if first_lines.count(parameter.lineno) == 1:
            last_line = parameter.end_lineno or parameter.lineno
            # A string may contain a `#`, but then no list of dimensions follows.
            # `type: ignore[name, other]` lists no dimensions.
            comment = _IGNORED.sub("", lines[last_line - 1].partition("#")[2])
            dimensions = _LIST.search(comment)
            if dimensions:
                yield parameter.arg, dimensions[1]
        if parameter.annotation is not None:
            annotation = ast.unparse(parameter.annotation)
            annotated_dimensions = _annotated_dimensions(annotation)
            if annotated_dimensions is not None:
                yield parameter.arg, annotated_dimensions


def _annotated_dimensions(annotation: str) -> str | None:
    if not _TENSOR_ANNOTATION.search(annotation):
        return None
    quoted_list = _QUOTED_LIST.search(annotation)
    if quoted_list:
        dimensions = quoted_list[1].strip()
        if "," not in dimensions:
            dimensions = ", ".join(dimensions.split())
        return dimensions
    subscript_list = _SUBSCRIPT_LIST.search(annotation)
    if subscript_list:
        return subscript_list[1]
    return None
