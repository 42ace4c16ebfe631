"""Dataflow from an expression of running code back to the arguments of the call.

`K` leads to `k.shape[-1]`, and a callee's parameter to the expression that its caller passed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..pysource.functions import called_name, calls_in, passed_arguments, variable_name, walk
from .traceback_frames import TracebackFrame

SHAPE, DTYPE, VALUE, GIVE, OMIT, OBJECT, BUILD, TABLE, FIELD, ATTRIBUTES = range(10)
# Variables, callers and parts of conditions are followed this far; recursive code ends here.
MAX_DEPTH = 12
# The extent of dimensions that are put before those of a tensor: a small batch or head count.
_LEADING_EXTENT = 2
# Larger extents of one dimension are not tried.
_MAX_EXTENT = 1 << 20
# Dtypes by the size of an element in bytes.
_DTYPES_BY_SIZE = {
    1: (torch.uint8, torch.float8_e4m3fn),
    2: (torch.bfloat16,),
    4: (torch.float32,),
}
_TENSOR_METHODS = ("size", "element_size", "numel", "dim", "ndimension", "stride")
# Methods whose result is an element of a tensor.
_ELEMENT_METHODS = ("item", "max", "min", "amax", "amin")
# Elements of these dtypes are lengths and indices.
_INTEGER_DTYPES = (torch.int32, torch.int64)
# Functions whose result is that of their arguments, for the purpose of a constraint.
_TRANSPARENT_FUNCTIONS = ("int", "min", "max", "tuple", "list", "Size", "float")

Extents = tuple[int, ...]


@dataclass(frozen=True)
class Constraint:
    """A property that one argument of a call must have.

    Attributes:
        kind: SHAPE, DTYPE or another constant of this module.
        name: the argument's name; for BUILD that of a constructor's argument.
        value: SHAPE: the extents. DTYPE: the dtype. VALUE, BUILD: the value. GIVE, OMIT: None.
            OBJECT: a class, or the attribute that an object must have. TABLE: the keys.
            FIELD: the object's class, the name of the field and its value. ATTRIBUTES: the names
            of the attributes that an object of an unknown class must have.
    """

    kind: int
    name: str
    value: Any = None

    @property
    def identity(self) -> str:
        """A text that is equal for equal constraints."""
        return f"{self.kind} {self.name} {self.value!r}"


Constraints = Iterator[Constraint]


def ignore_errors(constraints: Constraints) -> Constraints:
    """Yield constraints until an error: expressions of a package may raise any exception."""
    try:
        yield from constraints
    except Exception:
        return


class ArgumentDataflow:
    """Finds constraints on a call's arguments that give an expression in one frame a value."""

    def __init__(self, arguments: Mapping[str, Any], frame: TracebackFrame, depth: int = 0) -> None:
        self._arguments = arguments
        self._frame = frame
        self._depth = depth

    def constrain(self, node: ast.expr, value: Any) -> Constraints:
        """Yield constraints that give an expression a value."""
        if self._depth > MAX_DEPTH:
            return
        self._depth += 1
        try:
            yield from ignore_errors(self._constrain(node, value))
        finally:
            self._depth -= 1

    def _constrain(self, node: ast.expr, value: Any) -> Constraints:
        match node:
            case ast.Name():
                yield from self._constrain_name(node, value)
            case ast.Attribute():
                yield from self._constrain_attribute(node, value)
            case ast.Subscript():
                yield from self._constrain_subscript(node, value)
            case ast.Call():
                yield from self._constrain_call(node, value)
            case ast.BinOp():
                yield from self._constrain_arithmetic(node, value)
            case ast.IfExp():
                branch = node.body if self._value(node.test) else node.orelse
                yield from self.constrain(branch, value)
            case ast.Tuple() | ast.List():
                for element, element_value in zip(node.elts, value):
                    if self._value(element) != element_value:
                        yield from self.constrain(element, element_value)

    def _value(self, node: ast.expr) -> Any:
        """Return an expression's value in the frame."""
        return self._frame.evaluate(node)

    def _variable(self, name: str) -> Any:
        """Return a variable's value in the frame, else None."""
        return self._frame.names.get(name)

    def _constrain_name(self, node: ast.Name, value: Any) -> Constraints:
        """Yield constraints for a variable, a parameter or a tensor."""
        current = self._variable(node.id)
        assignment = self._last_assignment(node.id)
        if isinstance(assignment, tuple):
            sequence, index = assignment
            yield from self._constrain_extent(sequence, index, value)
        elif assignment is not None:
            yield from self.constrain(assignment, value)
        elif self._is_parameter(node.id) and not isinstance(current, torch.Tensor):
            for name in self._source_arguments(node):
                yield Constraint(VALUE, name, value)
            yield from self._in_callers(
                node.id, lambda dataflow, passed: dataflow.constrain(passed, value)
            )
        elif isinstance(current, torch.Tensor):
            for name in self._source_arguments(node):
                yield Constraint(VALUE, name, value)

    def _constrain_attribute(self, node: ast.Attribute, value: Any) -> Constraints:
        """Yield constraints for `x.shape`, `x.dtype`, `x.ndim` and fields of objects."""
        if node.attr == "shape":
            yield from self._constrain_shape(node.value, tuple(value))
        elif node.attr == "dtype" and isinstance(value, torch.dtype):
            for name in self._source_arguments(node.value):
                yield Constraint(DTYPE, name, value)
        elif node.attr == "ndim":
            yield from self._constrain_rank(node.value, value)
        elif isinstance(node.value, ast.Name):
            yield from self._constrain_field(node.value.id, node.attr, value)

    def _constrain_field(self, variable: str, field: str, value: Any) -> Constraints:
        """Yield constraints on a field of an object; `self` is the object that is called."""
        instance = self._variable(variable)
        is_argument = False
        if instance is not None and not isinstance(instance, torch.Tensor):
            for name, argument in self._arguments.items():
                if argument is instance:
                    is_argument = True
                    yield Constraint(FIELD, name, (type(instance), field, value))
        if not is_argument and variable == "self":
            yield Constraint(BUILD, field, value)

    def _constrain_subscript(self, node: ast.Subscript, value: Any) -> Constraints:
        """Yield constraints for `x.shape[1]` and `x.shape[:2]`."""
        if not isinstance(node.slice, ast.Slice):
            index = self._value(node.slice)
            yield from self._constrain_extent(node.value, index, value)
            return
        tensor, shape = self._shape_of(node.value)
        if tensor is None:
            return
        extents = list(shape)
        extents[self._slice(node.slice)] = tuple(value)
        yield from self._constrain_shape(tensor, tuple(extents))

    def _slice(self, node: ast.Slice) -> slice:
        """Return the value of `lower:upper`."""
        bounds: list[Any] = []
        for bound in (node.lower, node.upper):
            bounds.append(bound and self._value(bound))
        return slice(*bounds)

    def _constrain_extent(self, node: ast.expr, index: int, value: Any) -> Constraints:
        """Yield constraints that give one dimension of `x.shape` or `x.size()[:3]` an extent."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            _, shape = self._shape_of(node.value)
            dimensions = range(len(shape))[self._slice(node.slice)]
            yield from self._constrain_extent(node.value, dimensions[index], value)
            return
        tensor, shape = self._shape_of(node)
        if tensor is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if -len(shape) <= index < len(shape) and 0 < value < _MAX_EXTENT:
            extents = list(shape)
            extents[index] = int(value)
            yield from self._constrain_shape(tensor, tuple(extents))

    def _shape_of(self, node: ast.expr) -> tuple[ast.expr | None, Extents]:
        """Return the tensor of `x.shape` or `x.size()`, and its shape."""
        if isinstance(node, ast.Call) and not node.args:
            node = node.func
        if isinstance(node, ast.Name):
            assignment = self._last_assignment(node.id)
            if isinstance(assignment, ast.expr):
                return self._shape_of(assignment)
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size"):
            shape = self._value(node.value).shape
            return node.value, tuple(shape)
        return None, ()

    def _constrain_call(self, node: ast.Call, value: Any) -> Constraints:
        """Yield constraints for the arguments of a call, or for a tensor and its method."""
        name = called_name(node)
        if isinstance(node.func, ast.Attribute) and name in _TENSOR_METHODS:
            yield from self._constrain_method(node.func, node.args, value)
        elif isinstance(node.func, ast.Attribute) and name in _ELEMENT_METHODS and not node.args:
            yield from self._constrain_elements(node.func.value, value)
        elif name in _TRANSPARENT_FUNCTIONS:
            for argument in node.args:
                yield from self.constrain(argument, value)
        elif node.args:
            yield from self._constrain_function(name, node.args, value)

    def _constrain_function(self, name: str, args: list[ast.expr], value: Any) -> Constraints:
        """Yield constraints for `len(x)`, `prod(x)`, `cdiv(x, y)` and `next_power_of_2(x)`."""
        first = args[0]
        match name:
            case "len":
                yield from self._constrain_len(first, value)
            case "prod":
                factors = tuple(self._value(first))
                for extents in _with_product(factors, value):
                    yield from self.constrain(first, extents)
            case "cdiv" if len(args) > 1:
                divisor = self._value(args[1])
                yield from self.constrain(first, value * divisor)
            case "next_power_of_2":
                yield from self.constrain(first, value)

    def _constrain_method(
        self, method: ast.Attribute, args: list[ast.expr], value: Any
    ) -> Constraints:
        """Yield constraints for a tensor by the value of a method such as `x.size(0)`."""
        tensor = method.value
        match method.attr:
            case "size" if args:
                shape = ast.Attribute(tensor, "shape", ast.Load())
                yield from self._constrain_extent(shape, self._value(args[0]), value)
            case "size":
                yield from self._constrain_shape(tensor, tuple(value))
            case "element_size" if value in _DTYPES_BY_SIZE:
                for name in self._source_arguments(tensor):
                    for dtype in _DTYPES_BY_SIZE[value]:
                        yield Constraint(DTYPE, name, dtype)
            case "numel":
                count = int(value)
                shape_now = tuple(self._value(tensor).shape)
                yield from self._constrain_shape(tensor, (count,))
                for extents in _with_product(shape_now, count):
                    yield from self._constrain_shape(tensor, extents)
            case "dim" | "ndimension":
                yield from self._constrain_rank(tensor, value)
            case "stride" if args and value == 1:
                # In a contiguous tensor only the last dimension has a stride of 1.
                index = self._value(args[0])
                yield from self._constrain_rank(tensor, index + 1)

    def _constrain_elements(self, node: ast.expr, value: Any) -> Constraints:
        """Yield an integer tensor whose elements all have a value, for a form of this tensor."""
        if isinstance(value, bool) or not isinstance(value, int):
            return
        while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
            # `lengths[rows].max()`: all elements become equal, whichever are read.
            node = node.func if isinstance(node, ast.Call) else node.value
        tensor = self._value(node)
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _INTEGER_DTYPES:
            return
        description = {
            "shape": tuple(tensor.shape),
            "of": str(tensor.dtype).removeprefix("torch."),
            "fill": value,
        }
        for name in self._source_arguments(node):
            yield Constraint(VALUE, name, description)

    def _constrain_len(self, node: ast.expr, length: Any) -> Constraints:
        """Yield constraints for the length of a list, or of a shape."""
        sequence = self._value(node)
        is_sequence = isinstance(sequence, (tuple, list)) and not isinstance(sequence, torch.Size)
        if is_sequence and sequence:
            yield from self._repeat(node, sequence[0], length)
        else:
            yield from self._constrain_length(node, length)

    def _constrain_arithmetic(self, node: ast.BinOp, value: Any) -> Constraints:
        """Yield constraints for each operand, with the current value of the other one."""
        left = self._value(node.left)
        right = self._value(node.right)
        match node.op:
            case ast.Mult():
                if right and value % right == 0:
                    yield from self.constrain(node.left, value // right)
                if left and value % left == 0:
                    yield from self.constrain(node.right, value // left)
            case ast.Add():
                yield from self.constrain(node.left, value - right)
                yield from self.constrain(node.right, value - left)
            case ast.Sub():
                yield from self.constrain(node.left, value + right)
            case ast.FloorDiv():
                yield from self.constrain(node.left, value * right)
                if value:
                    yield from self.constrain(node.right, left // value)
            case ast.Mod() if value == 0:
                next_multiple = -(-left // right) * right
                yield from self.constrain(node.left, next_multiple)
                yield from self.constrain(node.right, left)
            case ast.LShift() if left > 0 and value >= left:
                yield from self.constrain(node.right, (value // left).bit_length() - 1)
            case ast.Pow() if left == 2 and value > 0:
                yield from self.constrain(node.right, value.bit_length() - 1)
            case ast.BitAnd() if value == 0:
                next_power = 1 << (int(left) - 1).bit_length()
                yield from self.constrain(node.left, next_power)

    def _constrain_shape(self, tensor: ast.expr, shape: Extents) -> Constraints:
        """Yield a shape for the arguments that a tensor is a form of.

        An attribute of the object that is called is an argument of its constructor.
        """
        for name in self._source_arguments(tensor):
            yield Constraint(SHAPE, name, shape)
        attribute = self._own_attribute(tensor)
        if attribute is not None:
            dtype = str(self._value(tensor).dtype).removeprefix("torch.")
            yield Constraint(BUILD, attribute, {"shape": shape, "of": dtype})

    def _own_attribute(self, node: ast.expr) -> str | None:
        """Return the attribute's name if an expression is `self.weight`, else None."""
        if isinstance(node, ast.Name):
            assignment = self._last_assignment(node.id)
            if isinstance(assignment, ast.expr):
                node = assignment
        if isinstance(node, ast.Attribute) and variable_name(node.value) == "self":
            return node.attr
        return None

    def _constrain_rank(self, tensor: ast.expr, rank: Any) -> Constraints:
        """Yield shapes of a rank: leading dimensions are added, or joined, or dropped."""
        shape = tuple(self._value(tensor).shape)
        if type(rank) is not int or rank < 0 or rank == len(shape):
            return
        surplus = len(shape) - rank
        if surplus < 0:
            leading = (_LEADING_EXTENT,) * -surplus
            yield from self._constrain_shape(tensor, (*leading, *shape))
            return
        if rank:
            product = 1
            for extent in shape[: surplus + 1]:
                product *= extent
            yield from self._constrain_shape(tensor, (product, *shape[surplus + 1 :]))
        yield from self._constrain_shape(tensor, shape[surplus:])

    def _source_arguments(self, node: ast.expr) -> Iterator[str]:
        """Yield the names of the call's arguments that an expression is a form of."""
        if isinstance(node, ast.Subscript):
            # `x[0]` in a list of tensors: a constraint on one tensor applies to all.
            yield from self._lists_of(node.value)
            return
        if not isinstance(node, ast.Name):
            inner = getattr(node, "func", node)
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.expr):
                # `x.contiguous()`, `x.T`: the constraint applies to `x` as well.
                yield from self._source_arguments(inner.value)
            return
        current = self._variable(node.id)
        if isinstance(current, torch.Tensor):
            for name, argument in self._arguments.items():
                # `for x in tensors`: a constraint on one tensor applies to all.
                if argument is current or _contains(argument, current):
                    yield name
                    return
        if node.id in self._arguments and self._frame.has_original_arguments():
            yield node.id
            return
        assignment = self._last_assignment(node.id)
        if isinstance(assignment, ast.expr) and self._depth < MAX_DEPTH:
            self._depth += 1
            yield from self._source_arguments(assignment)
            self._depth -= 1
        elif self._is_parameter(node.id):
            yield from self._in_callers(
                node.id, lambda dataflow, passed: dataflow._source_arguments(passed)
            )

    def _lists_of(self, node: ast.expr) -> Iterator[str]:
        """Yield the arguments that are the list of tensors which a variable holds."""
        tensors = self._variable(variable_name(node))
        if not isinstance(tensors, (list, tuple)) or not tensors:
            return
        first = tensors[0]
        if not isinstance(first, torch.Tensor):
            return
        for name, argument in self._arguments.items():
            if isinstance(argument, (list, tuple)) and next(iter(argument), None) is first:
                yield name

    def _is_parameter(self, name: str) -> bool:
        code = self._frame.frame.f_code
        parameter_count = code.co_argcount + code.co_kwonlyargcount
        return name in code.co_varnames[:parameter_count]

    def _in_callers(
        self, parameter: str, follow: Callable[[Any, ast.expr], Iterator[Any]]
    ) -> Iterator[Any]:
        """Follow the caller's expressions for a parameter."""
        caller = self._frame.caller
        while caller is not None and caller.passes_all_arguments():
            caller = caller.caller
        if caller is None or caller.function is None or self._depth > MAX_DEPTH:
            return
        statement, _ = caller.statement()
        if statement is None:
            return
        code = self._frame.frame.f_code
        parameters = code.co_varnames[: code.co_argcount]
        for call in calls_in(statement):
            name = called_name(call)
            is_method = parameters[:1] == ("self",)
            is_autograd_function = parameters[:1] == ("ctx",) and name == "apply"
            bound_parameters = 0
            if is_method or is_autograd_function:
                bound_parameters = 1
            elif name != code.co_name:
                continue
            passed = dict(passed_arguments(call, parameters[bound_parameters:]))
            expression = passed.get(parameter)
            if expression is not None and not isinstance(expression, ast.Starred):
                dataflow = type(self)(self._arguments, caller, self._depth + 1)
                yield from follow(dataflow, expression)

    def _last_assignment(self, variable: str) -> ast.expr | tuple[ast.expr, int] | None:
        """Return the expression that was last assigned to a variable before the line.

        Where the variable was unpacked from a sequence, return the sequence and the index.
        """
        result: ast.expr | tuple[ast.expr, int] | None = None
        frame = self._frame
        if frame.function is None:
            return None
        for node in walk(frame.function):
            if not isinstance(node, ast.Assign):
                continue
            if node.lineno + frame.line_offset >= frame.line:
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == variable:
                    if not _contains_name(node.value, variable):
                        result = node.value
                elif isinstance(target, ast.Tuple):
                    part = _unpacked_value(target, node.value, variable)
                    # `x, y = x.contiguous(), y.contiguous()` leaves the variables as they were.
                    is_own_form = isinstance(part, ast.expr) and _contains_name(part, variable)
                    if part is not None and not is_own_form:
                        result = part
        return result

    def _repeat(self, node: ast.expr, element: Any, length: int) -> Constraints:
        """Yield a tuple of equal elements as the value of an expression's argument."""
        for name in self._source_arguments(node):
            yield Constraint(VALUE, name, (element,) * length)

    def _constrain_length(self, node: ast.expr, length: int) -> Constraints:
        """Yield constraints that give `x.shape`, `x.size()` or `x.stride()` a length."""
        if isinstance(node, ast.Call):
            node = node.func
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "stride"):
            yield from self._constrain_rank(node.value, length)


