"""Shapes that an argument may have, the likeliest first.

They come from recipes, documentation (a docstring, or a comment beside a parameter) and names.
"""

import ast
import functools
import inspect
import operator as arithmetic
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..pysource.functions import function_source, parameters
from .operators import LAYER, Operator
from .plans import CallPlan, Recipe

Sizes = Mapping[str, int]
Symbols = tuple[str, ...]
# Dimensions by their symbol or extent.
Dimensions = tuple[str | int, ...]

# Sizes of dimensions by their usual symbols: batch, time, heads (of queries, of values), key and
# value width, model width, sequences, memory slots, selected blocks, ranks, vocabulary. They are
# small because nothing is computed, but 16 query heads share 4 of keys, and the time is eight
# chunks of 64.
SIZES = {
    **dict.fromkeys(("B", "N", "R"), 2),
    **dict.fromkeys(("H", "HV", "HK", "G", "W"), 4),
    **dict.fromkeys(("NT", "E"), 8),
    **dict.fromkeys(("HQ", "S"), 16),
    **dict.fromkeys(("K", "V"), 128),
    **dict.fromkeys(("M", "P", "BT", "C"), 64),
    "D": 256,
    **dict.fromkeys(("T", "TQ", "L"), 512),
}
_HEAD_SIZES = ("K", "V")
# Longer names of dimensions, with a symbol or a size; specific patterns come first.
_SIZE_NAMES: tuple[tuple[str, str | int], ...] = (
    (r"vocab|classes", 1024),
    # Tokens that a draft model proposes: kernels unroll a loop over them.
    (r"(speculative|spec|draft)_(token|len|step)", 2),
    (r"batch|^b$|^bs$", "B"),
    (r"num_?heads?|n_heads?|nheads|n_q_head|^h$|^hq$|heads$|^nh$", "H"),
    (r"n_kv_head", "H"),
    (r"(key|value|k|v)_dim|head_?(?:dim|size)|^hd$|^dh|^k$|^v$|d_head", "K"),
    (r"seq|len|^t$|^s$|tokens|^n$", "T"),
    (r"hidden|dim|cols|model|features|channels|^d$", "D"),
    (r"rows|^bt$|^m$", 1024),
    (r"experts|^e$", 8),
    (r"top", 2),
)
# Symbols of the time. If a function's shapes contain one, S and N are other dimensions.
_TIME_SYMBOLS = frozenset(("T", "TQ", "L"))
# The size of a dimension with an unknown name: most kernels accept it as a width.
_UNKNOWN_SIZE = 64
_ARITHMETIC = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.floordiv,
    ast.FloorDiv: arithmetic.floordiv,
}

_MODEL = ("B", "T", "D")
_QUERY = ("B", "T", "H", "K")
_VALUE = ("B", "T", "H", "V")
_GATE = ("B", "T", "H")
_STATE = ("N", "H", "K", "V")
_STATES = ("B", "NT", "H", "K", "V")
# Usual names of tensors with their dimensions.
USUAL_NAMES: dict[str, Dimensions] = {
    **dict.fromkeys("q k query key r a b p gk w kg qg".split(), _QUERY),
    **dict.fromkeys("v value o out u gv v_new do z".split(), _VALUE),
    **dict.fromkeys("g beta gate lse delta alpha dt eta".split(), _GATE),
    **dict.fromkeys("h0 ht dht dh0 initial_state final_state state".split(), _STATE),
    **dict.fromkeys("h dh".split(), _STATES),
    **dict.fromkeys("A Aw Au Aqk Akk Ai dA".split(), ("B", "T", "H", "BT")),
    **dict.fromkeys("x hidden_states input inputs residual y dy dout".split(), _MODEL),
    **dict.fromkeys("weight bias norm_weight norm_bias linear_bias".split(), ("D",)),
    "linear_weight": ("D", "D"),
    "logits": ("B*T", 1024),
    **dict.fromkeys("target labels targets".split(), ("B*T",)),
    **dict.fromkeys("input_ids ids position_ids attention_mask mask".split(), ("B", "T")),
    **dict.fromkeys("cos sin".split(), ("B", "T", "K")),
    **dict.fromkeys("A_log D dt_bias sink sink_bias".split(), ("H",)),
}
_FALLBACKS = (
    _QUERY,
    _MODEL,
    _GATE,
    ("B*T", "D"),
    ("D",),
    ("H", "K"),
    ("D", "D"),
    ("B", "T"),
)
# Arguments of layers that are not as wide as the model.
_TOKEN_ARGUMENTS = ("input_ids", "labels", "target", "attention_mask", "position_ids")

