"""Which shapes an argument may have, the likeliest first: by recipe, documentation, source,
siblings, and name. A function's source gives them away in `B, T, H, K = q.shape`, or in a call that
hands `q` on to such code."""

import ast
import collections
import functools
import inspect
import operator as arithmetic
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from . import signatures
from .indexed import Indexed, indexed, renamed
from .operators import LAYER, Operator
from .plans import CallPlan, Recipe

Told = TypeVar("Told")
Symbols = tuple[str, ...]
Sizes = Mapping[str, int]

# Letters as the field uses them: batch, time, heads (of queries, of values), key and value width,
# model width, sequences, memory slots, selected blocks, ranks, vocabulary. Small, for nothing is
# computed; but 16 query heads share 4 of keys, and a chunk of 64 goes into the time eight times.
SIZES = {
    **dict.fromkeys(("B", "N", "R"), 2),
    **dict.fromkeys(("H", "HV", "HK", "G", "W"), 4),
    **dict.fromkeys(("NT", "E"), 8),
    **dict.fromkeys(("HQ", "S"), 16),
    **dict.fromkeys(("K", "V", "M", "P", "BT"), 64),
    **dict.fromkeys(("D", "C"), 256),
    **dict.fromkeys(("T", "TQ", "L"), 512),
}
# What longer names mean, the more telling words first.
_WORDS: tuple[tuple[str, str | int], ...] = (
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
# What says of a function's shapes that they have a time: then S and N are something else.
_TIMES = frozenset(("T", "TQ", "L"))
# A power of two that most kernels take as a width.
_UNKNOWN = 64
_OPERATIONS = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.floordiv,
    ast.FloorDiv: arithmetic.floordiv,
}

