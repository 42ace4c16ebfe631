"""The element types of a kernel's operations, and the precision of its dots.

A compiler failure belongs to an operation on certain types: a dot of bf16 and a dot of fp32 rounded
to tf32 may print the same words and be different bugs. So a reduction must not contain an operation
on types that the original lacks.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.expression_types import (
    Constant,
    DTypeValue,
    Tensor,
    Types,
    is_float,
)
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.value_graph import parts

# Operations that compilers lower specially. Arithmetic counts only in kernels without them.
_HEAVY = frozenset(
    "tl.dot tl.dot_scaled tl.associative_scan tl.cumsum tl.cumprod tl.reduce tl.sum tl.max tl.min "
    "tl.argmax tl.argmin tl.xor_sum tl.sort tl.topk tl.histogram tl.gather tl.atomic_add "
    "tl.atomic_max tl.atomic_min tl.atomic_cas tl.atomic_xchg tl.inline_asm_elementwise "
    "tl.trans tl.permute .to tl.cast".split()
)
_DOTS = ("tl.dot", "tl.dot_scaled")
_ASSEMBLY = "tl.inline_asm_elementwise"
_SCALED = "lhs lhs_scale lhs_format rhs rhs_scale rhs_format".split()
_NONE = ast.Constant(None)
# The name of loads and stores in kernels without other operations.
ACCESS = "access"
# The default precision of an fp32 dot.
_DEFAULT_PRECISION = "tf32"


@dataclass(frozen=True)
class OperationTypes:
    """An operation, the element types of its operands, and the precision of an fp32 dot.

    `is_complete` is False if a type among them is unknown.
    """

    operation: str
    dtypes: frozenset[str]
    precision: str = ""
    is_complete: bool = True

    def __str__(self) -> str:
        parts = sorted(self.dtypes)
        if self.precision:
            parts.append(self.precision)
        return f"{self.operation}({', '.join(parts)})"


def operation_types(specimen: Specimen) -> frozenset[OperationTypes]:
    """Return the dots, reductions, scans, atomics and conversions of a kernel.

    Without these return its arithmetic, and without arithmetic its loads and stores.
    """
    types = specimen.types
    calls, arithmetic = set(), set()
    for statement in specimen.function.body:
        for node in ast.walk(statement):
            if trees.callee_name(node) in _HEAVY:
                assert isinstance(node, ast.Call)
                calls.add(_of_call(node, types))
            elif isinstance(node, ast.BinOp):
                dtypes = _dtypes(types, [node.left, node.right])
                if any(map(is_float, dtypes)):
                    arithmetic.add(OperationTypes(type(node.op).__name__, frozenset(dtypes)))
    if calls or arithmetic:
        return frozenset(calls or arithmetic)
    dtypes_in_memory = specimen.pointers.values()
    return frozenset(OperationTypes(ACCESS, frozenset([dtype])) for dtype in dtypes_in_memory)


def describe_operations(specimen: Specimen) -> list[str]:
    """Return the operations of a kernel on values with a known type, in words."""
    operations = operation_types(specimen)
    return sorted(str(one) for one in operations if one.operation != ACCESS and one.dtypes)


def _of_call(node: ast.Call, types: Types) -> OperationTypes:
    operation = trees.callee_name(node)
    operands = parts(node)
    if operation in _DOTS:
        # The accumulator has the type of the result.
        operands = node.args[:2]
        if operation == "tl.dot_scaled":
            operands = [*node.args[:1], *node.args[3:4]]
    dtypes = list(_dtypes(types, operands))
    is_complete = bool(dtypes)
    if operation in _DOTS:
        is_complete = len(dtypes) == len(operands)
    if operation == "tl.dot_scaled":
        scales, are_known = _scales(node, types)
        dtypes += scales
        is_complete = is_complete and are_known
    elif operation == _ASSEMBLY:
        # Instructions on an address are not those on a number.
        dtypes += _pointers(types, operands)
    precision = ""
    if operation == "tl.dot" and set(dtypes) == {"fp32"}:
        precision = _precision(node)
    return OperationTypes(operation, frozenset(dtypes), precision, is_complete)


def _dtypes(types: Types, operands: Iterable[ast.expr]) -> Iterator[str]:
    for operand in operands:
        kind = types.get(operand)
        if isinstance(kind, Tensor) and not kind.pointer:
            yield kind.dtype
        elif isinstance(kind, DTypeValue):
            # The dtype of a conversion's result.
            yield kind.name
        elif isinstance(operand, (ast.List, ast.Tuple)):
            yield from _dtypes(types, operand.elts)


def _scales(dot: ast.Call, types: Types) -> tuple[list[str], bool]:
    """Return the scales and formats of a scaled dot's operands, and True if all are known."""
    arguments = dict(zip(_SCALED, dot.args))
    for keyword in dot.keywords:
        if keyword.arg:
            arguments[keyword.arg] = keyword.value
    facts = []
    for name in ("lhs_scale", "rhs_scale"):
        match types.get(arguments.get(name, _NONE)):
            case Tensor(dtype=dtype):
                facts.append(f"{dtype} scale")
            case Constant(text="None"):
                facts.append("no scale")
    for name in ("lhs_format", "rhs_format"):
        match arguments.get(name):
            case ast.Constant(value=str() as text):
                facts.append(text)
    return facts, len(facts) == 4


def _pointers(types: Types, operands: Iterable[ast.expr]) -> Iterator[str]:
    """Yield the dtypes of the pointers among operands, such as `*fp32`."""
    for operand in operands:
        kind = types.get(operand)
        if isinstance(operand, (ast.List, ast.Tuple)):
            yield from _pointers(types, operand.elts)
        elif isinstance(kind, Tensor) and kind.pointer:
            yield kind.dtype


def _precision(dot: ast.Call) -> str:
    """Return the precision of a dot of fp32."""
    keywords = {keyword.arg: keyword.value for keyword in dot.keywords}
    precision = keywords.get("input_precision")
    if isinstance(precision, ast.Constant) and isinstance(precision.value, str):
        return precision.value
    allow_tf32 = keywords.get("allow_tf32")
    if isinstance(allow_tf32, ast.Constant) and allow_tf32.value is False:
        return "ieee"
    return _DEFAULT_PRECISION


def strangers(
    operations: Iterable[OperationTypes], original: Iterable[OperationTypes]
) -> list[OperationTypes]:
    """Return operations on types that the original's operations of their names lack."""
    of_name: dict[str, list[OperationTypes]] = {}
    for one in original:
        of_name.setdefault(one.operation, []).append(one)
    strange = []
    for one in operations:
        # Arithmetic and accesses are only listed without heavier operations, so the original may
        # lack the name.
        originals = of_name.get(one.operation)
        if not originals or not one.is_complete:
            continue
        if not any(_covers(other, one) for other in originals):
            strange.append(one)
    return sorted(strange, key=str)


def _covers(original: OperationTypes, one: OperationTypes) -> bool:
    if not original.is_complete:
        # The known types must stay; the others are arbitrary.
        return original.dtypes <= one.dtypes
    return one.dtypes <= original.dtypes and one.precision == original.precision
