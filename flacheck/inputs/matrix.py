"""Reading matrices: YAML with the line of everything wrong in it.

    version: 1 packages: [flash-linear-attention==0.2.2] launches: {KERNEL: [launch, …]} forms:
    {KERNEL: {operator: retention, form: chunk}} axes: {kernel, package, stage, dtype, shape,
    constants, configs, num_warps, num_stages, options, target, triton} include: [axes that differ,
    …] exclude: [{axis: value or list, …}, …]

`constants` sets constexprs of a launch to other values ({BC: 32}); such a cell is `widened`. A
launch in the contract's form may also name the `package` (a glob over `name==version`) it is for.
`axes` is one product; each entry of `include` is another, with what it names in place of `axes`'
own (a matrix without `axes` is its `include` entries). A cell that matches every entry of a mapping
in `exclude` is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from flacheck.errors import MatrixError, UsageError
from flacheck.tables import targets

DTYPES = (
    "fp64",
    "fp32",
    "fp16",
    "bf16",
    "fp8e4nv",
    "fp8e5",
    "i8",
    "i16",
    "i32",
    "i64",
    "i1",
    "u8",
    "u16",
    "u32",
    "u64",
)
AXES = (
    "kernel",
    "package",
    "stage",
    "dtype",
    "shape",
    "constants",
    "configs",
    "num_warps",
    "num_stages",
    "options",
    "target",
    "triton",
)
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
STAGES = ("compile", "autotune")
_TOP = ("version", "description", "packages", "launches", "forms", "axes", "include", "exclude")
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Block:
    """One product of axes; an axis that is absent takes the kernel's own values."""

    axes: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Matrix:
    """What a matrix file says, checked but not yet expanded."""

    name: str
    file: str
    blocks: tuple[Block, ...]
    packages: tuple[str, ...] = ()
    launches: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    exclude: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    description: str = ""


def folder() -> Path:
    """Where the shipped matrices lie: inside the package when installed, beside it in a checkout."""
    inside = Path(__file__).parent.parent / "matrices"
    return inside if inside.is_dir() else Path(__file__).parent.parent.parent / "matrices"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.yaml"))


def find(name: str) -> Matrix:
    """The matrix of that name, or in that file.

    Raises UsageError when there is none, MatrixError with file and line when it is malformed.
    """
    path = Path(name)
    if path.suffix in _SUFFIXES or path.is_file() or len(path.parts) > 1:
        return read(path)
    shipped = folder() / f"{name}.yaml"
    if not shipped.is_file():
        raise UsageError(f"no matrix {name!r}: give a YAML file or one of {', '.join(names())}")
    return read(shipped)


def read(path: Path) -> Matrix:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); check the name and its permissions"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not a text file; a matrix is YAML in UTF-8") from None
    return _Reader(str(path), text).matrix(path.stem)