_MODEL = ("B", "T", "D")
_QUERY, _VALUE, _GATE = ("B", "T", "H", "K"), ("B", "T", "H", "V"), ("B", "T", "H")
_STATE, _STATES = ("N", "H", "K", "V"), ("B", "NT", "H", "K", "V")
# Names as the field uses them, where no document says more.
_NAMES: dict[str, tuple[str | int, ...]] = {
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
_FALLBACKS = (_QUERY, _MODEL, _GATE, ("B*T", "D"), ("D",), ("H", "K"), ("D", "D"), ("B", "T"))
_KIN = (("q", "k", "v"), ("Q", "K", "V"), ("query", "key", "value"))
# What a layer takes beside hidden states, which are as wide as the model.
_TOKENS = ("input_ids", "labels", "target", "attention_mask", "position_ids")

# Calls that are followed: operator, autograd function, its forward, and what that calls.
_DEEPEST = 4

# A docstring's `q (Tensor): queries of shape `[B, T, H, K]``, and such.
_GROUP = r"[\[(]([^\[\]()]{1,60})[\])]"
_NAMED = re.compile(
    r"^[ \t]*(?:-[ \t]*|:param[ \t]+)?`?(\w+)`?[ \t]*(?:\(.*?\)|\[[\w\[\]., |]*\])?[ \t]*:(?!:)",
    re.MULTILINE,
)
_SHAPE = re.compile(
    rf"(?:shaped?|size|dimensions?)\W{{0,12}}(?:of|is|as|:)?\W{{0,6}}?{_GROUP}"
    rf"|`{_GROUP}`|^\s*{_GROUP}",
    re.IGNORECASE | re.MULTILINE,
)
_CHOICE = re.compile(
    rf"{_GROUP}`?\s+if\s+`?(\w+)\s*=+\s*(\w+)`?[\s,]*(?:else|otherwise)\s+`?{_GROUP}",
    re.IGNORECASE,
)


class Shapes:
    """Candidates for every tensor argument of some operators."""

    def __init__(self, operators: Iterable[Operator], recipe: Recipe) -> None:
        self._recipe = recipe
        self._documented: dict[str, dict[str, Symbols]] = {}
        # By a package or module around the operators, and the name of their argument.
        self._siblings: dict[tuple[str, str], collections.Counter[Symbols]] = (
            collections.defaultdict(collections.Counter)
        )
        for operator in operators:
            said = documented(operator.source)
            if operator.is_built:
                said |= documented(operator.call)
            self._documented[operator.name] = said
            for name, dimensions in said.items():
                for module in _around(operator.module):
                    self._siblings[module, name][dimensions] += 1

    def _said(self, operator: Operator) -> dict[str, Symbols]:
        """What its documentation says; objects' classes are met on the way."""
        if operator.name not in self._documented:
            self._documented[operator.name] = documented(operator.source)
        return self._documented[operator.name]

    def known(self, operator: Operator, name: str) -> bool:
        """Whether somebody said what the argument's shape is."""
        return name in self._said(operator) or name in self._recipe.common.shapes

    def told(self, operator: Operator, name: str) -> bool:
        """Whether the documentation, a recipe or the operator's own code says the shape."""
        return self.known(operator, name) or name in unpacked(operator.source)

    def candidates(
        self, operator: Operator, plan: CallPlan, name: str
    ) -> list[tuple[str | int, ...]]:
        """Each shape once; the first is what is tried first."""
        named = [_NAMES[spelled] for spelled in _spellings(name) if spelled in _NAMES][:1]
        if operator.kind == LAYER and name not in _TOKENS:
            named.insert(0, _MODEL)
        by_name = [*self._said_nearby(operator, name), *named]
        candidates = [
            plan.shapes.get(name),
            self._said(operator).get(name),
            self._recipe.common.shapes.get(name),
            unpacked(operator.source).get(name),
            self._as_its_kin(operator, name),
            *_agreeing(by_name, by_index(operator.source).get(name)),
            *_FALLBACKS,
        ]
        return list(dict.fromkeys(tuple(shape) for shape in candidates if shape is not None))

    def _as_its_kin(self, operator: Operator, name: str) -> Symbols | None:
        """Keys and values have as many dimensions as queries: where only one's are told, all are
        shaped so, unless the code asks for others."""
        kin = next((each for each in _KIN if name in each), ())
        if not kin or name in by_index(operator.source):
            return None
        told = {**unpacked(operator.source), **self._said(operator)}
        shapes = [told[other] for other in kin if other in told]
        return next((shape for shape in shapes if len(shape) != len(_QUERY)), None)

    def _said_nearby(self, operator: Operator, name: str) -> list[Symbols]:
        """What the documentation of the nearest module says of an argument of that name."""
        for spelled in _spellings(name):
            for module in _around(operator.module):
                if self._siblings[module, spelled]:
                    return [shape for shape, _ in self._siblings[module, spelled].most_common(2)]
        return []


def _agreeing(
    by_name: list[tuple[str | int, ...]], asked: Indexed | None
) -> Iterator[tuple[str | int, ...]]:
    """The shapes that an argument's name stands for, behind those that have the dimensions which
    the code asks for: what it asks for is there, whatever the argument is called."""
    if asked is None:
        yield from by_name
        return
    rank = len(asked.dimensions)
    if asked.all:
        fitting = [shape for shape in by_name if len(shape) == rank]
    else:
        fitting = [shape for shape in by_name if len(shape) >= rank]
    yield from fitting
    yield asked.dimensions
    yield from by_name


def is_named(name: str) -> bool:
    """Whether a tensor has a name that the field uses for one shape."""
    return any(spelled in _NAMES for spelled in _spellings(name))


def documented(function: Any) -> dict[str, Symbols]:
    """Parameter → its dimensions, as far as the docstring or the signature says them."""
    shapes = _of_docstring(function)
    if inspect.isfunction(function):
        for name, said in signatures.spelled_out(function):
            dimensions = _split(said)
            # One word may be anything that somebody has to say.
            if dimensions and (len(dimensions) > 1 or not dimensions[0].islower()):
                shapes.setdefault(name, dimensions)
    return _timed(shapes)


def _timed(shapes: dict[str, Symbols]) -> dict[str, Symbols]:
    """The shapes with the sequence by its letter. Where no dimension is called T, the sequence is
    S, or the N that comes after the batch: `(B, NH, S, DH)`, `[B, H, N, D]`."""
    if any(_TIMES.intersection(dimensions) for dimensions in shapes.values()):
        return shapes
    timed: dict[str, Symbols] = {}
    for name, dimensions in shapes.items():
        times = {"S"}
        if dimensions[0] == "B":
            times.add("N")
        timed[name] = tuple("T" if part in times else part for part in dimensions)
    return timed


def _of_docstring(function: Any) -> dict[str, Symbols]:
    text = getattr(function, "__doc__", None)
    if not isinstance(text, str):
        return {}
    try:
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    except (ValueError, TypeError):
        return {}
    names = list(_NAMED.finditer(text))
    ends = [name.start() for name in names[1:]] + [len(text)]
    shapes: dict[str, Symbols] = {}
    for name, end in zip(names, ends):
        if name[1] in defaults:
            dimensions = _dimensions(text[name.end() : end], defaults)
            if dimensions:
                shapes.setdefault(name[1], dimensions)
    return shapes


def dimensions_in(text: str) -> Symbols | None:
    """The dimensions that a message spells out in letters, as `[B, T, H]`."""
    for group in re.findall(_GROUP, text):
        dimensions = _split(group)
        if dimensions and not any(part.isdigit() for part in dimensions):
            return dimensions
    return None


def _dimensions(text: str, defaults: dict[str, Any]) -> Symbols | None:
    choice = _CHOICE.search(text)
    if choice:
        taken = str(defaults.get(choice[2], False)) == choice[3]
        group = 1 if taken else 4
        return _split(choice[group])
    for match in _SHAPE.finditer(text):
        dimensions = _split(next(filter(None, match.groups())))
        if dimensions:
            return dimensions
    return None


def _split(text: str) -> Symbols | None:
    """The dimensions in `B, T, H*K`, where `...` is batch and time; None for any other list."""
    parts = [part.strip() for part in text.replace("...", "B, T").replace("*,", "B, T,").split(",")]
    # Two words are one name: `head dim`.
    parts = [re.sub(r"(?<=[a-z]) (?=[a-z])", "_", part) for part in parts if part]
    if not parts or any(part.lower().startswith("optional") for part in parts):
        return None
    if any(extent(part, SIZES) is None for part in parts):
        return None
    return tuple(parts)


def _around(module: str) -> list[str]:
    """A module and the packages around it."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _spellings(name: str) -> Iterator[str]:
    """`dq` is shaped as `q`, `q_` and `q2` as well."""
    yield name
    yield name.strip("_")
    yield re.sub(r"\d+$", "", name)
    if name.startswith("d"):
        yield name[1:].strip("_")


@functools.cache
def _tree(function: Callable[..., Any]) -> ast.stmt | None:
    """The function's syntax tree, None where there is no source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError, ValueError):
        return None


@functools.cache
def unpacked(function: Callable[..., Any], depth: int = 0) -> dict[str, Symbols]:
    """Parameter → its dimensions, by what the function and those it calls unpack."""
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return {}
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    shapes: dict[str, Symbols] = {argument.arg: () for argument in arguments}
    told = [_assigned(part) for part in ast.walk(node) if isinstance(part, ast.Assign)]
    if depth < _DEEPEST:
        told.append(_handed_on(node, inspect.unwrap(function), unpacked, depth))
    for pairs in told:
        for name, dimensions in pairs:
            # What is said first holds.
            if shapes.get(name) == ():
                shapes[name] = dimensions
    return _timed({name: dimensions for name, dimensions in shapes.items() if dimensions})


@functools.cache
def by_index(function: Callable[..., Any], depth: int = 0) -> dict[str, Indexed]:
    """Parameter → the dimensions that the function and those it calls ask for one by one."""
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return {}
    asked = indexed(node)
    if depth < _DEEPEST:
        for name, told in _handed_on(node, inspect.unwrap(function), by_index, depth):
            asked.setdefault(name, told)
    return asked


def _assigned(statement: ast.Assign) -> Iterator[tuple[str, Symbols]]:
    """`B, T, H = q.shape`, also of `q.size()`, and `B, T, H, V = *q.shape, v.shape[-1]`."""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple):
        return
    names = [getattr(part, "id", "") for part in target.elts]
    if isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.Starred):
        names = names[: len(names) - len(value.elts) + 1]
        value = value.elts[0].value
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if not isinstance(value, ast.Attribute) or value.attr not in ("shape", "size"):
        return
    tensor = getattr(value.value, "id", None)
    if tensor and names and all(names):
        yield tensor, tuple("X" if set(name) == {"_"} else name for name in names)


