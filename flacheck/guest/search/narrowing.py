"""The operators that can reach selected operators and kernels (`--op`, `--kernel`)."""

import dataclasses
import inspect
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch._library.custom_ops import CustomOpDef

from ..inference.operators import Operator
from .kernel_references import KernelReferences


def narrow(
    operators: Iterable[Operator],
    op_globs: Sequence[str],
    kernel_globs: Sequence[str],
    packages: Iterable[str],
) -> list[Operator]:
    """Return the operators that can reach the selection, each with its selected kernels only.

    Without a glob of a kind, all operators or all kernels are selected. Operators that only lead to
    a selected one become inner: they are called for kernels that the selected ones do not launch.
    """
    references = KernelReferences(packages)
    narrowed = []
    for operator in operators:
        kernels = operator.kernels
        outer = operator.outer
        if op_globs and not _matches_function(op_globs, operator.name):
            kernels &= _kernels_through(operator, op_globs, references)
            outer = False
        kernels = frozenset(selected_kernels(kernels, kernel_globs))
        if kernels:
            narrowed.append(dataclasses.replace(operator, kernels=kernels, outer=outer))
    return narrowed


def selected_kernels(kernels: Iterable[str], globs: Sequence[str]) -> list[str]:
    """Return the kernels that match a glob; all without globs."""
    if not globs:
        return list(kernels)
    return [name for name in kernels if _matches_kernel(globs, name)]


def _kernels_through(
    operator: Operator, globs: Sequence[str], references: KernelReferences
) -> frozenset[str]:
    """Return the kernels that an operator can reach through functions or classes that match."""

    def is_match(value: Any) -> bool:
        return _matches_function(globs, _function_name(value))

    kernels: frozenset[str] = frozenset()
    for value in references.reachable(operator.call, is_match):
        kernels |= references.kernels(value)
    return kernels


def _function_name(value: Any) -> str:
    """Return `module:qualname` of a function or class; empty for other objects."""
    if isinstance(value, CustomOpDef):
        value = value._init_fn
    if not inspect.isfunction(value) and not isinstance(value, type):
        return ""
    return f"{value.__module__}:{value.__qualname__.replace('.<locals>', '')}"


def _matches_function(globs: Iterable[str], name: str) -> bool:
    """Return True if a glob matches a function, a class around it or one of its modules.

    A glob matches the whole dotted name of each, or any component, as for recorded call paths.
    """
    parts = name.replace(":", ".").split(".")
    names = set(parts)
    for end in range(1, len(parts) + 1):
        names.add(".".join(parts[:end]))
    return any(fnmatchcase(each, glob) for glob in globs for each in names)


def _matches_kernel(globs: Iterable[str], name: str) -> bool:
    """Return True if a glob matches a kernel's whole name or its last part."""
    last = name.replace(":", ".").rpartition(".")[2]
    return any(fnmatchcase(each, glob) for glob in globs for each in (name, last))