class _Reader:
    """One file on its way from text to Matrix; `_lines` knows where each value stood."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines: dict[tuple[Any, ...], int] = {}
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise self._yaml_error(error) from None
        self._loader = yaml.SafeLoader("")
        self._top = self._plain(node, ()) if node else None

    def _yaml_error(self, error: yaml.YAMLError) -> MatrixError:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        return MatrixError(self._file, mark.line + 1 if mark else None, f"not valid YAML: {what}")

    def _plain(self, node: yaml.Node, path: tuple[Any, ...]) -> Any:
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return dict(self._entry(key, value, path) for key, value in node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            return self._loader.construct_object(node)
        except yaml.YAMLError as error:
            raise self._yaml_error(error) from None

    def _entry(self, key: yaml.Node, value: yaml.Node, path: tuple[Any, ...]) -> tuple[str, Any]:
        name = self._key(key, path)
        plain = self._plain(value, (*path, name))
        self._lines[path + (name,)] = key.start_mark.line + 1
        return name, plain

    def _key(self, node: yaml.Node, path: tuple[Any, ...]) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise MatrixError(self._file, node.start_mark.line + 1, "a key must be a plain word")
        return str(node.value)

    def _fail(self, path: tuple[Any, ...], what: str, allowed: str = "") -> MatrixError:
        while path and path not in self._lines:
            path = path[:-1]
        return MatrixError(self._file, self._lines.get(path), what, allowed)

    def matrix(self, name: str) -> Matrix:
        top = self._top
        if not isinstance(top, dict):
            raise self._fail((), "a matrix is a mapping", f"its keys are {', '.join(_TOP)}")
        self._only((), top, _TOP)
        if top.get("version") != 1:
            raise self._fail(
                ("version",), f"version is {top.get('version')!r}", "this flacheck reads version: 1"
            )
        return Matrix(
            name=name,
            file=self._file,
            blocks=self._blocks(top),
            packages=tuple(self._strings(("packages",), top.get("packages", []))),
            launches=self._launches(top.get("launches", {})),
            forms=self._forms(top.get("forms", {})),
            description=str(top.get("description", "")),
            exclude=tuple(
                self._axes(("exclude", i), entry)
                for i, entry in enumerate(self._list(top, "exclude"))
            ),
        )

    def _blocks(self, top: dict[str, Any]) -> tuple[Block, ...]:
        base = self._axes(("axes",), top["axes"]) if "axes" in top else None
        blocks = [Block(base)] if base is not None else []
        for index, entry in enumerate(self._list(top, "include")):
            blocks.append(Block({**(base or {}), **self._axes(("include", index), entry)}))
        if not blocks:
            raise self._fail(
                (),
                "neither axes nor include: the matrix asks nothing",
                "add axes: {target: [sm90]}",
            )
        return tuple(blocks)

    def _list(self, top: dict[str, Any], name: str) -> list[Any]:
        value = top.get(name, [])
        if not isinstance(value, list):
            raise self._fail((name,), f"{name} must be a list of mappings")
        return value

    def _only(self, path: tuple[Any, ...], value: dict[str, Any], allowed: tuple[str, ...]) -> None:
        for key in value:
            if key not in allowed:
                raise self._fail(
                    (*path, key), f"unknown key {key!r}", f"allowed are {', '.join(allowed)}"
                )

    def _strings(self, path: tuple[Any, ...], value: Any) -> list[str]:
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self._fail((*path, index), f"{item!r} must be a string (quote it)")
        return items

    def _axes(self, path: tuple[Any, ...], value: Any) -> dict[str, tuple[Any, ...]]:
        if not isinstance(value, dict):
            raise self._fail(path, "axes are a mapping", f"its keys are {', '.join(AXES)}")
        self._only(path, value, AXES)
        return {axis: self._axis((*path, axis), axis, values) for axis, values in value.items()}

    def _axis(self, path: tuple[Any, ...], axis: str, values: Any) -> tuple[Any, ...]:
        items = values if isinstance(values, list) else [values]
        if not items:
            raise self._fail(path, f"axis {axis} is empty", "leave it out, or give it a value")
        for index, item in enumerate(items):
            problem = _CHECKS[axis](item)
            if problem:
                raise self._fail((*path, index), f"{axis}: {item!r} {problem[0]}", problem[1])
        return tuple(items)

    def _launches(self, value: Any) -> dict[str, tuple[Mapping[str, Any], ...]]:
        if not isinstance(value, dict):
            raise self._fail(("launches",), "launches map a kernel to its list of launches")
        return {kernel: self._kernel_launches(kernel, listed) for kernel, listed in value.items()}

    def _kernel_launches(self, kernel: str, listed: Any) -> tuple[Mapping[str, Any], ...]:
        if not isinstance(listed, list) or not listed:
            raise self._fail(("launches", kernel), f"{kernel}: a list of launches is wanted")
        for index, launch in enumerate(listed):
            path = ("launches", kernel, index)
            if not isinstance(launch, dict) or not isinstance(launch.get("args"), dict):
                raise self._fail(
                    path, "a launch has args: {name: {dtype: …} | {int: …} | {constexpr: …} | null}"
                )
            self._only(path, launch, ("package", "args", "omitted", "configs", "keys"))
            for name, spec in launch["args"].items():
                self._argument((*path, "args", name), spec)
        return tuple(
            {**launch, **self._configs(kernel, index, launch)}
            for index, launch in enumerate(listed)
        )

    def _configs(self, kernel: str, index: int, launch: dict[str, Any]) -> dict[str, Any]:
        """A launch's configurations as a list; a mapping of lists is their product, the last name
        fastest.
        """
        configs = launch.get("configs", [])
        path = ("launches", kernel, index, "configs")
        if isinstance(configs, dict):
            if not all(isinstance(values, list) and values for values in configs.values()):
                raise self._fail(
                    path,
                    "configs as a product maps each name to a list",
                    "{BK: [32, 64], num_warps: [4]}",
                )
            configs = [
                _config(dict(zip(configs, values)))
                for values in itertools.product(*configs.values())
            ]
        if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
            raise self._fail(
                path, "configs are a list of {kwargs: {…}, num_warps: …}, or a mapping of lists"
            )
        return {"configs": configs} if configs else {}

    def _argument(self, path: tuple[Any, ...], spec: Any) -> None:
        kinds = ("dtype", "int", "float", "bool", "constexpr", "tuple")
        if spec is None:
            return
        if not isinstance(spec, dict) or not any(kind in spec for kind in kinds):
            raise self._fail(
                path,
                f"argument {path[-1]}: {spec!r}",
                f"it is null or one of {', '.join(kinds)}: value",
            )
        dtype = spec.get("dtype")
        if dtype is not None and dtype not in DTYPES and dtype != "{dtype}":
            raise self._fail(
                path, f"unknown dtype {dtype!r}", f"allowed are {', '.join(DTYPES)} and '{{dtype}}'"
            )

    def _forms(self, value: Any) -> dict[str, tuple[str, str]]:
        if not isinstance(value, dict):
            raise self._fail(("forms",), "forms map a kernel to {operator, form}")
        for kernel, entry in value.items():
            if not isinstance(entry, dict) or set(entry) != {"operator", "form"}:
                raise self._fail(("forms", kernel), f"{kernel}: {{operator: …, form: …}} is wanted")
        return {kernel: (entry["operator"], entry["form"]) for kernel, entry in value.items()}


def _config(flat: dict[str, Any]) -> dict[str, Any]:
    """An autotune configuration: what the compiler takes, and the kernel's own constants as
    `kwargs`.
    """
    options = {name: value for name, value in flat.items() if name in OPTIONS}
    return {
        "kwargs": {name: value for name, value in flat.items() if name not in OPTIONS},
        **options,
    }


def _target_problem(item: Any) -> tuple[str, str] | None:
    try:
        targets.find(str(item))
    except UsageError as error:
        return "is no target", str(error)
    return None


def _one_of(allowed: tuple[str, ...]) -> Any:
    return lambda item: (
        None if item in allowed else ("is unknown", f"allowed are {', '.join(allowed)}")
    )


def _positive(item: Any) -> tuple[str, str] | None:
    good = isinstance(item, int) and not isinstance(item, bool) and item > 0
    return None if good else ("is no positive whole number", "for example 4")


def _text(item: Any) -> tuple[str, str] | None:
    return None if isinstance(item, str) and item else ("is no string", "quote it")


def _shape(item: Any) -> tuple[str, str] | None:
    good = isinstance(item, dict) and all(
        isinstance(v, int) and not isinstance(v, bool) for v in item.values()
    )
    return None if good or item == "own" else ("is no shape", "a shape is {T: 8192, K: 128} or own")


def _mapping(item: Any) -> tuple[str, str] | None:
    return (
        None
        if isinstance(item, dict)
        else ("is no mapping of options", "for example {maxnreg: 128}")
    )


_CHECKS: Mapping[str, Any] = {
    "kernel": _text,
    "package": _text,
    "stage": _one_of(STAGES),
    "dtype": _one_of(DTYPES),
    "shape": _shape,
    "constants": _mapping,
    "configs": _one_of(("own", "first", "usual")),
    "num_warps": _positive,
    "num_stages": _positive,
    "options": _mapping,
    "target": _target_problem,
    "triton": _text,
}
