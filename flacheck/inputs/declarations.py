"""What a kernel file declares, checked part by part, so that an error names the line and what is
allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.model.launch import FormError, LaunchForm, is_int
from flacheck.source.kernel_source import KernelSource
from flacheck.source.syntax import elements, first_line

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
ARGUMENT = 'an argument is None, {"dtype", "align"}, {"int"}, {"float"} or {"constexpr"}'
Step = str | int


@dataclass(frozen=True)
class Declaration:
    """One declaration's value, with the syntax tree that knows the line of each part of it."""

    file: Path
    node: ast.expr
    value: Any

    @staticmethod
    def of(source: KernelSource, name: str) -> Declaration:
        bound = source.bound.get(name, ())
        node = None
        if len(bound) == 1 and isinstance(bound[0], (ast.Assign, ast.AnnAssign)):
            node = bound[0].value
        if node is None:
            line = None
            if bound:
                line = first_line(bound[-1])
            message = f"{name} is not set exactly once"
            raise MatrixError(str(source.file), line, message, "it is set to one literal")
        try:
            return Declaration(source.file, node, ast.literal_eval(node))
        except (ValueError, TypeError) as error:
            message = f"{name} is not a literal: {error}"
            allowed = "names and calls are not allowed in it"
            raise MatrixError(str(source.file), node.lineno, message, allowed) from error

    def line(self, path: tuple[Step, ...]) -> int:
        """The line of the innermost part on the path that is written down."""
        node: ast.expr = self.node
        line = node.lineno
        for step in path:
            if isinstance(node, ast.Dict):
                entries = {
                    _literal(key): (key, value) for key, value in zip(node.keys, node.values)
                }
                if step not in entries:
                    break
                key, node = entries[step]
                line = getattr(key, "lineno", line)
            elif isinstance(step, int) and step < len(elements(node)):
                node = elements(node)[step]
                line = node.lineno
        return line

    def require(self, holds: bool, path: tuple[Step, ...], what: str, allowed: str) -> None:
        """Raise MatrixError with the line of that part unless it holds."""
        if not holds:
            raise MatrixError(str(self.file), self.line(path), what, allowed)


def _literal(node: ast.expr | None) -> Any:
    return getattr(node, "value", None)


def check_shapes(shapes: Declaration) -> None:
    """SHAPES is a list of dicts of integers that all name the same sizes."""
    allowed = (
        'SHAPES is a list such as [{"B": 1, "T": 2048, "K": 64}], each entry with the same names'
    )
    shapes.require(isinstance(shapes.value, list) and bool(shapes.value), (), "no shapes", allowed)
    for i, shape in enumerate(shapes.value):
        sizes = isinstance(shape, dict) and all(
            isinstance(n, str) and is_int(size) for n, size in shape.items()
        )
        shapes.require(
            sizes and set(shape) == set(shapes.value[0]),
            (i,),
            f"shape {shape!r} does not fit",
            allowed,
        )


def check_kernel(
    kernels: Declaration, name: Any, function: ast.FunctionDef | None, shapes: list[dict[str, int]]
) -> None:
    """One entry of KERNELS against the function that it declares; raises MatrixError."""
    declared = kernels.value[name]
    kernels.require(
        function is not None,
        (name,),
        f"no function {name!r}",
        "KERNELS names functions of its own file",
    )
    assert function is not None
    check_fields(
        kernels, (name,), declared, {"form": str, "launch": dict, "configs": list, "keys": list}
    )
    check_fields(kernels, (name, "launch"), declared["launch"], {"args": dict, "omitted": list})
    check_launch(kernels, name, function, shapes)
    check_configs(kernels, name)
    parameters = [a.arg for a in function.args.args]
    allowed = "a key is an argument that is not omitted: " + ", ".join(declared["launch"]["args"])
    for i, key in enumerate(declared["keys"]):
        good = key in parameters and key not in declared["launch"]["omitted"]
        kernels.require(
            good, (name, "keys", i), f"{name}: key {key!r} is no argument of the launch", allowed
        )


def check_fields(
    kernels: Declaration, path: tuple[Step, ...], value: Any, fields: Mapping[str, type]
) -> None:
    """The value is a dict with exactly these fields of these types."""
    allowed = "needed are exactly " + ", ".join(
        f"{field} ({kind.__name__})" for field, kind in fields.items()
    )
    named = isinstance(value, dict) and set(value) == set(fields)
    kernels.require(named, path, f"{'.'.join(map(str, path))} has other fields", allowed)
    for field, kind in fields.items():
        kernels.require(
            isinstance(value[field], kind),
            (*path, field),
            f"{field} is no {kind.__name__}",
            allowed,
        )


def check_launch(
    kernels: Declaration, name: str, function: ast.FunctionDef, shapes: list[dict[str, int]]
) -> None:
    """Every parameter is given or omitted, in a form that fits its annotation; the omitted ones
    come last.
    """
    args, omitted = kernels.value[name]["launch"]["args"], kernels.value[name]["launch"]["omitted"]
    path = (name, "launch")
    parameters = {a.arg: a.annotation is not None for a in function.args.args}
    kernels.require(
        list(parameters)[len(parameters) - len(omitted) :] == omitted,
        (*path, "omitted"),
        f"{name}: omitted are not the last parameters, in order",
        "Triton 3.1.0 finds keys by position, so what the autotuner supplies comes last",
    )
    for argument, value in args.items():
        at = (*path, "args", argument)
        known = argument in parameters and argument not in omitted
        allowed = "the function has " + ", ".join(parameters)
        kernels.require(known, at, f"{name}: {argument!r} is no open parameter", allowed)
        check_argument(kernels, at, value, shapes[0])
        constant = isinstance(value, dict) and "constexpr" in value
        kernels.require(
            constant == parameters[argument],
            at,
            f"{name}: {argument!r} disagrees with its annotation",
            "a parameter annotated tl.constexpr is given as constexpr, and no other",
        )
    missing = [p for p in parameters if p not in args and p not in omitted]
    kernels.require(
        not missing, (*path, "args"), f"{name}: no value for {', '.join(missing)}", ARGUMENT
    )


def check_argument(
    kernels: Declaration, path: tuple[Step, ...], value: Any, shape: Mapping[str, int]
) -> None:
    """One argument of a launch has one of the known forms, with sizes of the shape left open."""
    try:
        LaunchForm(("dtype", *shape)).check_argument(str(path[-1]), value, path)
    except FormError as error:
        kernels.require(False, path, error.what, error.allowed or ARGUMENT)


def check_configs(kernels: Declaration, name: str) -> None:
    """Every configuration supplies exactly what the launch omits, and options of the compiler."""
    omitted = kernels.value[name]["launch"]["omitted"]
    configs = kernels.value[name]["configs"]
    options = ", ".join(OPTIONS)
    allowed = (
        f'{{"kwargs": a value for each of {omitted}}} and positive integers for any of {options}'
    )
    kernels.require(bool(configs), (name, "configs"), f"{name}: no configuration", allowed)
    for i, config in enumerate(configs):
        fits = (
            isinstance(config, dict)
            and set(config) - {"kwargs"} <= set(OPTIONS)
            and isinstance(config.get("kwargs"), dict)
            and set(config["kwargs"]) == set(omitted)
            and all(
                is_int(option) and option > 0
                for field, option in config.items()
                if field != "kwargs"
            )
        )
        kernels.require(
            fits, (name, "configs", i), f"{name}: configuration {config!r} does not fit", allowed
        )
