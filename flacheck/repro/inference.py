"""The types of a kernel's expressions, found by walking it as the compiler does, without one.

The walk knows what reduction needs to propose well-typed candidates: dtypes and shapes through arithmetic,
loads, dots, reductions and views. What it does not know it leaves unknown.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from flacheck.model import canonical
from flacheck.repro.specimen import Specimen
from flacheck.repro.syntax import Block, called
from flacheck.repro.types import (
    LANGUAGE,
    BlockPointer,
    DType,
    Extent,
    IllTyped,
    Known,
    Tensor,
    Tuple,
    Type,
    broadcast,
    is_float,
    of_constant,
    promoted,
    united,
)

Environment = dict[str, "Type | None"]
_UNARY = (
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "sigmoid", "abs", "floor", "ceil", "erf", "math.exp",
    "math.log", "math.abs", "math.sqrt", "cumsum", "cumprod", "sort", "flip", "softmax", "max_contiguous",
    "multiple_of", "max_constancy", "fdiv", "div_rn", "fma", "clamp",
)  # fmt: skip
SMALLEST_DOT = 16
_REDUCTIONS = ("sum", "max", "min", "xor_sum")


def inferred(specimen: Specimen) -> dict[ast.AST, Type | None]:
    """The type of every expression in the kernel's body, by node of `specimen.tree`."""
    return walked(specimen).types


def walked(specimen: Specimen) -> Inference:
    """The kernel's body with all that can be found out about it."""
    return _walked(specimen.function, canonical(list(specimen.args.items())))


@lru_cache(maxsize=64)
def _walked(function: ast.FunctionDef, args: str) -> Inference:
    """By the tree's identity: of two equal specimens each has nodes of its own."""
    walk = Inference({name: parameter(spec) for name, spec in json.loads(args)})
    walk.block(function.body)
    return walk


def parameter(spec: Any) -> Type | None:
    """The type of an argument of a launch."""
    if spec is None or isinstance(spec, (bool, str)):
        return Known(spec)
    if not isinstance(spec, Mapping):
        return None
    if "constexpr" in spec:
        value = spec["constexpr"]
        return DType(value["dtype"]) if isinstance(value, Mapping) and "dtype" in value else Known(value)
    if "dtype" in spec:
        return Tensor("*" + spec["dtype"])
    if "int" in spec:
        # Triton folds 1 into a constant; it is typed all the same.
        return Tensor("i32" if -(1 << 31) <= spec["int"] < 1 << 31 else "i64")
    return Tensor("fp32") if "float" in spec else Tensor("i1") if "bool" in spec else None


