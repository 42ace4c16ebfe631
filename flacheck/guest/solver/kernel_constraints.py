"""Constraints on a call's arguments from a kernel's line that Triton's front end refused.

The values of that line are traced to the kernel's parameters, through the kernels that it calls,
and from the launch's arguments to the call's. Operands of integer operations must be integers,
values returned on two paths must have one dtype, and there must be as many strides as indices.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..pysource.functions import called_name, calls_in, passed_arguments, walk
from ..workers.values import TORCH_NAMES
from .argument_dataflow import DTYPE, GIVE, SHAPE, VALUE, Constraint
from .unrolled_loops import UnrolledLoop, unrolled_constraints

# Assignments and calls through which a value is traced.
_MAX_DEPTH = 24
# Constraints of one refusal: each costs a call.
_MAX_CONSTRAINTS = 8
_LOADS = ("load", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")
_CASTS = ("to", "cast")
# Functions whose results do not depend on the arguments' dtypes.
_GENERATORS = ("arange", "program_id", "num_programs", "zeros", "full", "constexpr")
_BLOCK_POINTERS = ("make_block_ptr", "advance", "make_tensor_descriptor")
_BOOLEAN_ERROR = re.compile(r"unary invert|invalid operands .*int1|bool")
_MISMATCH_ERROR = re.compile(
    r"nconsistent return|[Mm]ismatch|same dtype|initial type|re-assigned|[Bb]oth operands"
    r"|32 bit .offsets|block redefines it"
)
# Mathematical functions accept floats, most of them in single precision only.
_FLOAT_ERROR = re.compile(
    r"Expected dtype \['fp32'|Expect one of .*float32|^\(triton\.language\.\w+,?\)$",
    re.DOTALL | re.MULTILINE,
)
_LOOP_VARIABLE = re.compile(
    r"Loop-carried variable (\w+) has initial type (?:<.*?, |pointer<)(\w+)>"
)
_BRANCH_VARIABLE = re.compile(
    r"Mismatched type for (\w+) between then block|nitial value for `(\w+)` is of type"
)
# An integer that is replaced by a float on one path.
_BRANCH_INTEGER = re.compile(
    r"is of type (?:<\[.*?\], )?u?int\d.*block redefines it as .*(?:fp|bf)\d"
    r"|between then block \(u?int\d+\) and else block \((?:fp|bf)\d"
    r"|between then block \((?:fp|bf)\d+\) and else block \(u?int\d"
)
_OPERAND_DTYPES = re.compile(r"Got (\w+) and (\w+)")
_NONE_ERROR = re.compile(r"'NoneType' object has no attribute")
_SIZE_ERROR = re.compile(r"exceeds triton maximum tensor numel")
# Of a quotient of two sizes that is 0.
_EMPTY_ERROR = re.compile(
    r"end argument must be greater than the start|cannot change total number of elements"
)
# Of addresses in memory, which are 64-bit integers there.
_ADDRESS_ERROR = re.compile(r"cannot cast .*(?:fp|bf)\d.* to .*pointer<")
_POINTER_ERROR = re.compile(r"pointer<")
# The extent of a dimension that is added to a tensor.
_NEW_EXTENT = 2
# The least extent of a product of matrices, and a width that most block sizes divide.
_SMALL_EXTENT, _LARGE_EXTENT = 16, 256


@dataclass(frozen=True)
class Refusal:
    """A launch's arguments that a kernel does not accept, and the front end's error."""

    kernel: str
    arguments: Mapping[str, Any]
    error: Exception


@dataclass(frozen=True)
class _Origin:
    """A parameter of a kernel that a value comes from.

    Attributes:
        is_loaded: True if the value was loaded from memory at the parameter's address.
    """

    name: str
    is_loaded: bool


@dataclass(frozen=True)
class _RefusedLine:
    """A line of a kernel.

    Attributes:
        origins: the parameters of the outermost kernel that the line's values come from.
        tuple_lengths: the lengths of the literal tuples that the line's function was passed.
        addends: the parameters that the line adds as they are, such as an address to its offset.
        asserted: a parameter of the outermost kernel and the number that the line asserts it is.
    """

    origins: list[_Origin]
    tuple_lengths: set[int]
    addends: frozenset[str] = frozenset()
    asserted: tuple[str, int] | None = None


def kernel_constraints(refusal: Refusal, arguments: Mapping[str, Any]) -> list[Constraint]:
    """Return constraints on a call's `arguments` that may avoid a refusal, the likeliest first."""
    if isinstance(refusal.error, UnrolledLoop):
        return list(unrolled_constraints(refusal.error, arguments))[:_MAX_CONSTRAINTS]
    try:
        line = _refused_line(refusal.error)
    except (SyntaxError, RecursionError):
        return []
    solver = _RefusalSolver(refusal, arguments)
    unique = {constraint.identity: constraint for constraint in solver.solve(line)}
    return list(unique.values())[:_MAX_CONSTRAINTS]


