"""Kernels as operators, for kernels that no function of the package launches here.

A function may need a checkpoint, a network or a structure of data that nobody can infer. Its
kernel's own code implies arguments that it accepts: addresses, numbers, flags and dtypes. Constants
and options come from the package's own launches where their code implies them.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ..inference import usage
from ..inference.operators import KERNEL, Operator
from ..inference.shapes import is_head_size
from ..pysource.functions import called_name, function_tree, names_in_scope, walk
from ..recorder.refusals import option_names
from .attempts import CaughtError, attempt
from .kernel_references import kernel_name
from .launch_sites import Values, launch_sites

# Methods and functions whose argument is a dtype, with its position.
_CASTS = {"to": 0, "cast": 1, "pointer_type": 0, "zeros": 1, "full": 2}
_ADDRESSES = (usage.TENSOR, usage.INDICES)
# The annotation of the compiler's options, which are passed only where the package passes them.
_OPTION = "option"
_FLAG_NAMES = re.compile(r"(?i:use|is|has|do|apply|enable|need)_")
_NO_CODE = compile("", "", "exec")
# CPU seconds to read the code of one kernel and of those that it calls.
_READ_SECONDS = 4.0


def kernel_operators(names: Iterable[str], head_sizes: Sequence[int]) -> Iterator[Operator]:
    """Yield kernels as operators; only modules' own variables are found.

    A kernel whose code or wrappers cannot be read is left out: the capture goes on.

    Args:
        names: kernels as `module:name`.
        head_sizes: the head sizes at which the package's launches are evaluated.
    """
    for name in names:
        read = functools.partial(_as_operator, name, head_sizes)
        operator = attempt(read, _READ_SECONDS, keeps_trace=False)
        if isinstance(operator, Operator):
            yield operator


def _as_operator(name: str, head_sizes: Sequence[int]) -> Operator | None:
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
        sites=_sites(function, head_sizes, torch.bfloat16),
        fp32_sites=_sites(function, head_sizes, torch.float32),
        constants=frozenset(launch.constants()),
    )


def _sites(
    function: Any, head_sizes: Sequence[int], dtype: torch.dtype
) -> tuple[tuple[int, Values], ...]:
    """Return what the package's launches pass; nothing if their code cannot be evaluated."""
    read = functools.partial(launch_sites, function, head_sizes, dtype)
    sites = attempt(read, _READ_SECONDS, keeps_trace=False)
    return () if isinstance(sites, CaughtError) else tuple(sites)


def _innermost(kernel: Any) -> Any:
    """Return the kernel inside autotuners and heuristics."""
    while not inspect.isfunction(kernel.fn):
        kernel = kernel.fn
    return kernel


class _SingleLaunch:
    """A function that launches a kernel with one program; it accepts the compiler's options."""

    def __init__(self, kernel: Any, function: Any) -> None:
        self._kernel = kernel
        self._function = function
        self._kinds = _parameter_kinds(function)

    def __call__(self, **arguments: Any) -> None:
        values = {}
        for name, value in arguments.items():
            values[name] = _triton_dtype(value) if isinstance(value, torch.dtype) else value
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
        defaults = inspect.signature(self._function.fn).parameters
        for parameter in self._function.params:
            name = parameter.name
            if name in configured:
                continue
            kind = self._kinds.get(name, usage.NUMBER)
            if parameter.is_constexpr and kind in _ADDRESSES:
                kind = usage.NUMBER
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name].default,
                annotation=kind,
            )
        for name in sorted(option_names() - defaults.keys()):
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=0, annotation=_OPTION
            )

    def constants(self) -> Iterator[str]:
        """Yield the constants that no tuner passes, without flags and head sizes."""
        constants = {each.name for each in self._function.params if each.is_constexpr}
        for parameter in self.parameters():
            name = parameter.name
            has_default = parameter.default is not inspect.Parameter.empty
            is_implied = has_default or parameter.annotation == usage.FLAG or is_head_size(name)
            if name in constants and not is_implied:
                yield name


def _triton_dtype(dtype: torch.dtype) -> Any:
    """Return Triton's dtype of the same name."""
    import triton.language as tl

    return getattr(tl, str(dtype).rpartition(".")[2])


def _configured_parameters(kernel: Any) -> set[str]:
    """Return the parameters that autotuners and heuristics around a kernel pass.

    A heuristic that reads its own parameter, as `bool(args["X"])`, only changes what callers pass.
    """
    names: set[str] = set()
    while not inspect.isfunction(kernel):
        for config in getattr(kernel, "configs", None) or ():
            names.update(config.kwargs)
        for name, heuristic in (getattr(kernel, "values", None) or {}).items():
            if name not in getattr(heuristic, "__code__", _NO_CODE).co_consts:
                names.add(name)
        kernel = kernel.fn
    return names


def _text_usages(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yield a name whose values are texts, with those that a node of the kernel's code implies."""
    match node:
        case ast.keyword(arg="input_precision", value=ast.Name(id=name)):
            yield name, ["tf32", "ieee"]
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str(text))]):
            yield name, [text]


def _parameter_kinds(kernel: Any) -> usage.Kinds:
    """Return the kinds of a kernel's parameters by their use in its code."""
    tree = function_tree(kernel.fn)
    if tree is None:
        return {}
    kinds = usage.kernel_parameter_kinds(tree, names_in_scope(kernel.fn))
    uses: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for node in walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, (ast.If, ast.IfExp)):
            tests.update(usage.condition_names(node.test))
        elif isinstance(node, ast.Call):
            position = _CASTS.get(called_name(node), len(node.args))
            for argument in node.args[position : position + 1]:
                if isinstance(argument, ast.Name):
                    kinds[argument.id] = usage.DTYPE
        for name, texts in _text_usages(node):
            kinds[name] = f"Literal{texts}"
    for name in kinds:
        if kinds[name] != usage.NUMBER:
            continue
        # A number is tested, too: a flag has no other use.
        is_flag = tests[name] == uses[name] or _FLAG_NAMES.match(name)
        if tests[name] and is_flag:
            kinds[name] = usage.FLAG
        elif usage.FRACTION_NAMES.search(name):
            kinds[name] = usage.FRACTION
    return kinds
