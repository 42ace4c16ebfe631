"""The reader of matrices: YAML files, whose errors have a line.

A matrix holds

    version: 1
    packages: [flash-linear-attention==0.2.2]
    launches: {KERNEL: [launch, …]}
    forms: {KERNEL: {operator: retention, form: chunk}}
    axes: {kernel, package, stage, dtype, shape, constants, configs, num_warps, …}
    include: [axes that differ, …]
    exclude: [{axis: value or list, …}, …]

`constants` sets constexprs of a launch to other values ({BC: 32}); such a cell is `widened`. A
launch may also name the `package` (a glob over `name==version`) that it is for. `axes` is one
product; each entry of `include` is another, with its own axes in place of those of `axes` (a matrix
without `axes` is its `include` entries). A cell that matches every entry of a mapping in `exclude`
is left out. `triton` is short for `toolchain` if all compilers are Triton's.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.errors import UsageError, did_you_mean
from flacheck.model import Launch
from flacheck.model.launch import (
    DTYPES,
    FormError,
    LaunchForm,
    check_constants,
    find_dtype,
    is_int,
    with_known_dtypes,
)
from flacheck.subjects.inputs.located_yaml import LocatedYaml, Location
from flacheck.tables import find_shipped_folder, targets
from flacheck.toolchains import is_path

# Options of an autotuner's configuration; every other name in one is a constexpr of the kernel.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
STAGES = ("compile", "autotune")
_TOP = ("version", "description", "packages", "launches", "forms", "axes", "include", "exclude")
_SUFFIXES = (".yaml", ".yml")
# Cells of one run. A scan of all launches of a large package under every release has a third.
MOST_CELLS = 1_000_000
# Any name may stand for a value in a launch: shapes fill the values in.
_FORM = LaunchForm(placeholders=None)

Axes = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Block:
    """One product of axes; an absent axis has the kernel's own values."""

    axes: Axes


@dataclass(frozen=True)
class DeclaredLaunch:
    """A launch that a matrix declares, for the packages whose `name==version` matches a glob."""

    launch: Launch
    package: str = "*"


@dataclass(frozen=True)
class Matrix:
    """The contents of a matrix file, checked but not expanded."""

    name: str
    file: str
    blocks: tuple[Block, ...]
    packages: tuple[str, ...] = ()
    launches: Mapping[str, tuple[DeclaredLaunch, ...]] = field(default_factory=dict)
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    exclude: tuple[Axes, ...] = ()
    description: str = ""

    def with_configs(self, configs: str) -> Matrix:
        """Return the matrix with another choice of configurations in every block."""
        blocks = []
        for block in self.blocks:
            blocks.append(replace(block, axes={**block.axes, "configs": (configs,)}))
        return replace(self, blocks=tuple(blocks))


def names() -> list[str]:
    """Return the names of the matrices that ship with flacheck."""
    return sorted(path.stem for path in find_shipped_folder("matrices").glob("*.yaml"))


def find(name: str) -> Matrix:
    """Read the matrix of a name, or in a file.

    Raises UsageError if it does not exist, MatrixError with file and line if it is malformed.
    """
    path = Path(name)
    if path.suffix in _SUFFIXES or path.is_file() or len(path.parts) > 1:
        return read(path)
    file = find_shipped_folder("matrices") / f"{name}.yaml"
    if not file.is_file():
        hint = did_you_mean(name, names())
        raise UsageError(
            f"no matrix {name!r}: give a YAML file or one of {', '.join(names())}{hint}"
        )
    return read(file)


def read(path: Path) -> Matrix:
    """Read the matrix in a file."""
    try:
        text = files.read_text(path, files.MOST_YAML)
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not a text file; a matrix is YAML in UTF-8") from None
    return _MatrixReader(LocatedYaml(str(path), text)).matrix(path.stem)


def unreadable(path: Path, error: OSError) -> UsageError:
    """Return the error for a file that cannot be read, with a similar name of its folder."""
    hint = "; check the name and its permissions"
    if isinstance(error, FileNotFoundError) and path.parent.is_dir():
        hint = did_you_mean(path.name, sorted(os.listdir(path.parent))) or hint
    return UsageError(f"{path}: cannot be read ({error.strerror}){hint}")


