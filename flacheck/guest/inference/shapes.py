"""Shapes that an argument may have, the likeliest first.

They come from recipes, documentation, source code, related arguments and names. Source code
contains dimensions in `B, T, H, K = q.shape`, or in a callee that `q` is passed to.
"""

import ast
import collections
import functools
import inspect
import operator as arithmetic
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..pysource.functions import (
    Function,
    calls_in,
    function_tree,
    names_in_scope,
    parameter_names,
    passed_arguments,
    tuple_assignments,
    variable_name,
)
from . import signatures
from .index_shapes import IndexShape, index_shapes, parameter_aliases
from .operators import LAYER, Operator
from .plans import CallPlan, Recipe

Property = TypeVar("Property")
Symbols = tuple[str, ...]
# Dimensions by their symbol or extent.
Dimensions = tuple[str | int, ...]
Sizes = Mapping[str, int]

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
    **dict.fromkeys(("M", "P", "BT"), 64),
    **dict.fromkeys(("D", "C"), 256),
    **dict.fromkeys(("T", "TQ", "L"), 512),
}
# Longer names of dimensions, with a symbol or a size; specific patterns come first.
_SIZE_NAMES: tuple[tuple[str, str | int], ...] = (
    (r"vocab|classes", 1024),
    (r"batch|^b$|^bs$", "B"),
    (r"num_?heads?|n_heads?|nheads|n_q_head|^h$|^hq$|heads$|^nh$", "H"),
    (r"n_kv_head", "H"),
    (r"(key|value|k|v)_dim|head_?dim|^hd$|^dh$|^k$|^v$|d_head", "K"),
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

# Symbols in annotations of arrays, which are lower-case. An unnamed dimension is 1.
_ARRAY_SYMBOLS = {
    "b": "B",
    "n": "T",
    "t": "T",
    "s": "T",
    "i": "T",
    "j": "T",
    "l": "T",
    "h": "H",
    "qh": "H",
    "kh": "H",
    "d": "D",
    "_": "1",
}

_MODEL = ("B", "T", "D")
_QUERY = ("B", "T", "H", "K")
_VALUE = ("B", "T", "H", "V")
_GATE = ("B", "T", "H")
_STATE = ("N", "H", "K", "V")
_STATES = ("B", "NT", "H", "K", "V")
# Usual names of tensors with their dimensions.
_USUAL_NAMES: dict[str, Dimensions] = {
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
_ATTENTION_INPUTS = (("q", "k", "v"), ("Q", "K", "V"), ("query", "key", "value"))
# Arguments of layers that are not as wide as the model.
_TOKEN_ARGUMENTS = ("input_ids", "labels", "target", "attention_mask", "position_ids")

# Levels of callees: an operator, its autograd function, the forward, and a function in that.
_MAX_DEPTH = 4

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

    def __init__(self, operators: Iterable[Operator], recipe: Recipe) -> None:
        self._recipe = recipe
        self._documented: dict[str, dict[str, Symbols]] = {}
        # Documented shapes by a package or module around operators and an argument's name.
        self._nearby: dict[tuple[str, str], collections.Counter[Symbols]] = collections.defaultdict(
            collections.Counter
        )
        for operator in operators:
            shapes = documented_shapes(operator.source)
            if operator.is_built:
                shapes |= documented_shapes(operator.call)
            self._documented[operator.name] = shapes
            for name, dimensions in shapes.items():
                for module in _enclosing_modules(operator.module):
                    self._nearby[module, name][dimensions] += 1

    def _documented_shapes(self, operator: Operator) -> dict[str, Symbols]:
        """Return documented shapes; constructors of objects are added on their first use."""
        if operator.name not in self._documented:
            self._documented[operator.name] = documented_shapes(operator.source)
        return self._documented[operator.name]

    def is_documented(self, operator: Operator, name: str) -> bool:
        """Return True if the documentation or a recipe contains an argument's shape."""
        return name in self._documented_shapes(operator) or name in self._recipe.common.shapes

    def has_evidence(self, operator: Operator, name: str) -> bool:
        """Return True if the documentation, a recipe or the code contains an argument's shape."""
        return self.is_documented(operator, name) or name in unpacked_shapes(operator.source)

    def candidates(self, operator: Operator, plan: CallPlan, name: str) -> list[Dimensions]:
        """Return the distinct shapes that an argument may have, the likeliest first."""
        by_name: list[Dimensions] = [*self._nearby_shapes(operator, name)]
        if operator.kind == LAYER and name not in _TOKEN_ARGUMENTS:
            by_name.append(_MODEL)
        usual_shape = _usual_shape(name)
        if usual_shape is not None:
            by_name.append(usual_shape)
        index_shape = read_shapes(operator.source).get(name)
        candidates = [
            plan.shapes.get(name),
            self._documented_shapes(operator).get(name),
            self._recipe.common.shapes.get(name),
            unpacked_shapes(operator.source).get(name),
            self._attention_shape(operator, name),
            *_sort_by_index_shape(by_name, index_shape),
            *_FALLBACKS,
        ]
        return list(dict.fromkeys(tuple(shape) for shape in candidates if shape is not None))

    def _attention_shape(self, operator: Operator, name: str) -> Symbols | None:
        """Return the unusual shape of another one of queries, keys and values.

        They have equally many dimensions unless the code reads others.
        """
        for names in _ATTENTION_INPUTS:
            if name in names:
                break
        else:
            return None
        if name in read_shapes(operator.source):
            return None
        shapes = {**unpacked_shapes(operator.source), **self._documented_shapes(operator)}
        for other_name in names:
            if other_name in shapes and len(shapes[other_name]) != len(_QUERY):
                return shapes[other_name]
        return None

    def _nearby_shapes(self, operator: Operator, name: str) -> list[Symbols]:
        """Return the documented shapes of arguments of that name in the nearest module."""
        for spelling in _spellings(name):
            for module in _enclosing_modules(operator.module):
                shapes = self._nearby[module, spelling]
                if shapes:
                    return [shape for shape, _ in shapes.most_common(2)]
        return []


def _usual_shape(name: str) -> Dimensions | None:
    """Return the dimensions of a tensor with a usual name."""
    for spelling in _spellings(name):
        if spelling in _USUAL_NAMES:
            return _USUAL_NAMES[spelling]
    return None


def has_usual_name(name: str) -> bool:
    """Return True if a tensor's name implies a shape."""
    return _usual_shape(name) is not None


def _sort_by_index_shape(
    by_name: list[Dimensions], index_shape: IndexShape | None
) -> Iterator[Dimensions]:
    """Yield shapes by name; those with all dimensions that the code reads come first."""
    if index_shape is None:
        yield from by_name
        return
    rank = len(index_shape.dimensions)
    for shape in by_name:
        if len(shape) == rank or (len(shape) > rank and not index_shape.is_complete):
            yield shape
    yield index_shape.dimensions
    yield from by_name


def documented_shapes(function: Any) -> dict[str, Symbols]:
    """Return the dimensions of parameters in a docstring or signature."""
    shapes = _docstring_shapes(function)
    if inspect.isfunction(function):
        for name, text in signatures.signature_shapes(function):
            dimensions = _parse_dimensions(text)
            # A single word may be any remark.
            if dimensions and (len(dimensions) > 1 or not dimensions[0].islower()):
                shapes.setdefault(name, dimensions)
    shapes |= _annotated_shapes(function)
    return _with_time(shapes)


def _annotated_shapes(function: Any) -> dict[str, Symbols]:
    """Return the dimensions in annotations such as `Float[Tensor, "b h n d"]`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return {}
    texts = {}
    for parameter in parameters:
        dimensions = signatures.array_dimensions(str(parameter.annotation))
        if dimensions:
            texts[parameter.name] = dimensions
    has_heads = any(re.search(r"\b\w?h\b|heads", text) for text in texts.values())
    shapes = {}
    for name, text in texts.items():
        symbols = []
        for symbol in text.replace("...", "b n").split():
            symbol = symbol.lstrip("#*?").partition("=")[2] or symbol.lstrip("#*?")
            if symbol == "d" and has_heads:
                symbols.append("K")
            else:
                symbols.append(_ARRAY_SYMBOLS.get(symbol, symbol))
        parsed = _parse_dimensions(", ".join(symbols))
        if parsed:
            shapes[name] = parsed
    return shapes


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


def dimensions_in(message: str) -> Symbols | None:
    """Return the dimensions that an error message lists by symbols, such as `(N, 3, H, W)`."""
    for text in re.findall(_LIST, message):
        dimensions = _parse_dimensions(text)
        if dimensions and not all(symbol.isdigit() for symbol in dimensions):
            return dimensions
    return None


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


def _enclosing_modules(module: str) -> list[str]:
    """Return a module and the packages around it, innermost first."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _spellings(name: str) -> Iterator[str]:
    """Yield names of tensors of the same shape: that of `dq`, `q_` and `q2` is that of `q`."""
    yield name
    yield name.strip("_")
    yield re.sub(r"\d+$", "", name)
    if name.startswith("d"):
        yield name[1:].strip("_")


@functools.cache
def unpacked_shapes(function: Function, depth: int = 0) -> dict[str, Symbols]:
    """Return the dimensions of parameters that a function and its callees unpack."""
    node = function_tree(function)
    if node is None:
        return {}
    shapes: dict[str, Symbols] = dict.fromkeys(parameter_names(node), ())
    unpacked: list[tuple[str, Symbols]] = []
    for target, value in tuple_assignments(node):
        unpacked += _unpacked_dimensions(target, value)
    if depth < _MAX_DEPTH:
        unpacked += _callee_properties(node, function, unpacked_shapes, depth)
    for name, dimensions in unpacked:
        # The first statement counts.
        if shapes.get(name) == ():
            shapes[name] = dimensions
    return _with_time({name: dimensions for name, dimensions in shapes.items() if dimensions})


@functools.cache
def read_shapes(function: Function, depth: int = 0) -> dict[str, IndexShape]:
    """Return the dimensions of parameters that a function and its callees read by index."""
    node = function_tree(function)
    if node is None:
        return {}
    shapes = index_shapes(node)
    if depth < _MAX_DEPTH:
        for name, shape in _callee_properties(node, function, read_shapes, depth):
            shapes.setdefault(name, shape)
    return shapes


def _unpacked_dimensions(target: ast.Tuple, value: ast.expr) -> Iterator[tuple[str, Symbols]]:
    """Yield the tensor and dimensions in `B, T, H = q.shape`.

    Other forms are `q.size()` and `B, T, H, V = *q.shape, v.shape[-1]`.
    """
    names = [variable_name(element) for element in target.elts]
    if isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.Starred):
        names = names[: len(names) - len(value.elts) + 1]
        value = value.elts[0].value
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if not isinstance(value, ast.Attribute) or value.attr not in ("shape", "size"):
        return
    tensor = variable_name(value.value)
    if tensor and names and all(names):
        is_headed = not {"h", "H"}.isdisjoint(names) and "T" not in names
        if len(names) == len(_QUERY) and is_headed and names[-1] in ("d", "D"):
            # `b, h, n, d`: beside a number of heads, the width is that of one head.
            names[-1] = "K"
        yield tensor, tuple("X" if set(name) == {"_"} else name for name in names)


def _callee_properties(
    node: ast.FunctionDef,
    function: Function,
    analyze: Callable[[Function, int], dict[str, Property]],
    depth: int,
) -> Iterator[tuple[str, Property]]:
    """Yield the variables that callees are passed, with their property in the callee."""
    function = inspect.unwrap(function)
    scope = names_in_scope(function)
    aliases = parameter_aliases(node)
    for call in calls_in(node):
        callee = _find_callee(call.func, scope)
        if callee is None or callee is function:
            continue
        properties = analyze(callee, depth + 1)
        for variable, parameter in _passed_variables(call, callee):
            if parameter in properties:
                yield aliases.get(variable, variable), properties[parameter]


def _find_callee(node: ast.expr, scope: Mapping[str, Any]) -> Function | None:
    """Return the package's function that is called; for `X.apply` the forward."""
    callee: Any = None
    if isinstance(node, ast.Name):
        callee = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and node.attr == "apply":
        function_class = scope.get(variable_name(node.value))
        callee = getattr(function_class, "forward", None)
    if not callable(callee):
        return None
    callee = inspect.unwrap(callee)
    package = str(scope.get("__name__", "")).partition(".")[0]
    if inspect.isfunction(callee) and callee.__module__.partition(".")[0] == package:
        return callee
    return None


def _passed_variables(call: ast.Call, callee: Function) -> Iterator[tuple[str, str]]:
    """Yield the caller's variables, each with the parameter that it is passed to."""
    parameters = list(inspect.signature(callee).parameters)
    if parameters and parameters[0] == "ctx":
        # The call goes through `apply`, which passes the context itself.
        parameters = parameters[1:]
    for parameter, argument in passed_arguments(call, parameters):
        if isinstance(argument, ast.Name):
            yield argument.id, parameter


def _size_meaning(symbol: str) -> str | int | None:
    """Return the symbol of `SIZES`, or the size, of a longer name of a dimension."""
    for pattern, meaning in _SIZE_NAMES:
        if re.search(pattern, symbol.lower()):
            return meaning
    return None


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