# Parts of a docstring such as `q (Tensor): queries of shape `[B, T, H, K]``.
_LIST = r"[\[(]([^\[\]()]{1,60})[\])]"
_PARAMETER = re.compile(
    r"^[ \t]*(?:-[ \t]*|:param[ \t]+)?`?(\w+)`?[ \t]*(?:\(.*?\)|\[[\w\[\]., |]*\])?[ \t]*:(?!:)",
    re.MULTILINE,
)
_SHAPE = re.compile(
    rf"(?:shaped?|size|dimensions?)\W{{0,12}}(?:of|is|as|:)?\W{{0,6}}?{_LIST}"
    rf"|`{_LIST}`|^\s*(?:optional:?\s+)?{_LIST}",
    re.IGNORECASE | re.MULTILINE,
)
_CONDITIONAL_SHAPE = re.compile(
    rf"{_LIST}`?\s+if\s+`?(\w+)\s*=+\s*(\w+)`?[\s,]*(?:else|otherwise)\s+`?{_LIST}",
    re.IGNORECASE,
)


class Shapes:
    """Candidates for the shapes of all tensor arguments of some operators."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._documented: dict[str, dict[str, Symbols]] = {}

    def _documented_shapes(self, operator: Operator) -> dict[str, Symbols]:
        """Return the documented shapes of an operator's arguments."""
        if operator.name not in self._documented:
            shapes = documented_shapes(operator.source)
            if operator.is_built:
                shapes |= documented_shapes(operator.call)
            self._documented[operator.name] = shapes
        return self._documented[operator.name]

    def is_documented(self, operator: Operator, name: str) -> bool:
        """Return True if the documentation or a recipe contains an argument's shape."""
        return name in self._documented_shapes(operator) or name in self._recipe.common.shapes

    def candidates(self, operator: Operator, plan: CallPlan, name: str) -> list[Dimensions]:
        """Return the distinct shapes that an argument may have, the likeliest first."""
        by_name: list[Dimensions] = []
        if operator.kind == LAYER and name not in _TOKEN_ARGUMENTS:
            by_name.append(_MODEL)
        if name in USUAL_NAMES:
            by_name.append(USUAL_NAMES[name])
        candidates = [
            plan.shapes.get(name),
            self._documented_shapes(operator).get(name),
            self._recipe.common.shapes.get(name),
            *by_name,
            *_FALLBACKS,
        ]
        return list(dict.fromkeys(tuple(shape) for shape in candidates if shape is not None))


def documented_shapes(function: Any) -> dict[str, Symbols]:
    """Return the dimensions of parameters in a docstring and in comments beside them."""
    return _with_time({**_comment_shapes(function), **_docstring_shapes(function)})


def _with_time(shapes: dict[str, Symbols]) -> dict[str, Symbols]:
    """Replace other symbols of the time by T.

    If no dimension is called T, the time is S, or an N after the batch: `(B, NH, S, DH)`,
    `[B, H, N, D]`.
    """
    if any(_TIME_SYMBOLS.intersection(dimensions) for dimensions in shapes.values()):
        return shapes
    result: dict[str, Symbols] = {}
    for name, dimensions in shapes.items():
        time_symbols = {"S"}
        if dimensions[0] == "B":
            time_symbols.add("N")
        result[name] = tuple("T" if symbol in time_symbols else symbol for symbol in dimensions)
    return result