class Inference:
    """Walks statements in order; `environment` holds each variable's type at that point, `types` each node's."""

    def __init__(self, environment: Mapping[str, Type | None]) -> None:
        self.environment: Environment = dict(environment)
        self.types: dict[ast.AST, Type | None] = {}
        self.faults: list[str] = []
        self.extents: dict[ast.AST, Extent] = {}

    def block(self, body: Block) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, (ast.If, ast.While)):
            self.of(node.test)
            self._branches(node.body, node.orelse)
        elif isinstance(node, ast.Assign):
            value = self.of(node.value)
            for target in node.targets:
                self._bind(target, value)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.of(child)

    def _bind(self, target: ast.expr, value: Type | None) -> None:
        if isinstance(target, ast.Name):
            self.environment[target.id] = value
        elif isinstance(target, ast.Tuple):
            items = value.items if isinstance(value, Tuple) else (None,) * len(target.elts)
            for part, item in zip(target.elts, items):
                self._bind(part, item)

    def _for(self, node: ast.For) -> None:
        self.of(node.iter)
        self._bind(node.target, Tensor("i32"))
        before = dict(self.environment)
        self.block(node.body)
        self.environment = _joined(before, self.environment)
        self.block(node.body)

    def _branches(self, body: Block, orelse: Block) -> None:
        before = dict(self.environment)
        self.block(body)
        after, self.environment = self.environment, dict(before)
        self.block(orelse)
        self.environment = _joined(after, self.environment)

    def of(self, node: ast.expr) -> Type | None:
        """The type of an expression; of its parts on the way."""
        visit = getattr(self, "_of_" + type(node).__name__, self._unknown)
        try:
            found: Type | None = visit(node)
        except IllTyped as fault:
            self.faults.append(str(fault))
            found = None
        self.types[node] = found
        return found

    def _unknown(self, node: ast.expr) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.of(child)

    def _of_Constant(self, node: ast.Constant) -> Type:
        if type(node.value) is not int:
            return Known(node.value)
        return Known(self.extents.setdefault(node, Extent(node.value, node)))

    def _of_Name(self, node: ast.Name) -> Type | None:
        return self.environment.get(node.id)

    def _of_Tuple(self, node: ast.Tuple | ast.List) -> Type:
        return Tuple(tuple(self.of(item) for item in node.elts))

    _of_List = _of_Tuple

    def _of_Attribute(self, node: ast.Attribute) -> Type | None:
        path = ast.unparse(node)
        if path.startswith("tl.") and path[3:] in LANGUAGE:
            return DType(LANGUAGE[path[3:]])
        owner = self.of(node.value)
        if node.attr == "dtype":
            return DType(owner.dtype) if isinstance(owner, (Tensor, BlockPointer)) else None
        if node.attr == "element_ty" and isinstance(owner, DType):
            return DType(owner.name.removeprefix("*"))
        if node.attr == "T" and isinstance(owner, Tensor) and len(owner.shape) == 2:
            return Tensor(owner.dtype, owner.shape[::-1])
        return None

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Type | None:
        operand = self.of(node.operand)
        if isinstance(operand, Known) and isinstance(node.op, ast.USub) and isinstance(operand.value, (int, float)):
            return Known(-operand.value)
        return operand

    def _of_BinOp(self, node: ast.BinOp) -> Type | None:
        return arithmetic(self.of(node.left), self.of(node.right), isinstance(node.op, ast.Div))

    def _of_Compare(self, node: ast.Compare) -> Type | None:
        left = self.of(node.left)
        rights = [self.of(c) for c in node.comparators]
        both = arithmetic(left, rights[0])
        return Tensor("i1", both.shape) if isinstance(both, Tensor) else None

    def _of_BoolOp(self, node: ast.BoolOp) -> Type | None:
        found = [self.of(value) for value in node.values]
        return found[0] if isinstance(found[0], Tensor) else None

    def _of_IfExp(self, node: ast.IfExp) -> Type | None:
        self.of(node.test)
        first, second = self.of(node.body), self.of(node.orelse)
        return first if first == second else None

    def _of_Subscript(self, node: ast.Subscript) -> Type | None:
        value = self.of(node.value)
        if isinstance(value, Tuple) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return value.items[node.slice.value] if node.slice.value < len(value.items) else None
        if not isinstance(value, Tensor):
            return None
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        left = iter(value.shape)
        shape = tuple(1 if _is_none(item) else next(left, 0) for item in items)
        return Tensor(value.dtype, shape) if 0 not in shape and not list(left) else None

    def _of_Call(self, node: ast.Call) -> Type | None:
        name = called(node)
        positional = [self.of(a) for a in node.args]
        keywords = {k.arg: self.of(k.value) for k in node.keywords if k.arg}
        if name.startswith("."):
            assert isinstance(node.func, ast.Attribute)
            positional.insert(0, self.of(node.func.value))
            name = "tl" + name
        if name in ("min", "max"):
            return _widest(positional)
        name = name.removeprefix("tl.")
        if name in _UNARY:
            return _widest(positional)
        if name in _REDUCTIONS:
            return _reduced(positional, keywords)
        rule = CALLS.get(name)
        return rule(positional, keywords) if rule else None


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _joined(left: Environment, right: Environment) -> Environment:
    """What is known after two ways of getting here."""
    missing = {name: value for name, value in {**left, **right}.items() if (name in left) != (name in right)}
    return missing | {name: left[name] if left[name] == right[name] else None for name in left if name in right}