class _RefusalSolver:
    """Finds constraints that may avoid one refusal."""

    def __init__(self, refusal: Refusal, arguments: Mapping[str, Any]) -> None:
        self._launch_arguments = refusal.arguments
        self._call_arguments = arguments
        self._message = _full_message(refusal.error)

    def solve(self, line: _RefusedLine) -> Iterator[Constraint]:
        """Yield constraints on the arguments that the line's values come from."""
        for origin in line.origins:
            value = self._launch_arguments.get(origin.name)
            if isinstance(value, tuple):
                for length in line.tuple_lengths:
                    yield from self._change_rank(origin.name, value, length)
        loop_variable = _LOOP_VARIABLE.search(self._message)
        if line.asserted:
            yield from self._resize(*line.asserted)
        elif _SIZE_ERROR.search(self._message):
            yield from self._shrink_tiles()
        elif _EMPTY_ERROR.search(self._message):
            yield from self._widen_tensors()
        elif _FLOAT_ERROR.search(self._message):
            for origin in line.origins:
                for name in self._source_arguments(origin.name, self._launch_value(origin)):
                    yield Constraint(DTYPE, name, torch.float32)
        elif loop_variable and loop_variable[2].startswith("int"):
            # Terms of a sum of integers must be small integers.
            for origin in line.origins:
                yield from self._replace_floats(origin, (torch.int8, torch.int32))
        elif _ADDRESS_ERROR.search(self._message):
            for origin in line.origins:
                yield from self._replace_floats(origin, (torch.int64,))
        elif _BRANCH_INTEGER.search(self._message):
            for origin in line.origins:
                yield from self._replace_floats(origin, (torch.int32, torch.int64))
        elif _NONE_ERROR.search(self._message):
            for origin in line.origins:
                yield from self._pass_missing(origin.name)
        elif _MISMATCH_ERROR.search(self._message):
            for origin in line.origins:
                yield from self._change_width(origin)
        else:
            origins = line.origins
            if line.addends:
                # An offset must be an integer; the address is rather right.
                origins = sorted(origins, key=lambda origin: origin.name in line.addends)
            for origin in origins:
                is_offset = bool(line.addends) and origin.name not in line.addends
                if origin.is_loaded or is_offset or not _POINTER_ERROR.search(self._message):
                    yield from self._make_integer(origin)
                else:
                    yield from self._make_number(origin)

    def _shrink_tiles(self) -> Iterator[Constraint]:
        """Yield small extents for the numbers and dimensions that the launch received."""
        constants = set()
        for value in self._launch_arguments.values():
            if type(value) is int and value > _SMALL_EXTENT:
                constants.add(value)
        for constant in sorted(constants, reverse=True):
            for name, argument in self._call_arguments.items():
                if type(argument) is int and argument == constant:
                    yield Constraint(VALUE, name, _SMALL_EXTENT)
                elif isinstance(argument, torch.Tensor) and constant in argument.shape:
                    extents = [_SMALL_EXTENT if n == constant else n for n in argument.shape]
                    yield Constraint(SHAPE, name, tuple(extents))

    def _resize(self, parameter: str, size: int) -> Iterator[Constraint]:
        """Yield arguments that make a kernel's constant the size that it asserts.

        Args:
            parameter: the name of the constant.
            size: the size that it must be.
        """
        value = self._launch_arguments.get(parameter)
        if type(value) is not int:
            return
        for name, argument in self._call_arguments.items():
            if type(argument) is int and argument == value:
                yield Constraint(VALUE, name, size)
        for name, argument in self._call_arguments.items():
            if isinstance(argument, torch.Tensor) and value in argument.shape:
                extents = [size if extent == value else extent for extent in argument.shape]
                yield Constraint(SHAPE, name, tuple(extents))

    def _widen_tensors(self) -> Iterator[Constraint]:
        """Yield larger widths for narrow tensors."""
        for name, argument in self._call_arguments.items():
            if isinstance(argument, torch.Tensor) and argument.dim() > 1:
                shape = tuple(argument.shape)
                if shape[-1] < _SMALL_EXTENT:
                    yield Constraint(SHAPE, name, (*shape[:-1], _LARGE_EXTENT))

    def _make_integer(self, origin: _Origin) -> Iterator[Constraint]:
        """Yield an integer, or boolean, in place of a float or a tensor of floats."""
        value = self._launch_value(origin)
        if isinstance(value, float):
            for name in self._source_arguments(origin.name, value):
                yield Constraint(VALUE, name, int(value) or 1)
        elif isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            dtypes = [torch.int32, torch.int64]
            if _BOOLEAN_ERROR.search(self._message):
                dtypes.insert(0, torch.bool)
            yield from self._replace_floats(origin, dtypes)

    def _make_number(self, origin: _Origin) -> Iterator[Constraint]:
        """Yield a number in place of a tensor whose address takes part in arithmetic."""
        value = self._launch_value(origin)
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            for name in self._source_arguments(origin.name, value):
                yield Constraint(VALUE, name, 1.0)

    def _replace_floats(
        self, origin: _Origin, dtypes: Iterable[torch.dtype]
    ) -> Iterator[Constraint]:
        """Yield other dtypes for a tensor of floats."""
        value = self._launch_value(origin)
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            for name in self._source_arguments(origin.name, value):
                for dtype in dtypes:
                    yield Constraint(DTYPE, name, dtype)

    def _launch_value(self, origin: _Origin) -> Any:
        """Return the launch's argument; for a tensor descriptor its tensor."""
        value: Any = self._launch_arguments.get(origin.name)
        if hasattr(value, "block_shape"):
            return value.base
        return value

    def _pass_missing(self, parameter: str) -> Iterator[Constraint]:
        """Yield the omitted argument whose name is most like that of the kernel's parameter."""
        if self._launch_arguments.get(parameter) is not None:
            return
        best_name, best_similarity = "", 0
        for name, value in self._call_arguments.items():
            similarity = _name_similarity(name, parameter)
            if value is None and similarity > best_similarity:
                best_name, best_similarity = name, similarity
        if best_name:
            yield Constraint(GIVE, best_name)

    def _change_width(self, origin: _Origin) -> Iterator[Constraint]:
        """Yield dtypes of another width but the same kind for a tensor."""
        tensor = self._launch_value(origin)
        if not isinstance(tensor, torch.Tensor):
            return
        dtypes: list[torch.dtype] = []
        if tensor.dtype == torch.int64:
            dtypes = [torch.int32]
        elif tensor.dtype == torch.int32:
            dtypes = [torch.int64]
        elif tensor.dtype.is_floating_point:
            dtypes = [*self._operand_dtypes(), torch.float32]
        for name in self._source_arguments(origin.name, tensor):
            for dtype in dtypes:
                if dtype != tensor.dtype:
                    yield Constraint(DTYPE, name, dtype)

    def _operand_dtypes(self) -> list[torch.dtype]:
        """Return the dtypes that the error message names."""
        operands = _OPERAND_DTYPES.search(self._message)
        dtypes = []
        for name in operands.groups() if operands else ():
            # Triton prints `int8` where a signature has `i8`.
            torch_name = TORCH_NAMES.get(name.replace("int", "i"))
            if torch_name is not None:
                dtypes.append(getattr(torch, torch_name))
        return dtypes

    def _change_rank(
        self, parameter: str, strides: tuple[Any, ...], rank: int
    ) -> Iterator[Constraint]:
        """Yield shapes of a rank for the tensor whose strides or extents were passed."""
        tensors = []
        for name, value in self._call_arguments.items():
            if isinstance(value, torch.Tensor):
                measures = (tuple(value.stride()), tuple(value.shape))
                if strides in measures:
                    tensors.append((name, value))
        tensors.sort(key=lambda item: -_name_similarity(item[0], parameter))
        missing = rank - len(strides)
        for name, tensor in tensors:
            shape = tuple(tensor.shape)
            if missing > 0:
                new_dimensions = (_NEW_EXTENT,) * missing
                yield Constraint(SHAPE, name, (*shape, *new_dimensions))
                yield Constraint(SHAPE, name, (*new_dimensions, *shape))
            elif missing < 0:
                yield Constraint(SHAPE, name, shape[:missing])
                yield Constraint(SHAPE, name, shape[-missing:])

    def _source_arguments(self, parameter: str, value: Any) -> Iterator[str]:
        """Yield the names of the call's arguments that a launch's argument was made from."""
        if not isinstance(value, torch.Tensor):
            for name, argument in self._call_arguments.items():
                if argument is value:
                    yield name
            return
        tensors = {}
        for name, argument in self._call_arguments.items():
            if isinstance(argument, torch.Tensor):
                tensors[name] = argument
        same_storage = [name for name, tensor in tensors.items() if _share_storage(tensor, value)]
        if same_storage:
            yield from same_storage
            return
        # The host code made another tensor of the argument: it probably has a similar name. Offsets
        # have the length of the counts that they are sums of.
        floats = [name for name, tensor in tensors.items() if tensor.dtype.is_floating_point]
        similar = [name for name in floats if _name_similarity(name, parameter) >= len(name)]
        if not similar and value.dim() == 1:
            similar = [name for name in floats if tensors[name].shape == value.shape]
        yield from similar