def _docstring_shapes(function: Any) -> dict[str, Symbols]:
    """Return the dimensions of parameters in a docstring."""
    text = getattr(function, "__doc__", None)
    if not isinstance(text, str):
        return {}
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return {}
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    matches = list(_PARAMETER.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    shapes: dict[str, Symbols] = {}
    for match, end in zip(matches, ends):
        name = match[1]
        if name in defaults:
            dimensions = _described_dimensions(text[match.end() : end], defaults)
            if dimensions:
                shapes.setdefault(name, dimensions)
    return shapes


def _comment_shapes(function: Any) -> dict[str, Symbols]:
    """Return the dimensions in comments such as `q: torch.Tensor,  # (B, NH, S, DHQK)`."""
    tree, lines = function_source(function)
    shapes: dict[str, Symbols] = {}
    for parameter in parameters(tree) if tree is not None else ():
        comment = lines[parameter.lineno - 1][parameter.end_col_offset :].partition("#")[2]
        dimensions = _described_dimensions(comment, {})
        if dimensions:
            shapes[parameter.arg] = dimensions
    return shapes


def _described_dimensions(text: str, defaults: dict[str, Any]) -> Symbols | None:
    """Return the dimensions in a parameter's description, for the default of a flag."""
    conditional = _CONDITIONAL_SHAPE.search(text)
    if conditional:
        shape_if_true, flag, flag_value, shape_if_false = conditional.groups()
        if str(defaults.get(flag, False)) == flag_value:
            return _parse_dimensions(shape_if_true)
        return _parse_dimensions(shape_if_false)
    for match in _SHAPE.finditer(text):
        named, quoted, bare = match.groups()
        dimensions = _parse_dimensions(named or quoted or bare)
        # A single word in brackets may be any remark: `(forget) gating tensor`.
        is_remark = bare and dimensions and len(dimensions) == 1 and dimensions[0].islower()
        if dimensions and not is_remark:
            return dimensions
    return None


def _parse_dimensions(text: str) -> Symbols | None:
    """Return the dimensions in `B, T, H*K`; None for any other list.

    An ellipsis stands for batch and time.
    """
    text = text.replace("...", "B, T").replace("*,", "B, T,")
    symbols = []
    for part in text.split(","):
        part = part.strip()
        if part:
            # Two words are one name: `head dim`.
            symbols.append(re.sub(r"(?<=[a-z]) (?=[a-z])", "_", part))
    if not symbols:
        return None
    for symbol in symbols:
        if symbol.lower().startswith("optional") or extent_of(symbol, SIZES) is None:
            return None
    return tuple(symbols)


def _size_meaning(symbol: str) -> str | int | None:
    """Return the symbol in `SIZES`, or the size, for a long name of a dimension."""
    for pattern, meaning in _SIZE_NAMES:
        if re.search(pattern, symbol.lower()):
            return meaning
    return None


def is_head_size(name: str) -> bool:
    """Return True if a dimension's name is that of the size of a head."""
    return name in _HEAD_SIZES or _size_meaning(name) in _HEAD_SIZES


def symbol_of(dimension: str | int) -> str | int:
    """Return the symbol in `SIZES` for a dimension; the dimension itself if it has none."""
    meaning = None
    if isinstance(dimension, str) and dimension not in SIZES:
        meaning = _size_meaning(dimension)
    return meaning if isinstance(meaning, str) else dimension


def size_of(symbol: str, sizes: Sizes) -> int:
    """Return the size of a dimension by its name; unknown names have a middling size."""
    if symbol in sizes:
        return sizes[symbol]
    meaning = _size_meaning(symbol)
    if meaning is None:
        return _UNKNOWN_SIZE
    if isinstance(meaning, str):
        return sizes[meaning]
    return meaning


def extent_of(expression: str, sizes: Sizes) -> int | None:
    """Return the value of an expression such as `H*K` or `N+1`; None for any other text."""
    tree = _expression_tree(expression.strip())
    if tree is None:
        return None
    try:
        return _evaluate(tree, sizes)
    except (ValueError, ZeroDivisionError, RecursionError):
        return None


@functools.cache
def _expression_tree(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _evaluate(node: ast.expr, sizes: Sizes) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        return size_of(node.id, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        operate = _ARITHMETIC[type(node.op)]
        left = _evaluate(node.left, sizes)
        right = _evaluate(node.right, sizes)
        return int(operate(left, right))
    raise ValueError("not an extent")


def extents_of(dimensions: Iterable[str | int], sizes: Sizes) -> tuple[int, ...] | None:
    """Return the extents of dimensions; None if a symbol is not an expression."""
    extents = []
    for dimension in dimensions:
        if isinstance(dimension, int):
            extents.append(dimension)
            continue
        extent = extent_of(dimension, sizes)
        if extent is None:
            return None
        extents.append(extent)
    return tuple(extents)
