"""Constants and options that the package's own launches of a kernel pass, read from their code.

A function that nobody can call still has literals at its launches, such as `BLOCK_M=128` and
`num_warps=4`, and computes others from its tensors. Its code is evaluated with tensors of likely
shapes, expression by expression: one that depends on anything else has no value.
"""

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from ..engine.outcomes import outcome_of
from ..inference.shapes import SIZES, Dimensions, extents_of, is_head_size
from ..pysource.functions import file_tree, last_name, names_of, parameters, walk
from ..recorder import refusals

# Launches of one kernel that differ, for each head size.
_MAX_SITES = 2
_LAUNCHED = re.compile(r"(\w+)[\s)]*\[")
# Conventions of attention for no window and no cap.
_USUAL_VALUES: Mapping[str, Any] = {"window_size": (-1, -1), "softcap": 0.0, "logit_cap": 0.0}
_PLAIN_TYPES = (int, float, str, type(None), torch.dtype)

# Symbols of dimensions without a name, by the rank of the tensor.
_SYMBOLS: Mapping[int, Dimensions] = {
    1: ("D",),
    2: ("T", "D"),
    3: ("B", "T", "D"),
    4: ("B", "T", "H", "K"),
    5: ("B", "T", "H", "K", "V"),
}

# Values by the names of a kernel's parameters and of the compiler's options.
Values = dict[str, Any]

# A condition, and True in the branch that it leads to, False in the other one.
_Branch = tuple[ast.expr, bool]
_Assigned = tuple[ast.expr, Sequence[_Branch]]


class _UnknownError(Exception):
    """An expression that depends on arguments that nobody knows."""


def launch_sites(
    kernel: Any, head_sizes: Sequence[int], dtype: torch.dtype = torch.bfloat16
) -> list[tuple[int, Values]]:
    """Return what the distinct launches of a kernel pass in a dtype, as far as code implies it.

    Each comes with the head size at which its code was evaluated.
    """
    sites: list[tuple[int, Values]] = []
    modules = list(_launching_modules(kernel.fn))
    for head_size in head_sizes:
        for module in modules:
            for values in _values_in_module(module, kernel, head_size, dtype):
                if values and (head_size, values) not in sites:
                    sites.append((head_size, values))
    return sites[: _MAX_SITES * len(head_sizes)]


def _launching_modules(function: Any) -> Iterator[ModuleType]:
    """Yield the imported modules of a function's package that launch it; its own comes first."""
    own = sys.modules[function.__module__]
    yield own
    package = function.__module__.partition(".")[0]
    for module in _modules_by_launch(package).get(function.__name__, ()):
        if module is not own:
            yield module