def _full_message(error: BaseException) -> str:
    """Return the messages of an error and of its causes."""
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(str(getattr(cause, "error_message", cause)))
        cause = cause.__cause__
    return "\n".join(messages)


def _share_storage(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return True if two tensors are views of one memory."""
    if tensor is other:
        return True
    try:
        return bool(tensor.untyped_storage()._cdata == other.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return False


def _name_similarity(name: str, parameter: str) -> int:
    """Return the length of the common prefix of two names, `name`'s underscores included."""
    length = 0
    letters = name.lower().replace("_", "")
    parameter_letters = parameter.lower().replace("_", "")
    for letter, parameter_letter in zip(letters, parameter_letters):
        if letter != parameter_letter:
            break
        length += 1
    if length:
        length += name.count("_")
    return length


def _refused_line(error: BaseException) -> _RefusedLine:
    """Return the line in the innermost kernel, with its values traced to the outermost one."""
    levels = _kernel_levels(error)
    outer_origins: dict[str, list[_Origin]] | None = None
    tuple_lengths: set[int] = set()
    for (dataflow, node), callee_level in zip(levels, [*levels[1:], None]):
        call = None
        if callee_level is None:
            node = _refused_variable(error) or _refused_address(error, node) or node
        else:
            callee, _ = callee_level
            call = _find_call(node, callee.name)
        if callee_level is None or call is None:
            origins = _to_outermost(outer_origins, dataflow.statement_origins(node))
            addends = [_Origin(each, False) for each in _addends(node, dataflow.parameters)]
            outer_addends = {each.name for each in _to_outermost(outer_origins, addends)}
            asserted = None
            for parameter, number in _asserted_sizes(node):
                for each in _to_outermost(outer_origins, [_Origin(parameter, False)]):
                    asserted = each.name, number
            return _RefusedLine(origins, tuple_lengths, frozenset(outer_addends), asserted)
        callee_origins = {}
        tuple_lengths = set()
        for name, value in passed_arguments(call, callee.parameters):
            origins = dataflow.origins([value])
            callee_origins[name] = _to_outermost(outer_origins, origins)
            if isinstance(value, ast.Tuple):
                tuple_lengths.add(len(value.elts))
        outer_origins = callee_origins
    return _RefusedLine([], tuple_lengths)


def _refused_address(error: BaseException, node: ast.AST) -> ast.expr | None:
    """Return the value that cannot be cast to an address."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            if _ADDRESS_ERROR.search(_full_message(error)):
                return value
    return None


def _asserted_sizes(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the variable and the number of `tl.static_assert(n == 4)`."""
    if called_name(node) != "static_assert":
        return
    assert isinstance(node, ast.Call)
    match node.args:
        case [ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[right]), *_]:
            if isinstance(right, ast.Constant) and type(right.value) is int:
                yield name, right.value


