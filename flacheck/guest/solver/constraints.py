"""Constraints on the arguments of a call that failed, from the code that raised the error.

The frames of the error still hold their variables. The condition of the `assert` or `if` that ended
the call is taken apart, each part that does not hold is traced back to the call's arguments, and
the values that meet it become constraints. No package is treated specially.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..pysource.functions import called_name, method_name, variable_name, walk
from .argument_dataflow import (
    ATTRIBUTES,
    DTYPE,
    GIVE,
    OBJECT,
    SHAPE,
    TABLE,
    VALUE,
    Constraint,
    Constraints,
    ignore_errors,
)
from .conditions import ConditionSolver
from .traceback_frames import TracebackFrame

# Constraints of one error, and values of one table.
_MAX_CONSTRAINTS = 16
_MAX_VALUES = 6
# Numbers in place of a tensor with one element, by the function that converts it.
_SCALARS = {"int": 1, "float": 1.0, "bool": True}
_NOT_A_SCALAR = re.compile(r"one element tensors|converted to Scalar")
_NOT_AN_INDEX = re.compile(r"can be converted to an index")
_NOT_A_SEQUENCE = re.compile(r"has no len\(\)|is not iterable|must support iteration")
_MISSING_ARGUMENT = re.compile(r"missing \d+ required positional argument")
# The shape of the operand that does not fit, and that of the result.
_NOT_BROADCASTABLE = re.compile(
    r"had torch\.Size\(\[([\d, ]+)\]\); but expected shape should be broadcastable to \[([\d, ]+)\]"
)
_MISSING_DIMENSION = re.compile(r"Dimension out of range")
_NOT_A_SHAPE = re.compile(r"must be tuple of ints")
_TOO_MANY_DIMENSIONS = re.compile(
    r"sizes provided \((?P<most>\d+)\).* dimensions in the tensor \((?P<actual>\d+)\)"
)
_NOT_A_VIEW = re.compile(r"is invalid for input of size")
_PRINTED_SHAPE = re.compile(r"[(\[](\d+(?:, \d+)+)[)\]]")
_EXTENTS = r"[(\[](\d+(?:, \d+)*),?[)\]]"
_NO_BRACKETS = r"[^()\[\]]{0,24}"
# After an argument's name: two shapes, one of them its own.
_TWO_SHAPES = rf"{_NO_BRACKETS}\(?{_EXTENTS}{_NO_BRACKETS}{_EXTENTS}"
_EXTENT = 16
# An integer in place of a tensor: a count, a degree or a level.
_INTEGER = 2
_HUGE_EXTENT = 1 << 16


def refusal_constraints(error: BaseException, arguments: Mapping[str, Any]) -> list[Constraint]:
    """Return the constraints that may avoid an error, the likeliest first.

    `arguments` are all parameters of the call by name, omitted ones with their defaults.
    """
    constraints: list[Constraint] = []
    for frame in reversed(_package_frames(error)):
        if frame.function is None:
            continue
        solver = ErrorSolver(arguments, frame)
        suggestions = ignore_errors(solver.avoid_error(error))
        constraints += itertools.islice(suggestions, _MAX_CONSTRAINTS)
        if constraints:
            break
    if not constraints:
        constraints = list(_named_shapes(str(error), arguments))
    if not constraints and isinstance(error, (ValueError, AssertionError)):
        # A package's own check; torch's errors about shapes are RuntimeErrors with other remedies.
        constraints = list(_match_shapes(str(error), arguments))
    unique = {constraint.identity: constraint for constraint in constraints}
    return sorted(unique.values(), key=_is_huge)


def _parse_extents(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.replace(",", " ").split()))


def _named_shapes(message: str, arguments: Mapping[str, Any]) -> Constraints:
    """Yield shapes for the tensors that a message names.

    After the name, the message prints two shapes: the tensor's own and the one that it must have.
    """
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor):
            continue
        match = re.search(rf"\b{re.escape(name)}\b{_TWO_SHAPES}", message)
        if match is None:
            continue
        shapes = [_parse_extents(text) for text in match.groups()]
        own_shape = tuple(value.shape)
        if own_shape in shapes and shapes[0] != shapes[1]:
            shapes.remove(own_shape)
            yield Constraint(SHAPE, name, shapes[0])


def _match_shapes(message: str, arguments: Mapping[str, Any]) -> Constraints:
    """Yield the other's shape for each of two tensors whose shapes an error message prints."""
    printed: list[tuple[int, ...]] = []
    for extents in _PRINTED_SHAPE.findall(message):
        printed.append(_parse_extents(extents))
    if len(printed) != 2 or printed[0] == printed[1]:
        return
    for shape, other_shape in (printed[::-1], printed):
        for name, value in arguments.items():
            if isinstance(value, torch.Tensor) and tuple(value.shape) == shape:
                yield Constraint(SHAPE, name, other_shape)