def arithmetic(left: Type | None, right: Type | None, division: bool = False) -> Type | None:
    """The type of `left + right`: pointers stay pointers, literals take the other's dtype."""
    if isinstance(left, Known) and isinstance(right, Known):
        return None
    if isinstance(left, Known):
        left, right = right, left
    if not isinstance(left, Tensor):
        return None
    if isinstance(right, Known):
        dtype = of_constant(right.value, left.dtype)
        return Tensor("fp32" if division and dtype and not is_float(dtype) else dtype, left.shape) if dtype else None
    if not isinstance(right, Tensor):
        return None
    shape = broadcast(left.shape, right.shape)
    if left.pointer or right.pointer:
        return Tensor(left.dtype if left.pointer else right.dtype, shape)
    dtype = promoted(left.dtype, right.dtype)
    return Tensor("fp32" if division and not is_float(dtype) else dtype, shape)


Arguments = list["Type | None"]
Keywords = dict[str, "Type | None"]
Rule = Callable[[Arguments, Keywords], "Type | None"]


def _widest(values: Arguments, _: Keywords | None = None) -> Type | None:
    found = values[0] if values else None
    for other in values[1:]:
        if isinstance(other, Tensor):
            found = arithmetic(found, other)
    return found if isinstance(found, Tensor) else None


def _argument(values: Arguments, keywords: Keywords, at: int, name: str) -> Type | None:
    return values[at] if at < len(values) else keywords.get(name)


def _numbers(value: Type | None) -> tuple[int, ...] | None:
    """A shape: a tuple of known numbers."""
    if isinstance(value, Known) and isinstance(value.value, int):
        return (value.value,)
    items = value.items if isinstance(value, Tuple) else ()
    found = tuple(i.value for i in items if isinstance(i, Known) and isinstance(i.value, int))
    return found if found and len(found) == len(items) else None


def _block(values: Arguments, keywords: Keywords) -> Type | None:
    """`tl.zeros(shape, dtype)`."""
    shape, dtype = _numbers(_argument(values, keywords, 0, "shape")), _argument(values, keywords, 1, "dtype")
    return Tensor(dtype.name, shape) if shape and isinstance(dtype, DType) else None


def _full(values: Arguments, keywords: Keywords) -> Type | None:
    shape, dtype = _numbers(_argument(values, keywords, 0, "shape")), _argument(values, keywords, 2, "dtype")
    return Tensor(dtype.name, shape) if shape and isinstance(dtype, DType) else None


def _like(values: Arguments, _: Keywords) -> Type | None:
    return values[0] if isinstance(values[0], Tensor) else None


def _arange(values: Arguments, _: Keywords) -> Type | None:
    bounds = [v.value for v in values if isinstance(v, Known) and isinstance(v.value, int)]
    if len(bounds) != 2:
        return None
    return Tensor("i32", (bounds[1] - bounds[0] if bounds[0] else bounds[1],))


def _load(values: Arguments, _: Keywords) -> Type | None:
    source = values[0] if values else None
    if isinstance(source, BlockPointer):
        return Tensor(source.dtype, source.shape)
    return Tensor(source.dtype[1:], source.shape) if isinstance(source, Tensor) and source.pointer else None


def _block_pointer(values: Arguments, keywords: Keywords) -> Type | None:
    base, shape = _argument(values, keywords, 0, "base"), _numbers(_argument(values, keywords, 4, "block_shape"))
    return BlockPointer(base.dtype[1:], shape) if isinstance(base, Tensor) and base.pointer and shape else None


def _dot(values: Arguments, keywords: Keywords) -> Type | None:
    left, right = (values + [None, None])[:2]
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or len(left.shape) < 2 or len(right.shape) < 2:
        return None
    out = keywords.get("out_dtype")
    united_inner(left.shape[-1], right.shape[-2])
    if min(left.shape[-2:] + right.shape[-1:]) < SMALLEST_DOT:
        raise IllTyped(f"a dot of {left.shape} and {right.shape}")
    default = "fp32" if is_float(left.dtype) else "i32"
    dtype = out.name if isinstance(out, DType) else "fp64" if left.dtype == "fp64" else default
    return Tensor(dtype, (*left.shape[:-1], right.shape[-1]))


def united_inner(left: int, right: int) -> None:
    """The axes that a dot sums over must be equal, 1 too."""
    if left != right:
        raise IllTyped(f"a dot over {left} and {right}")
    united(left, right)


