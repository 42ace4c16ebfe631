"""What a kernel file declares, checked part by part, so that an error names the line and what is
allowed."""

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
    allowed = 'SHAPES is a list like [{"B": 1, "T": 2048, "K": 64}], each entry with the same names'
    shapes.require(isinstance(shapes.value, list) and bool(shapes.value), (), "no shapes", allowed)
    for place, shape in enumerate(shapes.value):
        fits = isinstance(shape, dict) and set(shape) == set(shapes.value[0])
        fits = fits and all(map(is_int, shape.values()))
        shapes.require(fits, (place,), f"shape {shape!r} does not fit", allowed)


def check_kernel(
    kernels: Declaration, name: Any, function: ast.FunctionDef | None, shapes: list[dict[str, int]]
) -> None:
    """One entry of KERNELS against the function that it declares; raises MatrixError."""
    entry = kernels.value[name]
    allowed = "KERNELS names functions of its own file"
    kernels.require(function is not None, (name,), f"no function {name!r}", allowed)
    assert function is not None
    fields = {"form": str, "launch": dict, "configs": list, "keys": list}
    _check_fields(kernels, (name,), entry, fields)
    launch = (name, "launch")
    _check_fields(kernels, launch, entry["launch"], {"args": dict, "omitted": list})
    args, omitted = entry["launch"]["args"], entry["launch"]["omitted"]
    is_constexpr = {each.arg: each.annotation is not None for each in function.args.args}
    parameters = list(is_constexpr)
    kernels.require(
        parameters[len(parameters) - len(omitted) :] == omitted,
        (*launch, "omitted"),
        f"{name}: omitted are not the last parameters, in order",
        "Triton 3.1.0 finds keys by position, so what the autotuner supplies comes last",
    )
    form = LaunchForm(("dtype", *shapes[0]))
    for argument, value in args.items():
        at = (*launch, "args", argument)
        what = f"{name}: {argument!r}"
        known = argument in parameters and argument not in omitted
        allowed = "the function has " + ", ".join(parameters)
        kernels.require(known, at, f"{what} is no open parameter", allowed)
        try:
            form.check_argument(argument, value)
        except FormError as error:
            kernels.require(False, at, error.what, error.hint)
        agrees = is_constexpr[argument] == (isinstance(value, dict) and "constexpr" in value)
        allowed = "a parameter annotated tl.constexpr is given as constexpr, and no other"
        kernels.require(agrees, at, f"{what} disagrees with its annotation", allowed)
    missing = [each for each in parameters if each not in args and each not in omitted]
    what = f"{name}: no value for {', '.join(missing)}"
    kernels.require(not missing, (*launch, "args"), what, ARGUMENT)
    _check_configs(kernels, name, entry["configs"], omitted)
    allowed = "a key is an argument that is not omitted: " + ", ".join(args)
    for place, key in enumerate(entry["keys"]):
        what = f"{name}: key {key!r} is no argument of the launch"
        good = key in parameters and key not in omitted
        kernels.require(good, (name, "keys", place), what, allowed)


def _check_fields(
    kernels: Declaration, path: tuple[Step, ...], value: Any, fields: Mapping[str, type]
) -> None:
    """The value is a dict with exactly these fields of these types."""
    needed = [f"{field} ({kind.__name__})" for field, kind in fields.items()]
    allowed = "needed are exactly " + ", ".join(needed)
    named = isinstance(value, dict) and set(value) == set(fields)
    kernels.require(named, path, f"{'.'.join(map(str, path))} has other fields", allowed)
    for field, kind in fields.items():
        what = f"{field} is no {kind.__name__}"
        kernels.require(isinstance(value[field], kind), (*path, field), what, allowed)


def _check_configs(kernels: Declaration, name: str, configs: list[Any], omitted: Any) -> None:
    """Every configuration supplies exactly what the launch omits, and options of the compiler."""
    options = ", ".join(OPTIONS)
    allowed = f'{{"kwargs": a value for each of {omitted}}} and positive integers for {options}'
    kernels.require(bool(configs), (name, "configs"), f"{name}: no configuration", allowed)
    for place, config in enumerate(configs):
        fits = isinstance(config, dict) and isinstance(config.get("kwargs"), dict)
        if fits:
            given = {field: option for field, option in config.items() if field != "kwargs"}
            fits = set(config["kwargs"]) == set(omitted) and set(given) <= set(OPTIONS)
            fits = fits and all(is_int(option) and option > 0 for option in given.values())
        what = f"{name}: configuration {config!r} does not fit"
        kernels.require(fits, (name, "configs", place), what, allowed)