def _package_frames(error: BaseException) -> list[TracebackFrame]:
    """Return the frames of an error without those of libraries, such as torch's autograd."""
    frames = []
    trace = error.__traceback__
    caller: TracebackFrame | None = None
    while trace is not None:
        frame = TracebackFrame(trace.tb_frame, trace.tb_lineno)
        if not frame.is_library:
            frame.caller = caller
            caller = frame
            frames.append(frame)
        trace = trace.tb_next
    return frames


def _is_huge(constraint: Constraint) -> bool:
    """Return True for a tensor longer than any real one, as the product of another's extents."""
    return constraint.kind == SHAPE and max(constraint.value, default=0) > _HUGE_EXTENT


class ErrorSolver(ConditionSolver):
    """Finds constraints that avoid an error in one frame."""

    def avoid_error(self, error: BaseException) -> Constraints:
        """Yield constraints that may avoid an error raised at the frame's line."""
        statement, branches = self._frame.statement()
        match statement:
            case None:
                return
            case ast.Assert():
                yield from self.require(statement.test, True)
            case ast.Raise():
                for condition, truth in branches:
                    yield from self.require(condition, not truth)
            case _:
                yield from self._avoid_failed_operation(statement, error)

    def _avoid_failed_operation(self, statement: ast.stmt, error: BaseException) -> Constraints:
        """Yield constraints for an operation in a statement that raised an error."""
        text = str(error)
        if isinstance(error, TypeError) and _MISSING_ARGUMENT.search(text):
            yield from ignore_errors(self._add_missing_arguments(statement, text))
            return
        head = statement
        if isinstance(statement, (ast.If, ast.While)):
            head = ast.Expr(statement.test)
        elif isinstance(statement, (ast.For, ast.With)):
            return
        if "oolean value of Tensor" in text:
            for name in _condition_names(head):
                if isinstance(self._variable(name.id), torch.Tensor):
                    yield from self.constrain(name, False)
        for node in walk(head):
            yield from self._fix_node(node, error, text)
        if isinstance(error, IndexError) and _MISSING_DIMENSION.search(text):
            yield from ignore_errors(self._add_dimensions(head))
        if _NOT_A_SEQUENCE.search(text):
            yield from ignore_errors(self._wrap_numbers(head))
        if _NOT_A_SHAPE.search(text):
            yield from ignore_errors(self._replace_shapes(head))
        if _NOT_AN_INDEX.search(text):
            yield from ignore_errors(self._make_index(head))
        if isinstance(statement, ast.Assign) and "unpack" in text:
            yield from ignore_errors(self._unpack(statement))
        if isinstance(error, (RuntimeError, IndexError, TypeError)):
            yield from ignore_errors(self._fit_broadcast(head, text))
            yield from self._match_operands(head)

    def _fix_node(self, node: ast.AST, error: BaseException, text: str) -> Constraints:
        """Yield constraints for an expression that may have raised the error."""
        match node, error:
            case ast.Subscript(), KeyError():
                yield from self._use_table_keys(node)
            case ast.Subscript(), TypeError() | IndexError():
                yield from ignore_errors(self._make_subscriptable(node))
            case ast.Attribute(), _ if f"attribute '{node.attr}'" in text:
                yield from self._make_object(node)
            case ast.BinOp(), ZeroDivisionError():
                yield from ignore_errors(self._avoid_zero_divisor(node))
            case ast.Call(), _ if _NOT_A_SCALAR.search(text):
                yield from ignore_errors(self._make_scalar(node))
            case ast.Call(func=ast.Attribute(attr="expand")), RuntimeError():
                yield from ignore_errors(self._reduce_expanded(node, text))
            case ast.Call(func=ast.Attribute(attr="cat" | "concat")), RuntimeError():
                yield from ignore_errors(self._fit_joined(node))
            case ast.Call(func=ast.Attribute(attr="view" | "reshape")), RuntimeError():
                if _NOT_A_VIEW.search(text):
                    yield from ignore_errors(self._fit_view(node))

    def _add_missing_arguments(self, statement: ast.stmt, text: str) -> Constraints:
        """Yield constraints for a launch that lacks arguments of its kernel.

        Either a table lacks options, or a tensor has too few dimensions for `*x.stride()[2:]`.
        """
        missing = re.findall(r"'(\w+)'", text)
        for name, argument in self._arguments.items():
            if isinstance(argument, dict):
                yield Constraint(TABLE, name, (*argument, *missing))
        for node in walk(statement):
            if not isinstance(node, ast.Starred):
                continue
            part: ast.AST = node.value
            if isinstance(part, ast.Subscript):
                part = part.value
            if isinstance(part, ast.Call):
                part = part.func
            if isinstance(part, ast.Attribute) and part.attr in ("stride", "shape", "size"):
                tensor = self._value(part.value)
                yield from self._constrain_rank(part.value, tensor.dim() + len(missing))

    def _wrap_numbers(self, head: ast.AST) -> Constraints:
        """Yield a sequence of one number for `len(dim)` and `for d in dim` of a number."""
        for node in walk(head):
            if isinstance(node, ast.Name):
                number = self._variable(node.id)
                if isinstance(number, (int, float)) and not isinstance(number, bool):
                    yield from self._repeat(node, number, 1)

    def _replace_shapes(self, head: ast.AST) -> Constraints:
        """Yield one or two extents for `torch.empty(shape)` of a tensor."""
        for node in self._tensor_names(head):
            for name in self._source_arguments(node):
                yield Constraint(VALUE, name, _EXTENT)
                yield Constraint(VALUE, name, (_EXTENT, _EXTENT))

    def _make_index(self, head: ast.AST) -> Constraints:
        """Yield an integer for a tensor that is used as an index or extent.

        A tensor stays one if the function reads its attributes, as in `x.shape`.
        """
        owners = set()
        for node in walk(self._frame.function or head):
            if isinstance(node, ast.Attribute):
                owners.add(variable_name(node.value))
        for name_node in self._tensor_names(head):
            if name_node.id not in owners:
                for name in self._source_arguments(name_node):
                    yield Constraint(VALUE, name, _INTEGER)

    def _tensor_names(self, node: ast.AST) -> Iterator[ast.Name]:
        """Yield the names of tensors in an expression."""
        for part in walk(node):
            if isinstance(part, ast.Name):
                value = self._variable(part.id)
                if isinstance(value, torch.Tensor):
                    yield part

    def _add_dimensions(self, head: ast.AST) -> Constraints:
        """Yield shapes with the dimensions that `x.stride(2)` reads of a tensor with fewer."""
        least_ranks: dict[str, tuple[ast.expr, int]] = {}
        for node in walk(head):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=tensor, attr="stride" | "size"), args=[argument]
                ):
                    index = self._value(argument)
                    if type(index) is int:
                        key = ast.dump(tensor)
                        _, rank = least_ranks.get(key, (tensor, 0))
                        least_ranks[key] = (tensor, max(index + 1, -index, rank))
        for tensor, rank in least_ranks.values():
            if self._value(tensor).dim() < rank:
                yield from self._constrain_rank(tensor, rank)

    def _avoid_zero_divisor(self, node: ast.BinOp) -> Constraints:
        """Yield constraints that make a divisor 1, such as the quotient of two sizes."""
        is_division = isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Div))
        if is_division and self._value(node.right) == 0:
            yield from self.constrain(node.right, 1)

    def _make_scalar(self, node: ast.Call) -> Constraints:
        """Yield a number for `float(x)` or `x.item()` of a tensor with several elements."""
        name = called_name(node)
        operand: ast.expr | None = None
        if name in _SCALARS and len(node.args) == 1:
            operand = node.args[0]
        elif name == "item" and isinstance(node.func, ast.Attribute):
            operand = node.func.value
        if operand is None or not isinstance(self._value(operand), torch.Tensor):
            return
        for argument in self._source_arguments(operand):
            yield Constraint(VALUE, argument, _SCALARS.get(name, 1))

    def _reduce_expanded(self, node: ast.Call, text: str) -> Constraints:
        """Yield a tensor with fewer dimensions for `x[None].expand(2, -1)` of too many."""
        ranks = _TOO_MANY_DIMENSIONS.search(text)
        if ranks is None or not isinstance(node.func, ast.Attribute):
            return
        tensor = node.func.value
        if isinstance(tensor, ast.Subscript):
            tensor = tensor.value
        surplus = int(ranks["actual"]) - int(ranks["most"])
        yield from self._constrain_rank(tensor, self._value(tensor).dim() - surplus)

    def _fit_joined(self, node: ast.Call) -> Constraints:
        """Yield the first tensor's shape for the others of `torch.cat([x, y], dim=1)`.

        They keep their extent of the joined dimension if they have as many dimensions.
        """
        operands = node.args[0]
        if not isinstance(operands, (ast.List, ast.Tuple)):
            return
        dimension = 0
        for keyword in node.keywords:
            if keyword.arg == "dim":
                dimension = self._value(keyword.value)
        if len(node.args) > 1:
            dimension = self._value(node.args[1])
        first_shape = self._value(operands.elts[0]).shape
        for operand in operands.elts[1:]:
            shape = self._value(operand).shape
            extents = list(first_shape)
            if len(shape) == len(extents):
                extents[dimension] = shape[dimension]
            if tuple(extents) == tuple(shape):
                continue
            if isinstance(operand, ast.Subscript) and isinstance(operand.slice, ast.Slice):
                # `x[1:]` has the dimensions of `x`.
                operand = operand.value
            yield from self._constrain_shape(operand, tuple(extents))

    def _fit_view(self, node: ast.Call) -> Constraints:
        """Yield constraints for `x.view(batch, length, width)` with another number of elements.

        An extent that is a number of the call follows from the tensor and the other extents. Else
        the tensor has the shape of the view, or another extent follows.
        """
        assert isinstance(node.func, ast.Attribute)
        tensor = node.func.value
        current = self._value(tensor)
        nodes = node.args
        if len(nodes) == 1 and isinstance(nodes[0], (ast.Tuple, ast.List)):
            nodes = nodes[0].elts
        extents = [self._value(extent) for extent in nodes]
        constraints: list[Constraint] = []
        for extent_node, extent in zip(nodes, extents):
            if -1 in extents or extent <= 0:
                continue
            others = math.prod(extents) // extent
            if current.numel() % others == 0:
                constraints += self.constrain(extent_node, current.numel() // others)
        yield from (each for each in constraints if each.kind == VALUE)
        if -1 not in extents:
            yield from self._constrain_shape(tensor, tuple(extents))
        # Another extent of a tensor changes all tensors with this dimension, too.
        yield from (each for each in constraints if each.kind != VALUE)

    def _make_subscriptable(self, node: ast.Subscript) -> Constraints:
        """Yield constraints for a subscript of a value that does not support it.

        For `config["BLOCK"]` of a number it is a table with all keys that the function reads; for
        `x.shape[2]` of a tensor with fewer dimensions, or `sizes[1]` of a number, more elements.
        """
        current = self._value(node.value)
        if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            yield from self._lengthen(node.value, current, node.slice.value + 1)
            return
        if not isinstance(current, (int, float, torch.Tensor)):
            return
        if not isinstance(node.value, ast.Name):
            return
        keys = self._constant_keys(node.value.id, node)
        if keys and all(isinstance(key, str) for key in keys):
            for name in self._source_arguments(node.value):
                yield Constraint(TABLE, name, tuple(dict.fromkeys(keys)))

    def _constant_keys(self, variable: str, node: ast.expr) -> list[Any]:
        """Return the constants that the function uses as keys of a variable."""
        keys = []
        for part in walk(self._frame.function or node):
            match part:
                case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
                    if name == variable:
                        keys.append(key)
        return keys

    def _lengthen(self, node: ast.expr, current: Any, length: int) -> Constraints:
        """Yield constraints that give an expression at least so many elements."""
        if isinstance(current, torch.Size):
            if len(current) < length:
                yield from self._constrain_length(node, length)
        elif isinstance(current, (int, float, list, tuple)) and isinstance(node, ast.Name):
            for key in self._constant_keys(node.id, node):
                if type(key) is int:
                    length = max(length, key + 1)
            if not isinstance(current, (list, tuple)):
                yield from self._repeat(node, current, length)
            elif 0 < len(current) < length:
                yield from self._repeat(node, current[0], length)

    def _use_table_keys(self, node: ast.Subscript) -> Constraints:
        """Yield the keys of the table in `TABLE[x.dtype]` as values of the subscript."""
        table = self._value(node.value)
        if isinstance(table, Mapping):
            for key in list(table)[:_MAX_VALUES]:
                yield from self.constrain(node.slice, key)

    def _make_object(self, node: ast.Attribute) -> Constraints:
        """Yield an object with the attribute for `config.size` of a number or tensor.

        If no class has it, the object has the attributes that the function reads of it. An argument
        that is None may be a tensor, if a tensor has the attribute.
        """
        current = self._value(node.value)
        names = []
        if isinstance(current, types.SimpleNamespace):
            names = [name for name, argument in self._arguments.items() if argument is current]
        elif current is None or isinstance(current, (int, float, str, torch.Tensor)):
            names = list(self._source_arguments(node.value))
            for name in names:
                if current is None and hasattr(torch.Tensor, node.attr):
                    yield Constraint(GIVE, name)
                yield Constraint(OBJECT, name, node.attr)
        attributes = self._attributes_of(node)
        for name in names:
            if attributes:
                yield Constraint(ATTRIBUTES, name, attributes)

    def _attributes_of(self, node: ast.Attribute) -> tuple[str, ...]:
        """Return the attributes that the function reads of a variable; none if it calls this one.

        The methods of an unknown class are unknown.
        """
        if not isinstance(node.value, ast.Name):
            return (node.attr,)
        variable = node.value.id
        names: dict[str, None] = {}
        methods: set[str] = set()
        for part in walk(self._frame.function or node):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                    if owner == variable:
                        methods.add(name)
                case ast.Attribute(value=ast.Name(id=owner), attr=name):
                    if owner == variable:
                        names[name] = None
        if node.attr in methods:
            return ()
        return tuple(name for name in names if name not in methods)

    def _unpack(self, statement: ast.Assign) -> Constraints:
        """Yield constraints for `x, y = value` of a value with another number of elements."""
        target = statement.targets[0]
        value = statement.value
        if not isinstance(target, ast.Tuple):
            return
        length = len(target.elts)
        current = self._value(value)
        if method_name(value) == "stride":
            yield from self._constrain_length(value, length)
            return
        is_sequence = isinstance(current, (tuple, list)) and not isinstance(current, torch.Size)
        if is_sequence and current:
            yield from self._repeat(value, current[0], length)
        elif isinstance(current, (int, float)):
            yield from self._repeat(value, current, length)
        else:
            yield from self._constrain_length(value, length)

    def _fit_broadcast(self, head: ast.AST, text: str) -> Constraints:
        """Yield the shape that torch's error requires, for a tensor with the shape that it names.

        The bias of `F.linear(x, weight, bias)` is as long as the weight's first dimension.
        """
        match = _NOT_BROADCASTABLE.search(text)
        if match is None:
            return
        shape, result = (tuple(map(int, part.split(","))) for part in match.groups())
        for node in self._tensor_names(head):
            if tuple(self._value(node).shape) == shape:
                yield from self._constrain_shape(node, result[-len(shape) :])

    def _match_operands(self, statement: ast.stmt) -> Constraints:
        """Yield, for each tensor in a statement, the shape and dtype of each other tensor."""
        tensors = {node.id: node for node in self._tensor_names(statement)}
        for name, other_name in itertools.permutations(tensors, 2):
            tensor = self._frame.names[name]
            other = self._frame.names[other_name]
            if tensor.shape != other.shape:
                yield from self._constrain_shape(tensors[name], tuple(other.shape))
            # An index tensor remains an index tensor, and the tensor that it indexes remains too.
            is_same_kind = tensor.dtype.is_floating_point == other.dtype.is_floating_point
            if tensor.dtype != other.dtype and is_same_kind:
                for argument in self._source_arguments(tensors[name]):
                    yield Constraint(DTYPE, argument, other.dtype)


def _condition_names(statement: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that a statement uses as conditions."""
    for node in walk(statement):
        conditions: list[ast.expr] = []
        match node:
            case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
                conditions = [node.test]
            case ast.BoolOp():
                conditions = node.values
            case ast.UnaryOp():
                conditions = [node.operand]
            case ast.Expr():
                conditions = [node.value]
        for condition in conditions:
            if isinstance(condition, ast.Name):
                yield condition