def _store(values: Arguments, keywords: Keywords) -> None:
    """A value is stretched to its addresses, never the other way round."""
    target, value = values[0] if values else None, _argument(values, keywords, 1, "value")
    if not isinstance(target, (Tensor, BlockPointer)) or not isinstance(value, Tensor):
        return
    if broadcast(target.shape, value.shape) != target.shape:
        raise IllTyped(f"{value.shape} stored to {target.shape}")


def _cast(values: Arguments, keywords: Keywords) -> Type | None:
    value, dtype = values[0], _argument(values, keywords, 1, "dtype")
    if isinstance(value, Known):
        value = Tensor("i32")
    return Tensor(dtype.name, value.shape) if isinstance(value, Tensor) and isinstance(dtype, DType) else None


def _where(values: Arguments, _: Keywords) -> Type | None:
    both = arithmetic(values[1], values[2]) if len(values) == 3 else None
    if not isinstance(both, Tensor) or not isinstance(values[0], Tensor):
        return None
    return Tensor(both.dtype, broadcast(values[0].shape, both.shape))


def _transposed(values: Arguments, _: Keywords) -> Type | None:
    value = values[0]
    if not isinstance(value, Tensor):
        return None
    order = _numbers(values[1]) if len(values) == 2 else tuple(
        v.value for v in values[1:] if isinstance(v, Known) and isinstance(v.value, int)
    )  # fmt: skip
    if not order:
        return Tensor(value.dtype, value.shape[::-1]) if len(value.shape) == 2 else None
    return Tensor(value.dtype, tuple(value.shape[i] for i in order)) if len(order) == len(value.shape) else None


def _shaped(values: Arguments, keywords: Keywords) -> Type | None:
    """`tl.reshape`, `tl.view`, `tl.broadcast_to`."""
    value = values[0]
    shape = _numbers(_argument(values, keywords, 1, "shape"))
    if shape and len(values) > 2:
        numbers = [v.value for v in values[1:] if isinstance(v, Known) and isinstance(v.value, int)]
        shape = tuple(numbers) if len(numbers) == len(values) - 1 else None
    return Tensor(value.dtype, shape) if isinstance(value, Tensor) and shape else None


def _expanded(values: Arguments, keywords: Keywords) -> Type | None:
    value, axis = values[0], _argument(values, keywords, 1, "axis")
    if not isinstance(value, Tensor) or not isinstance(axis, Known) or not isinstance(axis.value, int):
        return None
    at = axis.value % (len(value.shape) + 1)
    return Tensor(value.dtype, (*value.shape[:at], 1, *value.shape[at:]))


def _reduced(values: Arguments, keywords: Keywords) -> Type | None:
    value, axis = values[0], _argument(values, keywords, 1, "axis")
    if not isinstance(value, Tensor):
        return None
    dtype = "i32" if value.dtype in ("i1", "i8", "i16") else "fp32" if value.dtype == "bf16" else value.dtype
    if axis is None or (isinstance(axis, Known) and axis.value is None):
        return Tensor(dtype)
    if not isinstance(axis, Known) or not isinstance(axis.value, int) or not value.shape:
        return None
    at = axis.value % len(value.shape)
    keep = keywords.get("keep_dims")
    middle = (1,) if isinstance(keep, Known) and keep.value else ()
    return Tensor(dtype, (*value.shape[:at], *middle, *value.shape[at + 1 :]))


def _index(values: Arguments, keywords: Keywords) -> Type | None:
    found = _reduced(values, keywords)
    return Tensor("i32", found.shape) if isinstance(found, Tensor) else None


CALLS: dict[str, Rule] = {
    "zeros": _block, "full": _full, "zeros_like": _like, "arange": _arange, "load": _load, "store": _store,
    "make_block_ptr": _block_pointer, "advance": lambda v, _: v[0], "dot": _dot, "to": _cast, "cast": _cast,
    "where": _where, "trans": _transposed, "permute": _transposed, "reshape": _shaped, "view": _shaped,
    "broadcast_to": _shaped, "expand_dims": _expanded, "argmax": _index, "argmin": _index,
    "maximum": _widest, "minimum": _widest,
    "program_id": lambda v, k: Tensor("i32"), "num_programs": lambda v, k: Tensor("i32"),
    "cdiv": lambda v, k: arithmetic(v[0], v[1]) if len(v) == 2 else None,
}  # fmt: skip
