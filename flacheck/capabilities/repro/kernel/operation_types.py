"""What a kernel's operations work on: the element types of each, and the precision of a dot.

A failure of the compiler belongs to an operation on certain types: a dot of bf16 and one of fp32
that is rounded to tf32 may print the same words and be different bugs. So a reduction has no
operation on types that the original had not.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flacheck.capabilities.repro.kernel import syntax_trees as trees
from flacheck.capabilities.repro.kernel.block_types import DTypeValue, Tensor, is_float
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.type_inference import Types, infer_types
from flacheck.capabilities.repro.kernel.value_graph import parts

# What compilers lower in ways of their own. Arithmetic counts only where there is none of these.
_HEAVY = frozenset(
    "tl.dot tl.dot_scaled tl.associative_scan tl.cumsum tl.cumprod tl.reduce tl.sum tl.max tl.min "
    "tl.argmax tl.argmin tl.xor_sum tl.sort tl.topk tl.histogram tl.gather tl.atomic_add "
    "tl.atomic_max tl.atomic_min tl.atomic_cas tl.atomic_xchg tl.inline_asm_elementwise "
    "tl.trans tl.permute .to tl.cast".split()
)
_CASTS = (".to", "tl.cast")
_DOTS = ("tl.dot", "tl.dot_scaled")
# What loads and stores are called where they are all that there is.
ACCESS = "access"
# How an fp32 dot is done where nothing is said of it.
_DEFAULT_PRECISION = "tf32"


@dataclass(frozen=True)
class OperationTypes:
    """An operation, the element types that it is given, and the precision of an fp32 dot. `known`
    is False where a type among them could not be inferred."""

    operation: str
    dtypes: frozenset[str]
    precision: str = ""
    is_complete: bool = True

    def __str__(self) -> str:
        said = ", ".join([*sorted(self.dtypes), *filter(None, [self.precision])])
        return f"{self.operation}({said})"


def operation_types(specimen: Specimen) -> frozenset[OperationTypes]:
    """What stands in the kernel: its dots, reductions, scans, atomics, conversions; where it has
    none of these its arithmetic, and where it has no arithmetic its loads and stores."""
    types = infer_types(specimen)
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
    reached = specimen.pointers.values()
    return frozenset(OperationTypes(ACCESS, frozenset([dtype])) for dtype in reached)


def worth_telling(operations: Iterable[OperationTypes]) -> list[OperationTypes]:
    """Those that say something: operations on values, of which a type is known."""
    return [one for one in operations if one.operation != ACCESS and one.dtypes]


def _of_call(node: ast.Call, types: Types) -> OperationTypes:
    operation = trees.callee_name(node)
    operands = parts(node)
    if operation in _DOTS:
        # What it is added to is of the type of its result.
        operands = node.args[:2]
        if operation == "tl.dot_scaled":
            operands = [*node.args[:1], *node.args[3:4]]
    dtypes = list(_dtypes(types, operands))
    known = bool(dtypes)
    if operation in _DOTS:
        known = len(dtypes) == len(operands)
    precision = ""
    if operation == "tl.dot" and set(dtypes) == {"fp32"}:
        precision = _precision(node)
    return OperationTypes(operation, frozenset(dtypes), precision, known)


def _dtypes(types: Types, operands: Iterable[ast.expr]) -> Iterator[str]:
    for operand in operands:
        kind = types.get(operand)
        if isinstance(kind, Tensor) and not kind.pointer:
            yield kind.dtype
        elif isinstance(kind, DTypeValue):
            # What a value is converted to.
            yield kind.name
        elif isinstance(operand, (ast.List, ast.Tuple)):
            yield from _dtypes(types, operand.elts)
        elif trees.callee_name(operand) in _CASTS:
            # Of what it was before, only the shape matters here.
            assert isinstance(operand, ast.Call)
            yield from (
                kind.name for a in operand.args if isinstance(kind := types.get(a), DTypeValue)
            )


def _precision(dot: ast.Call) -> str:
    """What a dot of fp32 says of its precision."""
    given = {keyword.arg: keyword.value for keyword in dot.keywords}
    said = given.get("input_precision")
    if isinstance(said, ast.Constant) and isinstance(said.value, str):
        return said.value
    allowed = given.get("allow_tf32")
    if isinstance(allowed, ast.Constant) and allowed.value is False:
        return "ieee"
    return _DEFAULT_PRECISION


def strangers(
    operations: Iterable[OperationTypes], original: Iterable[OperationTypes]
) -> list[OperationTypes]:
    """Operations on types that the original's operations of that name are not given."""
    of_name: dict[str, list[OperationTypes]] = {}
    for one in original:
        of_name.setdefault(one.operation, []).append(one)
    strange = []
    for one in operations:
        # Arithmetic and accesses are only listed where there is nothing heavier to compare.
        known = of_name.get(one.operation)
        if known and one.is_complete and not any(_covers(other, one) for other in known):
            strange.append(one)
    return sorted(strange, key=str)


def _covers(original: OperationTypes, one: OperationTypes) -> bool:
    if not original.is_complete:
        # What is known of it stays; the rest could be anything.
        return original.dtypes <= one.dtypes
    return one.dtypes <= original.dtypes and one.precision == original.precision