def _with_product(extents: Extents, product: int) -> Iterator[Extents]:
    """Yield extents with a product, or slightly more: the last extent changes, others may be 1."""
    if not extents or 0 in extents or product <= 0:
        return
    leading = extents[:-1]
    leading_product = 1
    for extent in leading:
        leading_product *= extent
    if leading_product <= product:
        last = -(-product // leading_product)
        yield (*leading, last)
    ones = (1,) * len(leading)
    yield (*ones, product)


def _unpacked_value(
    target: ast.Tuple, value: ast.expr, variable: str
) -> ast.expr | tuple[ast.expr, int] | None:
    """Return a variable's value in `x, y = value`: an expression, or the sequence and the index.

    The index is negative after a starred name: `*batch, length = x.shape`.
    """
    is_starred = False
    for index, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            is_starred = True
        elif isinstance(element, ast.Name) and element.id == variable:
            if is_starred:
                return value, index - len(target.elts)
            if not isinstance(value, ast.Tuple):
                return value, index
            # Of `*x.shape, y.shape[-1]`, only the values after the starred one are followed: `x`
            # has the dimensions that the code reads.
            position = index - len(target.elts)
            others = [each for each in value.elts if not isinstance(each, ast.Starred)]
            if -position <= len(others):
                return others[position]
    return None


def _contains(argument: Any, value: Any) -> bool:
    """Return True if an argument is a list with a value."""
    return isinstance(argument, (list, tuple)) and any(element is value for element in argument)


def _contains_name(node: ast.expr, name: str) -> bool:
    names = {part.id for part in walk(node) if isinstance(part, ast.Name)}
    return name in names