class _MatrixReader:
    """Reader of one file's plain values."""

    def __init__(self, yaml: LocatedYaml) -> None:
        self._yaml = yaml

    def matrix(self, name: str) -> Matrix:
        top = self._yaml.top
        if not isinstance(top, dict):
            raise self._yaml.error((), "a matrix is a mapping", f"its keys are {', '.join(_TOP)}")
        self._only((), top, _TOP)
        if top.get("version") != 1:
            raise self._yaml.error(
                ("version",), f"version is {top.get('version')!r}", "this flacheck reads version: 1"
            )
        return Matrix(
            name=name,
            file=self._yaml.file,
            blocks=self._blocks(top),
            packages=tuple(self._strings(("packages",), top.get("packages", []))),
            launches=self._launches(top.get("launches", {})),
            forms=self._forms(top.get("forms", {})),
            description=str(top.get("description", "")),
            exclude=self._exclude(top),
        )

    def _exclude(self, top: dict[str, Any]) -> tuple[Axes, ...]:
        entries = []
        for place, entry in enumerate(self._list(top, "exclude")):
            entries.append(self._axes(("exclude", place), entry))
        return tuple(entries)

    def _blocks(self, top: dict[str, Any]) -> tuple[Block, ...]:
        base: Axes = {}
        blocks = []
        if "axes" in top:
            base = self._axes(("axes",), top["axes"])
            blocks.append(Block(base))
        for place, entry in enumerate(self._list(top, "include")):
            own = self._axes(("include", place), entry)
            blocks.append(Block({**base, **own}))
        if not blocks:
            raise self._yaml.error(
                (),
                "neither axes nor include: the matrix is empty",
                "add axes: {target: [sm90]}",
            )
        return tuple(blocks)

    def _list(self, top: dict[str, Any], name: str) -> list[Any]:
        value = top.get(name, [])
        if not isinstance(value, list):
            raise self._yaml.error((name,), f"{name} must be a list of mappings")
        return value

    def _only(self, path: Location, value: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in value:
            if key not in keys:
                hint = f"allowed are {', '.join(keys)}"
                raise self._yaml.error((*path, key), f"unknown key {key!r}", hint)

    def _strings(self, path: Location, value: Any) -> list[str]:
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self._yaml.error((*path, index), f"{item!r} must be a string (quote it)")
        return items

    def _axes(self, path: Location, value: Any) -> Axes:
        if not isinstance(value, dict):
            raise self._yaml.error(path, "axes are a mapping", f"its keys are {', '.join(_AXES)}")
        self._only(path, value, tuple(_AXES))
        axes = {}
        for axis, values in value.items():
            axes[axis] = self._axis((*path, axis), axis, values)
        # Both axes hold toolchains: a bare version or specifier is Triton's.
        of_triton = axes.pop("triton", None)
        if of_triton is not None and "toolchain" in axes:
            what = "axes triton and toolchain are given"
            raise self._yaml.error(
                (*path, "triton"), what, "name Triton's releases in toolchain, too"
            )
        if of_triton is not None:
            axes["toolchain"] = of_triton
        return axes

    def _axis(self, path: Location, axis: str, values: Any) -> tuple[Any, ...]:
        items = values if isinstance(values, list) else [values]
        if not items:
            raise self._yaml.error(
                path, f"axis {axis} is empty", "leave it out, or give it a value"
            )
        if axis == "dtype":
            items = list(map(_dtype, items))
        is_value, problem, hint = _AXES[axis]
        for place, item in enumerate(items):
            if not is_value(item):
                raise self._yaml.error((*path, place), f"{axis}: {item!r} {problem}", hint)
            if axis == "target":
                self._check_target((*path, place), item)
        return tuple(items)

    def _check_target(self, path: Location, item: Any) -> None:
        try:
            targets.find(str(item))
        except UsageError as error:
            what = f"target: {item!r} is not a target"
            raise self._yaml.error(path, what, str(error)) from None

    def _launches(self, value: Any) -> dict[str, tuple[DeclaredLaunch, ...]]:
        if not isinstance(value, dict):
            raise self._yaml.error(("launches",), "launches map a kernel to its list of launches")
        return {kernel: self._kernel_launches(kernel, items) for kernel, items in value.items()}

    def _kernel_launches(self, kernel: str, items: Any) -> tuple[DeclaredLaunch, ...]:
        if not isinstance(items, list) or not items:
            raise self._yaml.error(("launches", kernel), f"{kernel}: expected a list of launches")
        launches = []
        for place, item in enumerate(items):
            launches.append(self._launch(("launches", kernel, place), item))
        return tuple(launches)

    def _launch(self, path: Location, value: Any) -> DeclaredLaunch:
        if isinstance(value, dict) and "configs" in value:
            value = {**value, "configs": self._configs((*path, "configs"), value["configs"])}
        if isinstance(value, dict) and isinstance(value.get("args"), dict):
            args = {}
            for name, argument in value["args"].items():
                args[name] = with_known_dtypes(argument)
            value = {**value, "args": args}
        try:
            _FORM.check(value, more=("package",))
        except FormError as error:
            raise self._yaml.error((*path, *error.path), error.what, error.hint) from None
        return DeclaredLaunch(Launch.from_json(value), value.get("package", "*"))

    def _configs(self, path: Location, configs: Any) -> Any:
        """Return a launch's configurations as a list.

        A mapping of lists stands for their product; the last name varies fastest.
        """
        if not isinstance(configs, dict):
            return configs
        if not all(isinstance(values, list) and values for values in configs.values()):
            what = "configs as a product maps each name to a list"
            raise self._yaml.error(path, what, "{BK: [32, 64], num_warps: [4]}")
        count = math.prod(map(len, configs.values()))
        if count > MOST_CELLS:
            raise self._yaml.error(
                path, f"a product of {count:,} configs", f"{MOST_CELLS:,} are the most"
            )
        combinations = itertools.product(*configs.values())
        return [_config(dict(zip(configs, values))) for values in combinations]

    def _forms(self, value: Any) -> dict[str, tuple[str, str]]:
        if not isinstance(value, dict):
            raise self._yaml.error(("forms",), "forms map a kernel to {operator, form}")
        for kernel, entry in value.items():
            if not isinstance(entry, dict) or set(entry) != {"operator", "form"}:
                what = f"{kernel}: expected {{operator: …, form: …}}"
                raise self._yaml.error(("forms", kernel), what)
            self._strings(("forms", kernel), [*entry.values()])
        return {kernel: (entry["operator"], entry["form"]) for kernel, entry in value.items()}


def _config(flat: dict[str, Any]) -> dict[str, Any]:
    """Return an autotuner's configuration: compiler options, and constants as `kwargs`."""
    kwargs = {name: value for name, value in flat.items() if name not in OPTIONS}
    config: dict[str, Any] = {"kwargs": kwargs}
    for name in OPTIONS:
        if name in flat:
            config[name] = flat[name]
    return config


def _dtype(item: Any) -> Any:
    """Return the dtype that a value names, else the value."""
    if not isinstance(item, str):
        return item
    return find_dtype(item) or item


def _is_shape(item: Any) -> bool:
    return item == "own" or (isinstance(item, dict) and all(map(is_int, item.values())))


_TEXT = (lambda item: isinstance(item, str) and item != "", "is not a string", "quote it")
_COUNT = (lambda item: is_int(item) and item > 0, "is not a positive integer", "for example 4")


def _holds_constants(item: Any) -> bool:
    try:
        check_constants(item)
    except FormError:
        return False
    return True


_OPTION_VALUES = (
    _holds_constants,
    "is not a mapping of options",
    "for example {maxnreg: 128}",
)
# A matrix may be a stranger's, and a compiler at a path would be run.
_RELEASE = (
    lambda item: isinstance(item, str) and item != "" and not is_path(item),
    "is not a release",
    "quote a version or a specifier; give a compiler's path with --toolchain",
)
_CONFIGS = ("own", "first", "usual")
# Each axis: a test of its values, the error for other values, and its hint.
_AXES: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "kernel": _TEXT,
    "package": _TEXT,
    "stage": (
        lambda item: isinstance(item, str) and item in STAGES,
        "is unknown",
        f"allowed are {', '.join(STAGES)}",
    ),
    "dtype": (
        lambda item: isinstance(item, str) and item in DTYPES,
        "is unknown",
        f"allowed are {', '.join(DTYPES)}",
    ),
    "shape": (_is_shape, "is not a shape", "a shape is {T: 8192, K: 128} or own"),
    "constants": _OPTION_VALUES,
    "configs": (
        lambda item: isinstance(item, str) and item in _CONFIGS,
        "is unknown",
        f"allowed are {', '.join(_CONFIGS)}",
    ),
    "num_warps": _COUNT,
    "num_stages": _COUNT,
    "options": _OPTION_VALUES,
    "target": (lambda item: True, "", ""),
    "triton": _RELEASE,
    "toolchain": _RELEASE,
}
