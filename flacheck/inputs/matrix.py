"""Reading matrices: YAML, with the line of everything that is wrong in it.

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
product; each entry of `include` is another, with what it names in place of `axes`' own (a matrix
without `axes` is its `include` entries). A cell that matches every entry of a mapping in `exclude`
is left out. `triton` is short for `toolchain` where all compilers are Triton's.
"""

import itertools
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError, did_you_mean
from flacheck.inputs.located_yaml import LocatedYaml, Location
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
from flacheck.tables import find_shipped_folder, targets

# Options of an autotuner's configuration; every other name in one is a constexpr of the kernel.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
STAGES = ("compile", "autotune")
_TOP = ("version", "description", "packages", "launches", "forms", "axes", "include", "exclude")
_SUFFIXES = (".yaml", ".yml")
# Cells of one run: a scan of all launches of a large package under every release has a third of it.
MOST_CELLS = 1_000_000
# Shapes fill in what a launch leaves open, so any name may stand in one.
_FORM = LaunchForm(placeholders=None)

Axes = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Block:
    """One product of axes; an axis that is absent takes the kernel's own values."""

    axes: Axes


@dataclass(frozen=True)
class DeclaredLaunch:
    """A launch that a matrix declares, for the packages whose `name==version` matches a glob."""

    launch: Launch
    package: str = "*"


@dataclass(frozen=True)
class Matrix:
    """What a matrix file says, checked but not yet expanded."""

    name: str
    file: str
    blocks: tuple[Block, ...]
    packages: tuple[str, ...] = ()
    launches: Mapping[str, tuple[DeclaredLaunch, ...]] = field(default_factory=dict)
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    exclude: tuple[Axes, ...] = ()
    description: str = ""


def names() -> list[str]:
    """The matrices that ship with flacheck."""
    return sorted(path.stem for path in find_shipped_folder("matrices").glob("*.yaml"))


def find(name: str) -> Matrix:
    """The matrix of that name, or in that file.

    Raises UsageError when there is none, MatrixError with file and line when it is malformed.
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
    """The matrix in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not a text file; a matrix is YAML in UTF-8") from None
    return _MatrixReader(LocatedYaml(str(path), text)).matrix(path.stem)


def unreadable(path: Path, error: OSError) -> UsageError:
    """What to say of a file that cannot be read, with a name beside it that may be meant."""
    hint = "; check the name and its permissions"
    if isinstance(error, FileNotFoundError) and path.parent.is_dir():
        hint = did_you_mean(path.name, sorted(os.listdir(path.parent))) or hint
    return UsageError(f"{path}: cannot be read ({error.strerror}){hint}")


class _MatrixReader:
    """One file on its way from plain values to a Matrix."""

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
            exclude=tuple(
                self._axes(("exclude", place), entry)
                for place, entry in enumerate(self._list(top, "exclude"))
            ),
        )

    def _blocks(self, top: dict[str, Any]) -> tuple[Block, ...]:
        base: Axes = {}
        blocks = []
        if "axes" in top:
            base = self._axes(("axes",), top["axes"])
            blocks.append(Block(base))
        for place, entry in enumerate(self._list(top, "include")):
            blocks.append(Block({**base, **self._axes(("include", place), entry)}))
        if not blocks:
            raise self._yaml.error(
                (),
                "neither axes nor include: the matrix asks nothing",
                "add axes: {target: [sm90]}",
            )
        return tuple(blocks)

    def _list(self, top: dict[str, Any], name: str) -> list[Any]:
        value = top.get(name, [])
        if not isinstance(value, list):
            raise self._yaml.error((name,), f"{name} must be a list of mappings")
        return value

    def _only(self, path: Location, value: dict[str, Any], allowed: tuple[str, ...]) -> None:
        for key in value:
            if key not in allowed:
                raise self._yaml.error(
                    (*path, key), f"unknown key {key!r}", f"allowed are {', '.join(allowed)}"
                )

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
        axes = {axis: self._axis((*path, axis), axis, values) for axis, values in value.items()}
        # A bare version or specifier is Triton's, so both axes hold the same; a cell has one.
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
            items = [_dtype(item) for item in items]
        holds, problem, allowed = _AXES[axis]
        for place, item in enumerate(items):
            if not holds(item):
                raise self._yaml.error((*path, place), f"{axis}: {item!r} {problem}", allowed)
            if axis == "target":
                try:
                    targets.find(str(item))
                except UsageError as error:
                    what = f"target: {item!r} is no target"
                    raise self._yaml.error((*path, place), what, str(error)) from None
        return tuple(items)

    def _launches(self, value: Any) -> dict[str, tuple[DeclaredLaunch, ...]]:
        if not isinstance(value, dict):
            raise self._yaml.error(("launches",), "launches map a kernel to its list of launches")
        return {kernel: self._kernel_launches(kernel, listed) for kernel, listed in value.items()}

    def _kernel_launches(self, kernel: str, listed: Any) -> tuple[DeclaredLaunch, ...]:
        if not isinstance(listed, list) or not listed:
            raise self._yaml.error(("launches", kernel), f"{kernel}: expected a list of launches")
        return tuple(
            self._launch(("launches", kernel, place), launch) for place, launch in enumerate(listed)
        )

    def _launch(self, path: Location, value: Any) -> DeclaredLaunch:
        if isinstance(value, dict) and "configs" in value:
            value = {**value, "configs": self._configs((*path, "configs"), value["configs"])}
        if isinstance(value, dict) and isinstance(value.get("args"), dict):
            args = {name: with_known_dtypes(given) for name, given in value["args"].items()}
            value = {**value, "args": args}
        try:
            _FORM.check(value, more=("package",))
        except FormError as error:
            raise self._yaml.error((*path, *error.path), error.what, error.hint) from None
        return DeclaredLaunch(Launch.from_json(value), value.get("package", "*"))

    def _configs(self, path: Location, configs: Any) -> Any:
        """A launch's configurations as a list; a mapping of lists is their product, the last name
        fastest."""
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
    """An autotune configuration: what the compiler takes, and the kernel's own constants as
    `kwargs`."""
    kwargs = {name: value for name, value in flat.items() if name not in OPTIONS}
    return {"kwargs": kwargs, **{name: flat[name] for name in OPTIONS if name in flat}}


def _dtype(item: Any) -> Any:
    """The dtype that a value names, else the value."""
    if not isinstance(item, str):
        return item
    return find_dtype(item) or item


def _is_shape(item: Any) -> bool:
    return item == "own" or (isinstance(item, dict) and all(map(is_int, item.values())))


_TEXT = (lambda item: isinstance(item, str) and item != "", "is no string", "quote it")
_COUNT = (lambda item: is_int(item) and item > 0, "is no positive whole number", "for example 4")


def _holds_constants(item: Any) -> bool:
    try:
        check_constants(item)
    except FormError:
        return False
    return True


_OPTION_VALUES = (
    _holds_constants,
    "is no mapping of options",
    "for example {maxnreg: 128}",
)
_CONFIGS = ("own", "first", "usual")
# Each axis: what one of its values must be, and what an error says of one that is not.
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
    "shape": (_is_shape, "is no shape", "a shape is {T: 8192, K: 128} or own"),
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
    "triton": _TEXT,
    "toolchain": _TEXT,
}
