"""Kernels as operators, for those that no function of the package launches here.

A function may need a checkpoint, a network or a structure of data that nobody can infer. Its
kernel's own code implies arguments that it accepts: addresses, numbers, flags and dtypes. Such
launches are made up.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..inference import usage
from ..inference.operators import KERNEL, Operator
from ..pysource.functions import (
    called_name,
    function_tree,
    passed_arguments,
    walk,
)
from .attempts import attempt
from .kernel_references import kernel_name
from .pointer_parameters import callee_of, pointer_parameters

_POINTER_NAME = re.compile(r"_?(ptrs?|pointer)$|^p_", re.IGNORECASE)
_FLOAT_NAME = re.compile(
    r"(^|_)(eps|epsilon|scale|alpha|beta|lr|momentum|decay|prob|dropout|softcap|temperature|theta"
    r"|factor)(_|$)",
    re.IGNORECASE,
)
_STRIDE_NAME = re.compile(r"stride")


@dataclass(frozen=True)
class _Text:
    """The kind of a constant that is one of a few texts, with the first of them."""

    value: str


# The other kinds of constants.
_FLAG, _DTYPE = "flag", "dtype"
_Kind = str | _Text
# Methods and functions whose argument is a dtype, with its position, and keywords of all functions.
_CASTS = {"to": 0, "cast": 1, "pointer_type": 0, "zeros": 1, "full": 2}
_KEYWORD_KINDS: dict[str, _Kind] = {
    **dict.fromkeys(("dtype", "out_dtype"), _DTYPE),
    "allow_tf32": _FLAG,
    "input_precision": _Text("tf32"),
}
_ANNOTATIONS: dict[_Kind, str] = {_FLAG: "bool", _DTYPE: usage.DTYPE}
# CPU seconds to read the code of one kernel and of those that it calls.
_READ_SECONDS = 4.0
# Kernels that call each other, outermost first.
_MAX_CALLEES = 4


def kernel_operators(names: Iterable[str]) -> Iterator[Operator]:
    """Yield kernels as operators; only modules' own variables are found.

    A kernel whose code or wrappers cannot be read is left out: the capture goes on.

    Args:
        names: kernels as `module:name`.
    """
    for name in names:
        operator = attempt(functools.partial(_as_operator, name), _READ_SECONDS, keeps_trace=False)
        if isinstance(operator, Operator):
            yield operator


def _as_operator(name: str) -> Operator | None:
    """Return the kernel `module:name` as an operator, None without one that Triton made."""
    module, _, variable = name.partition(":")
    kernel = vars(sys.modules.get(module, object)).get(variable)
    if kernel_name(kernel) != name:
        return None
    function = _innermost(kernel)
    if not hasattr(function, "params"):
        # The package's own kind of kernel.
        return None
    launch = _SingleLaunch(kernel, function)
    return Operator(
        name=name,
        call=launch,
        kind=KERNEL,
        outer=False,
        kernels=frozenset((name,)),
        parameters=tuple(launch.parameters()),
        source=function.fn,
    )


def _innermost(kernel: Any) -> Any:
    """Return the kernel inside autotuners and heuristics."""
    while not inspect.isfunction(kernel.fn):
        kernel = kernel.fn
    return kernel


class _SingleLaunch:
    """A function that launches a kernel with one program."""

    def __init__(self, kernel: Any, function: Any) -> None:
        self._kernel = kernel
        self._function = function
        self._kinds = _constant_kinds(function)
        # The arguments that are not inferred, and flags, which are off unless a plan turns them on.
        self._fixed: dict[str, Any] = dict.fromkeys(_last_strides(function.arg_names), 1)
        self._flags: dict[str, bool] = {}
        for parameter in function.params:
            kind = self._kinds.get(parameter.name)
            if parameter.is_constexpr and isinstance(kind, _Text):
                self._fixed[parameter.name] = kind.value
            elif parameter.is_constexpr and kind == _FLAG:
                self._flags[parameter.name] = False

    def __call__(self, **arguments: Any) -> None:
        values = {**self._fixed, **self._flags}
        for name, value in arguments.items():
            if isinstance(value, torch.dtype):
                value = _triton_dtype(value)
            values[name] = value
        # A tuner's functions read only the arguments that were passed by position.
        positional = []
        for name in self._function.arg_names:
            if name not in values:
                break
            positional.append(values.pop(name))
        self._kernel[(1,)](*positional, **values)

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield the parameters to infer, annotated by their use in the kernel."""
        configured = _configured_parameters(self._kernel)
        pointers = pointer_parameters(self._function)
        for parameter in self._function.params:
            name = parameter.name
            if name in configured or name in self._fixed:
                continue
            annotation = "int"
            if parameter.is_constexpr:
                annotation = _ANNOTATIONS.get(self._kinds.get(name, ""), annotation)
            elif name in pointers or _POINTER_NAME.search(name):
                annotation = "Tensor"
            elif _FLOAT_NAME.search(name):
                annotation = "float"
            default = _default(self._function.fn, name)
            if default is inspect.Parameter.empty:
                default = self._flags.get(name, default)
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(name, kind, default=default, annotation=annotation)