def _handed_on(
    node: ast.FunctionDef,
    function: Callable[..., Any],
    tells: Callable[[Callable[..., Any], int], dict[str, Told]],
    depth: int,
) -> Iterator[tuple[str, Told]]:
    """What callees tell of the arguments that they are handed by name."""
    scope = getattr(function, "__globals__", {})
    others = renamed(node)
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        callee = _callee(call.func, scope)
        if callee is None or callee is function:
            continue
        inner = tells(callee, depth + 1)
        for mine, theirs in _pairs(call, callee):
            if theirs in inner:
                yield others.get(mine, mine), inner[theirs]


def _callee(node: ast.expr, scope: dict[str, Any]) -> Callable[..., Any] | None:
    """The function of the same package that a call goes to; of `X.apply` the forward."""
    called: Any = None
    if isinstance(node, ast.Name):
        called = scope.get(node.id)
    elif isinstance(node, ast.Attribute) and node.attr == "apply":
        called = getattr(scope.get(getattr(node.value, "id", "")), "forward", None)
    if not callable(called):
        return None
    called = inspect.unwrap(called)
    package = str(scope.get("__name__", "")).partition(".")[0]
    if inspect.isfunction(called) and called.__module__.partition(".")[0] == package:
        return called
    return None


def _pairs(call: ast.Call, callee: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Names of the caller with the parameters that they become."""
    parameters = list(inspect.signature(callee).parameters)
    if parameters and parameters[0] == "ctx":
        # The call goes through `apply`, which passes the context itself.
        parameters = parameters[1:]
    for argument, name in zip(call.args, parameters):
        if isinstance(argument, ast.Name):
            yield argument.id, name
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.arg:
            yield keyword.value.id, keyword.arg


def size(symbol: str, sizes: Sizes) -> int:
    """The size that the name of a dimension stands for; a middling one for an unknown name."""
    if symbol in sizes:
        return sizes[symbol]
    lowered = symbol.lower()
    for pattern, meaning in _WORDS:
        if re.search(pattern, lowered):
            if isinstance(meaning, str):
                return sizes[meaning]
            return meaning
    return _UNKNOWN


def letter(symbol: str) -> str | None:
    """The letter of `SIZES` that the name of a dimension stands for."""
    if symbol in SIZES:
        return symbol
    lowered = symbol.lower()
    meanings = (meaning for pattern, meaning in _WORDS if re.search(pattern, lowered))
    meaning = next(meanings, None)
    if isinstance(meaning, str):
        return meaning
    return None


def extent(expression: str, sizes: Sizes) -> int | None:
    """The value of `H*K` or `N+1`, None for a text that is no such expression."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, sizes)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _value(node: ast.expr, sizes: Sizes) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        return size(node.id, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        operate = _OPERATIONS[type(node.op)]
        return int(operate(_value(node.left, sizes), _value(node.right, sizes)))
    raise ValueError("no extent")


def shape(dimensions: Iterable[str | int], sizes: Sizes) -> tuple[int, ...] | None:
    """The extents of symbolic dimensions, None when one of them is no expression."""
    extents = []
    for dimension in dimensions:
        if isinstance(dimension, int):
            extents.append(dimension)
            continue
        worth = extent(dimension, sizes)
        if worth is None:
            return None
        extents.append(worth)
    return tuple(extents)