def _addends(node: ast.AST, parameters: Iterable[str]) -> Iterator[str]:
    """Yield the parameters that a sum adds as they are."""
    match node:
        case ast.BinOp(op=ast.Add()):
            for operand in (node.left, node.right):
                if isinstance(operand, ast.Name) and operand.id in parameters:
                    yield operand.id


def _kernel_levels(error: BaseException) -> list[tuple[_KernelDataflow, ast.AST]]:
    """Return the kernels that an error passed through, outermost first, each with its node."""
    levels = []
    cause: BaseException | None = error
    while cause is not None:
        source = getattr(cause, "src", None)
        node = getattr(cause, "node", None)
        if isinstance(source, str) and isinstance(node, ast.AST):
            levels.append((_KernelDataflow(source), node))
        cause = cause.__cause__
    return levels


def _refused_variable(error: BaseException) -> ast.Name | None:
    """Return the variable of a loop or branch that the error message names."""
    message = _full_message(error)
    variable = _LOOP_VARIABLE.search(message) or _BRANCH_VARIABLE.search(message)
    if variable is None:
        return None
    name = next(filter(None, variable.groups()))
    return ast.Name(name)


def _to_outermost(
    outer_origins: dict[str, list[_Origin]] | None, origins: list[_Origin]
) -> list[_Origin]:
    """Express origins in a callee by the parameters of the outermost kernel."""
    if outer_origins is None:
        return origins
    outermost: dict[_Origin, None] = {}
    for origin in origins:
        for outer in outer_origins.get(origin.name, ()):
            is_loaded = outer.is_loaded or origin.is_loaded
            outermost[_Origin(outer.name, is_loaded)] = None
    return list(outermost)