def _triton_dtype(dtype: torch.dtype) -> Any:
    """Return Triton's dtype of the same name."""
    import triton.language as tl

    return getattr(tl, str(dtype).rpartition(".")[2])


def _default(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def _configured_parameters(kernel: Any) -> set[str]:
    """Return the parameters that autotuners and heuristics around a kernel pass."""
    names: set[str] = set()
    while not inspect.isfunction(kernel):
        for config in getattr(kernel, "configs", None) or ():
            names.update(config.kwargs)
        names.update(getattr(kernel, "values", None) or ())
        kernel = kernel.fn
    return names


def _last_strides(names: Iterable[str]) -> set[str]:
    """Return the strides of the tensors' last dimensions, which are 1 for contiguous tensors.

    The names of one tensor's strides differ in the last letter or word: `stride_qh`, `stride_qd`.
    """
    last = {}
    strides = [name for name in names if _STRIDE_NAME.search(name)]
    for tensor, group in itertools.groupby(strides, _tensor_of_stride):
        of_tensor = list(group)
        if len(of_tensor) > 1:
            last[tensor] = of_tensor[-1]
    return set(last.values())


def _tensor_of_stride(name: str) -> str:
    head, separator, word = name.rpartition("_")
    if not separator or (len(word) > 1 and head.endswith("stride")):
        return name[:-1]
    return head


def _constant_kinds(kernel: Any, depth: int = 0) -> dict[str, _Kind]:
    """Return the names that a kernel and its callees use as flags, dtypes and texts only.

    Texts that the kernel itself compares are found with the other constants of its module.
    """
    tree = function_tree(kernel.fn)
    if tree is None:
        return {}
    uses: Counter[str] = Counter()
    kinds: defaultdict[str, Counter[_Kind]] = defaultdict(Counter)
    for node in walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, (ast.If, ast.IfExp)):
            for name in _tested_names(node.test):
                kinds[name][_FLAG] += 1
        elif isinstance(node, ast.Compare) and depth:
            for name, text in _compared_texts(node):
                kinds[name][_Text(text)] += 1
        elif isinstance(node, ast.Call):
            for name, kind in _kinds_of_arguments(node):
                kinds[name][kind] += 1
            callee = callee_of(node, kernel)
            if callee is not None and depth < _MAX_CALLEES:
                inner_kinds = _constant_kinds(callee, depth + 1)
                for parameter, value in passed_arguments(node, callee.arg_names):
                    if isinstance(value, ast.Name) and parameter in inner_kinds:
                        kinds[value.id][inner_kinds[parameter]] += 1
    result: dict[str, _Kind] = {}
    for name, counts in kinds.items():
        (kind, _), *_ = counts.most_common(1)
        # A number is tested, too: a flag has no other use.
        if kind != _FLAG or counts[_FLAG] == uses[name]:
            result[name] = kind
    return result


def _tested_names(test: ast.expr) -> Iterator[str]:
    """Yield the variables whose truth a condition tests."""
    match test:
        case ast.Name():
            yield test.id
        case ast.UnaryOp(op=ast.Not()):
            yield from _tested_names(test.operand)
        case ast.BoolOp():
            for value in test.values:
                yield from _tested_names(value)


def _compared_texts(comparison: ast.Compare) -> Iterator[tuple[str, str]]:
    """Yield a variable with the text that it is compared with."""
    match comparison:
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str() as text)]):
            yield name, text


def _kinds_of_arguments(call: ast.Call) -> Iterator[tuple[str, _Kind]]:
    """Yield the variables that a call takes as dtypes, flags or texts, each with its kind."""
    position = _CASTS.get(called_name(call))
    if position is not None and len(call.args) > position:
        argument = call.args[position]
        if isinstance(argument, ast.Name):
            yield argument.id, _DTYPE
    for keyword in call.keywords:
        kind = _KEYWORD_KINDS.get(keyword.arg or "")
        if kind is not None and isinstance(keyword.value, ast.Name):
            yield keyword.value.id, kind