@functools.cache
def _modules_by_launch(package: str) -> Mapping[str, list[ModuleType]]:
    """Return the imported modules of a package by the names in `name[…](…)`, maybe too many."""
    modules: dict[str, list[ModuleType]] = {}
    for name, module in list(sys.modules.items()):
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if name.partition(".")[0] != package or not file or not file.endswith(".py"):
            continue
        with open(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        if "triton" in text:
            for launched in set(_LAUNCHED.findall(text)):
                modules.setdefault(launched, []).append(module)
    return modules


def _values_in_module(
    module: ModuleType, kernel: Any, head_size: int, dtype: torch.dtype
) -> Iterator[Values]:
    """Yield what each launch of a kernel in a module passes."""
    tree = file_tree(str(module.__file__))
    if tree is None:
        return
    for call, functions in _launches(tree, kernel.fn.__name__):
        variables = _Variables(functions, vars(module), head_size, dtype)
        values = _passed_values(call, variables, kernel)
        tables: list[Values] = [{}]
        if any(keyword.arg is None for keyword in call.keywords):
            tables = list(_option_tables(tree, variables, kernel, values)) or tables
        for table in tables:
            yield {**values, **table}


def _launches(
    node: ast.AST, name: str, functions: tuple[ast.FunctionDef, ...] = ()
) -> Iterator[tuple[ast.Call, tuple[ast.FunctionDef, ...]]]:
    """Yield the launches `name[grid](…)` below a node, each with the functions around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and name in _launched_names(child.func):
            yield child, functions
        inner = functions
        if isinstance(child, ast.FunctionDef):
            inner = (*functions, child)
        yield from _launches(child, name, inner)


def _launched_names(function: ast.expr) -> Iterator[str]:
    """Yield the names in the expression of a launched kernel, such as `(a if c else b)[grid]`."""
    if isinstance(function, ast.Subscript):
        for node in walk(function.value):
            yield last_name(node)


def _passed_values(call: ast.Call, variables: "_Variables", kernel: Any) -> Values:
    """Return the values of a launch's arguments that its code implies."""
    expressions: list[tuple[str | None, ast.expr]] = []
    for name, argument in zip(kernel.arg_names, call.args):
        if isinstance(argument, ast.Starred):
            break
        expressions.append((name, argument))
    expressions += [(keyword.arg, keyword.value) for keyword in call.keywords]
    values: Values = {}
    for name, expression in expressions:
        try:
            value = variables.evaluate(expression)
        except _UnknownError:
            continue
        if name is not None:
            values[name] = value
        elif isinstance(value, dict):
            values.update(value)
    return _accepted(values, kernel, variables.dtype)


def _option_tables(
    tree: ast.AST, variables: "_Variables", kernel: Any, values: Values
) -> Iterator[Values]:
    """Yield the tables of constants in a module for a launch that passes `**table`."""
    lacking = {each.name for each in kernel.params if each.is_constexpr} - values.keys()
    for node in walk(tree):
        if isinstance(node, ast.Dict) and lacking:
            names = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if names & lacking:
                try:
                    table = variables.evaluate(node)
                except _UnknownError:
                    continue
                yield _accepted(table, kernel, variables.dtype)


def _accepted(values: Mapping[str, Any], kernel: Any, dtype: torch.dtype) -> Values:
    """Return the values that a launch passes as they are, without options of other vendors.

    A tensor in the dtype of the call is inferred from the kernel, which may load indices from it.
    """
    constants = {each.name for each in kernel.params if each.is_constexpr}
    accepted: Values = {}
    for name, value in values.items():
        # Triton wraps constants of modules.
        value = getattr(value, "value", value)
        if name in constants:
            is_passed = not isinstance(value, torch.Tensor)
        elif name in kernel.arg_names:
            is_passed = isinstance(value, _PLAIN_TYPES)
            if isinstance(value, torch.Tensor) and value.dtype != dtype:
                is_passed = True
                value = {"of": str(value.dtype).rpartition(".")[2], "shape": list(value.shape)}
        else:
            is_passed = refusals.is_option(name)
        if is_passed:
            accepted[name] = value
    return accepted


class _Variables(dict[str, Any]):
    """The variables of the functions around a launch, evaluated when they are read."""

    def __init__(
        self,
        functions: Sequence[ast.FunctionDef],
        scope: dict[str, Any],
        head_size: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self._scope = scope
        self._head_size = head_size
        self.dtype = dtype
        # The values that are assigned to each variable, and last the default of a parameter.
        self._expressions: dict[str, list[_Assigned]] = {}
        self._shapes: dict[str, _CodeShape] = {}
        self._tensors: set[str] = set()
        for function in reversed(functions):
            local: dict[str, list[_Assigned]] = {}
            for name in names_of(function, ast.Store):
                local[name] = []
            for parameter in parameters(function):
                local[parameter.arg] = []
                if parameter.annotation and last_name(parameter.annotation) == "Tensor":
                    self._tensors.add(parameter.arg)
            shapes: dict[str, _CodeShape] = {}
            for name, value, branches in _assigned_values(function):
                local[name].append((value, branches))
                _read_extent(value, shapes, name)
            for node in walk(function):
                _read_extent(node, shapes)
            self._shapes = {**shapes, **self._shapes}
            self._expressions = {**local, **self._expressions}

    def __missing__(self, name: str) -> Any:
        if name not in self._expressions:
            # A global variable.
            raise KeyError(name)
        expressions = self._expressions[name]
        while expressions:
            # `x = f(x)` reads the values that come after it here.
            expression, branches = expressions.pop(0)
            try:
                if self._may_be_taken(branches):
                    self[name] = self.evaluate(expression)
                    return self[name]
            except _UnknownError:
                continue
        if name not in self:
            # A condition of `if x is None: x = …` has read the value before.
            self[name] = self._likely_value(name)
        return self[name]

    def _may_be_taken(self, branches: Sequence[_Branch]) -> bool:
        """Return False if one of some branches is not taken for these values."""
        for condition, is_body in branches:
            value, error = outcome_of(functools.partial(self._run, condition))
            if (
                error is None
                and isinstance(value, (bool, *_PLAIN_TYPES))
                and bool(value) != is_body
            ):
                return False
        return True

    def _likely_value(self, name: str) -> Any:
        """Return a tensor for a parameter whose dimensions are read, or a number by its name."""
        dimensions: Dimensions | None = None
        if name in self._shapes:
            dimensions = self._shapes[name].dimensions()
        elif name in self._tensors:
            # Code with an index that depends on a layout implies no number of dimensions.
            dimensions = ("T", "H", "K")
        if dimensions is not None:
            extents = extents_of(dimensions, SIZES)
            if extents is not None and len(extents) > 1:
                # Code calls the size of a head by many names.
                extents = (*extents[:-1], self._head_size)
            if extents is not None:
                return torch.empty(extents, dtype=self.dtype, device="cuda")
        if is_head_size(name):
            return self._head_size
        if name in _USUAL_VALUES:
            return _USUAL_VALUES[name]
        raise _UnknownError

    def _run(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<launch>", "eval"), self._scope, self)

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression; that of `a if c else b` is `a` for an unknown `c`."""
        value, error = outcome_of(lambda: self._run(node))
        if error is None:
            return value
        if not isinstance(node, ast.IfExp):
            raise _UnknownError from error
        try:
            return self.evaluate(node.body)
        except _UnknownError:
            return self.evaluate(node.orelse)


@dataclass
class _CodeShape:
    """What code reads of a tensor.

    Attributes:
        names: the names of its dimensions by their index.
        rank: the number of dimensions whose sizes or strides are read.
        strides: the number of dimensions whose strides are read.
    """

    names: dict[int, str] = field(default_factory=dict)
    rank: int = 0
    strides: int = 0

    def dimensions(self) -> Dimensions | None:
        """Return the dimensions; None for a single size, which any tensor has."""
        if self.rank == 1:
            # The stride of a vector is 1, and nobody passes it: this one leads from row to row.
            return ("T", "K") if self.strides else None
        named = list(_SYMBOLS.get(self.rank, ("K",) * self.rank))
        for index, name in self.names.items():
            named[index] = name
        return tuple(named)


def _read_extent(node: ast.AST, shapes: dict[str, _CodeShape], name: str = "") -> None:
    """Add what `x.shape[1]`, `x.size(1)` or `x.stride(1)` implies to the shape of x.

    `name` is the variable that it is assigned to.
    """
    indices: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        indices = [node.slice]
        node = node.value
    if isinstance(node, ast.Call):
        indices = [*node.args, *indices]
        node = node.func
    match node:
        case ast.Attribute(value=ast.Name(id=tensor), attr="shape" | "size" | "stride" as read):
            index, _ = outcome_of(lambda: ast.literal_eval(indices[0]))
            if type(index) is not int:
                return
            shape = shapes.setdefault(tensor, _CodeShape())
            rank = -index if index < 0 else index + 1
            shape.rank = max(shape.rank, rank)
            if read == "stride":
                shape.strides = max(shape.strides, rank)
            elif name.strip("_"):
                shape.names.setdefault(index, name)


def _assigned_values(
    function: ast.FunctionDef,
) -> Iterator[tuple[str, ast.expr, Sequence[_Branch]]]:
    """Yield the variables of a function with their values, and then parameters with defaults.

    Each has the branches around its assignment.
    """
    waiting: list[tuple[ast.AST, tuple[_Branch, ...]]] = [(function, ())]
    # The list grows while it is read.
    for node, branches in waiting:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                for variable, part in _unpacked_values(names, value):
                    yield variable, part, branches
            case ast.Assign(targets=[*names], value=value):
                for name in names:
                    if isinstance(name, ast.Name):
                        yield name.id, value, branches
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value, branches
            case ast.If(test=test, body=body, orelse=other):
                waiting += [(child, (*branches, (test, True))) for child in body]
                waiting += [(child, (*branches, (test, False))) for child in other]
            case _:
                waiting += [(child, branches) for child in ast.iter_child_nodes(node)]
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for parameter, default in zip(reversed(positional), reversed(arguments.defaults)):
        yield parameter.arg, default, ()
    for parameter, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if keyword_default is not None:
            yield parameter.arg, keyword_default, ()


def _unpacked_values(names: Sequence[ast.expr], value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables of `a, b = value`, each with its part of the value."""
    for index, name in enumerate(names):
        if isinstance(name, ast.Starred):
            return
        if isinstance(name, ast.Name):
            part: ast.expr = ast.Subscript(value, ast.Constant(index), ast.Load())
            if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
                part = value.elts[index]
            yield name.id, ast.fix_missing_locations(ast.copy_location(part, value))