def _find_call(node: ast.AST, name: str) -> ast.Call | None:
    """Return the first call of a function."""
    for call in calls_in(node):
        if called_name(call) == name:
            return call
    return None


class _KernelDataflow:
    """Dataflow from the expressions of one kernel to its parameters."""

    def __init__(self, source: str) -> None:
        kernel = _parse_kernel(source)
        self.name = kernel.name
        self.parameters = kernel.parameters
        self._assignments = kernel.assignments
        self._return_values = kernel.return_values

    def statement_origins(self, node: ast.AST) -> list[_Origin]:
        """Return the parameters that the values of a statement come from."""
        values: list[ast.expr] = []
        match node:
            case ast.FunctionDef() | ast.Return():
                # A value returned on one path conflicts with that of another path.
                values = self._return_values
            case ast.For():
                values = [node.iter]
            case ast.If() | ast.While():
                values = [node.test]
            case ast.Assign() | ast.Expr():
                values = [node.value]
            case ast.AugAssign():
                values = [node.target, node.value]
            case ast.expr():
                values = [node]
        return self.origins(values)

    def origins(self, nodes: list[ast.expr]) -> list[_Origin]:
        """Return the parameters that expressions come from."""
        visited: set[str] = set()
        origins: dict[_Origin, None] = {}
        for node in nodes:
            for origin in self._visit(node, False, visited, 0):
                origins[origin] = None
        return list(origins)

    def _visit(
        self, node: ast.AST, is_loaded: bool, visited: set[str], depth: int
    ) -> Iterator[_Origin]:
        """Yield the parameters that an expression comes from."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(node, ast.Name):
            key = f"{node.id} {is_loaded}"
            if key in visited:
                return
            visited.add(key)
            if node.id in self.parameters:
                yield _Origin(node.id, is_loaded)
            for value in self._assignments.get(node.id, ()):
                yield from self._visit(value, is_loaded, visited, depth + 1)
        elif isinstance(node, ast.Call):
            yield from self._visit_call(node, is_loaded, visited, depth)
        elif is_loaded and isinstance(node, ast.BinOp):
            # An address starts with its pointer; the dtype of its offset does not matter.
            for operand in (node.left, node.right):
                origins = list(self._visit(operand, is_loaded, set(visited), depth + 1))
                if origins:
                    yield from origins
                    return
        else:
            for child in ast.iter_child_nodes(node):
                yield from self._visit(child, is_loaded, visited, depth + 1)

    def _visit_call(
        self, node: ast.Call, is_loaded: bool, visited: set[str], depth: int
    ) -> Iterator[_Origin]:
        """Yield the parameters that a call's result comes from."""
        name = called_name(node)
        if name in _LOADS or (is_loaded and name in _BLOCK_POINTERS):
            for address in self._addresses(node):
                yield from self._visit(address, True, visited, depth + 1)
            return
        if name in _GENERATORS or (name in _CASTS and not is_loaded):
            return
        if isinstance(node.func, ast.Attribute):
            yield from self._visit(node.func.value, is_loaded, visited, depth + 1)
        for argument in node.args:
            yield from self._visit(argument, is_loaded, visited, depth + 1)
        for keyword in node.keywords:
            yield from self._visit(keyword.value, is_loaded, visited, depth + 1)

    def _addresses(self, node: ast.Call) -> Iterator[ast.expr]:
        """Yield the address of a load.

        Its forms are `tl.load(x + i)`, `descriptor.load([i, j])`, `tl.make_block_ptr(base=x)`.
        """
        owner = getattr(node.func, "value", None)
        if isinstance(owner, ast.Name) and self._is_local(owner.id):
            yield owner
            return
        yield from node.args[:1]
        for keyword in node.keywords:
            if keyword.arg == "base":
                yield keyword.value

    def _is_local(self, variable: str) -> bool:
        return variable in self.parameters or variable in self._assignments


