"""The declarations of a kernel file, checked part by part.

An error names the line and the allowed values.
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
    """One declaration's value, with the syntax tree that has the line of each part."""

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
            hint = "names and calls are not allowed in it"
            raise MatrixError(str(source.file), node.lineno, message, hint) from error

    def line(self, path: tuple[Step, ...]) -> int:
        """Return the line of the innermost part on the path that is in the source."""
        node: ast.expr = self.node
        line = node.lineno
        for step in path:
            if isinstance(node, ast.Dict):
                places = [getattr(key, "value", None) for key in node.keys]
                if step not in places:
                    break
                # Python keeps the last of several equal keys.
                index = len(places) - 1 - places[::-1].index(step)
                line = getattr(node.keys[index], "lineno", line)
                node = node.values[index]
            elif isinstance(step, int) and step < len(elements(node)):
                node = elements(node)[step]
                line = node.lineno
        return line

    def require(self, holds: bool, path: tuple[Step, ...], what: str, hint: str) -> None:
        """Raise MatrixError with the line of a part unless a condition holds."""
        if not holds:
            raise MatrixError(str(self.file), self.line(path), what, hint)


def check_shapes(shapes: Declaration) -> None:
    """Require a list of dicts of integers that all name the same sizes."""
    hint = 'SHAPES is a list like [{"B": 1, "T": 2048, "K": 64}], each entry with the same names'
    shapes.require(isinstance(shapes.value, list) and bool(shapes.value), (), "no shapes", hint)
    for place, shape in enumerate(shapes.value):
        fits = isinstance(shape, dict) and set(shape) == set(shapes.value[0])
        fits = fits and all(map(is_int, shape.values()))
        shapes.require(fits, (place,), f"shape {shape!r} does not fit", hint)


def check_kernel(
    kernels: Declaration, name: Any, source: KernelSource, shapes: list[dict[str, int]]
) -> dict[str, Any]:
    """Return an entry of KERNELS; raise MatrixError if it disagrees with its function.

    An imported kernel's entry is the shared file's, with the arguments in `without` as None.
    """
    defining, original = source.definition(str(name))
    if defining is not source:
        fields: dict[str, type] = {"form": str, "without": list}
        _check_fields(kernels, (name,), kernels.value[name], fields)
        shared = Declaration.of(defining, "KERNELS")
        known = isinstance(shared.value, dict) and original in shared.value
        hint = f"KERNELS of {defining.file.name} declares it"
        kernels.require(known, (name,), f"{original!r} is not declared where it is defined", hint)
        entry = _without(kernels, name, shared.value[original])
        changed = Declaration(shared.file, shared.node, {**shared.value, original: entry})
        _check_entry(changed, original, defining.function(original), shapes)
        return entry
    _check_entry(kernels, name, source.function(name), shapes)
    checked: dict[str, Any] = kernels.value[name]
    return checked


def _without(kernels: Declaration, name: Any, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a shared entry with a family's form, and None for the arguments that it leaves out."""
    own = kernels.value[name]
    arguments = dict(entry["launch"]["args"])
    for place, argument in enumerate(own["without"]):
        hint = f"its arguments are {', '.join(arguments)}"
        at = (name, "without", place)
        kernels.require(argument in arguments, at, f"{name}: no argument {argument!r}", hint)
        arguments[argument] = None
    return {**entry, "form": own["form"], "launch": {**entry["launch"], "args": arguments}}


def _check_entry(
    kernels: Declaration, name: Any, function: ast.FunctionDef | None, shapes: list[dict[str, int]]
) -> None:
    entry = kernels.value[name]
    hint = "KERNELS names functions of its own file"
    kernels.require(function is not None, (name,), f"no function {name!r}", hint)
    assert function is not None
    fields = {"form": str, "launch": dict, "configs": list, "keys": list}
    _check_fields(kernels, (name,), entry, fields)
    launch = (name, "launch")
    _check_fields(kernels, launch, entry["launch"], {"args": dict, "omitted": list})
    args = entry["launch"]["args"]
    omissions = entry["launch"]["omitted"]
    is_constexpr = {each.arg: each.annotation is not None for each in function.args.args}
    parameters = list(is_constexpr)
    kernels.require(
        parameters[len(parameters) - len(omissions) :] == omissions,
        (*launch, "omitted"),
        f"{name}: omitted are not the last parameters, in order",
        "Triton 3.1.0 finds keys by position, so the autotuner's parameters come last",
    )
    form = LaunchForm(("dtype", *shapes[0]))
    for argument, value in args.items():
        at = (*launch, "args", argument)
        what = f"{name}: {argument!r}"
        is_open = argument in parameters and argument not in omissions
        hint = "the function has " + ", ".join(parameters)
        kernels.require(is_open, at, f"{what} is not an open parameter", hint)
        try:
            form.check_argument(argument, value)
        except FormError as error:
            kernels.require(False, at, error.what, error.hint)
        agrees = is_constexpr[argument] == (isinstance(value, dict) and "constexpr" in value)
        hint = "a parameter annotated tl.constexpr is given as constexpr, and no other"
        kernels.require(agrees, at, f"{what} disagrees with its annotation", hint)
    missing = []
    for parameter in parameters:
        if parameter not in args and parameter not in omissions:
            missing.append(parameter)
    what = f"{name}: no value for {', '.join(missing)}"
    kernels.require(not missing, (*launch, "args"), what, ARGUMENT)
    _check_configs(kernels, name, entry["configs"], omissions)
    hint = "a key is an argument that is not omitted: " + ", ".join(args)
    for place, key in enumerate(entry["keys"]):
        what = f"{name}: key {key!r} is not an argument of the launch"
        good = key in parameters and key not in omissions
        kernels.require(good, (name, "keys", place), what, hint)


def _check_fields(
    kernels: Declaration, path: tuple[Step, ...], value: Any, fields: Mapping[str, type]
) -> None:
    """Require a dict with exactly these fields of these types."""
    names = [f"{field} ({kind.__name__})" for field, kind in fields.items()]
    hint = f"its fields are exactly {', '.join(names)}"
    has_fields = isinstance(value, dict) and set(value) == set(fields)
    kernels.require(has_fields, path, f"{'.'.join(map(str, path))} has other fields", hint)
    for field, kind in fields.items():
        what = f"{field} is not a {kind.__name__}"
        kernels.require(isinstance(value[field], kind), (*path, field), what, hint)


def _check_configs(kernels: Declaration, name: str, configs: list[Any], omissions: Any) -> None:
    """Require that every configuration supplies exactly the omissions, and compiler options."""
    options = ", ".join(OPTIONS)
    hint = f'{{"kwargs": a value for each of {omissions}}} and positive integers for {options}'
    kernels.require(bool(configs), (name, "configs"), f"{name}: no configuration", hint)
    for place, config in enumerate(configs):
        what = f"{name}: configuration {config!r} does not fit"
        kernels.require(_is_config(config, omissions), (name, "configs", place), what, hint)


def _is_config(config: Any, omissions: Any) -> bool:
    if not isinstance(config, dict) or not isinstance(config.get("kwargs"), dict):
        return False
    if set(config["kwargs"]) != set(omissions):
        return False
    for field, option in config.items():
        if field == "kwargs":
            continue
        if field not in OPTIONS or not is_int(option) or option <= 0:
            return False
    return True