@dataclass(frozen=True)
class _KernelSource:
    """A kernel's name and parameters, all values of its variables, and all that it returns."""

    name: str
    parameters: list[str]
    assignments: dict[str, list[ast.expr]]
    return_values: list[ast.expr]


@functools.cache
def _parse_kernel(source: str) -> _KernelSource:
    (function,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(function, ast.FunctionDef)
    parameters = []
    for parameter in (*function.args.args, *function.args.kwonlyargs):
        parameters.append(parameter.arg)
    assignments: dict[str, list[ast.expr]] = {}
    return_values: list[ast.expr] = []
    for node in walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            return_values.append(node.value)
        for variable, value in _assignments(node):
            assignments.setdefault(variable, []).append(value)
    return _KernelSource(function.name, parameters, assignments, return_values)


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables that a statement assigns to, each with its value."""
    match node:
        case ast.For(target=ast.Name(id=variable), iter=value):
            yield variable, value
        case ast.AugAssign(target=ast.Name(id=variable), value=value):
            yield variable, value
        case ast.AnnAssign(target=ast.Name(id=variable), value=ast.expr() as value):
            yield variable, value
        case ast.Assign():
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple):
                    yield from _unpacked_assignments(target, node.value)


def _unpacked_assignments(target: ast.Tuple, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables of `x, y = value`, each with its value."""
    values = [value] * len(target.elts)
    if isinstance(value, ast.Tuple) and len(value.elts) == len(values):
        values = value.elts
    for element, element_value in zip(target.elts, values):
        if isinstance(element, ast.Name):
            yield element.id, element_value
