"""Compiler options and launch values toward the smallest and most usual."""

from __future__ import annotations

import ast
import copy
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from flacheck.repro.kernel.editing import edited
from flacheck.repro.kernel.order import USUAL_OPTIONS
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.kernel.syntax import expression
from flacheck.repro.kernel.types import NAMES

WARPS = (4, 1, 2, 8)
STAGES = (1, 2, 3)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DTYPES = ("fp16", "fp32")


class Options:
    """No option at all where the default fails too, else the smallest value."""

    name = "options"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        for name in list(best.options):
            for candidate in _options(best, name):
                if (yield candidate):
                    best = candidate
                    break


def _options(specimen: Specimen, name: str) -> Iterator[Specimen]:
    others = {key: value for key, value in specimen.options.items() if key != name}
    yield specimen.with_(options=others)
    value = specimen.options[name]
    for smaller in {"num_warps": WARPS, "num_stages": STAGES}.get(name, ()):
        if smaller < value and smaller != USUAL_OPTIONS.get(name):
            yield specimen.with_(options={**specimen.options, name: smaller})


class Constants:
    """Constant arguments: equal numbers together, then each by itself, the smallest power of two
    that fails.
    """

    name = "launch"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        for together in (True, False):
            for names in _alike(best, together):
                for value in _values(best.args[names[0]]):
                    candidate = best.with_(args={**best.args, **dict.fromkeys(names, value)})
                    if (yield candidate):
                        best = candidate
                        break


def _alike(specimen: Specimen, together: bool) -> list[list[str]]:
    """Parameters of equal constants; large ones first."""
    groups: dict[object, list[str]] = {}
    for name, spec in specimen.args.items():
        if isinstance(spec, Mapping) and set(spec) & {"constexpr", "int"}:
            groups.setdefault(repr(spec) if together else name, []).append(name)
    return list(groups.values())


def _values(spec: Mapping[str, Any]) -> Iterator[Any]:
    [(kind, value)] = spec.items()
    if value is True:
        yield {kind: False}
    elif type(value) is int and value > 1:
        for size in (s for s in SIZES if s < value):
            yield {kind: size}


class DTypes:
    """One dtype for another: fp16 and fp32 are in every test of Triton's."""

    name = "dtypes"

    def search(self, best: Specimen) -> Generator[Specimen, bool, None]:
        for old in sorted(_used(best)):
            for new in _DTYPES:
                if new != old:
                    candidate = retyped(best, old, new)
                    if (yield candidate):
                        best = candidate
                        break


def _used(specimen: Specimen) -> set[str]:
    return {
        spec["dtype"]
        for spec in specimen.args.values()
        if isinstance(spec, Mapping) and "dtype" in spec
    }


def retyped(specimen: Specimen, old: str, new: str) -> Specimen:
    """The specimen with a dtype replaced in its arguments and in its text."""
    changes: dict[int, ast.AST] = {
        id(node): expression(f"tl.{NAMES[new]}")
        for node in ast.walk(specimen.function)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == f"tl.{NAMES.get(old, old)}"
    }
    with edited(specimen) as kernel:
        kernel.body = copy.deepcopy(specimen.function.body, changes)
        kernel.args = {name: _retyped(spec, old, new) for name, spec in kernel.args.items()}
    return kernel.specimen


def _retyped(spec: Any, old: str, new: str) -> Any:
    if isinstance(spec, Mapping) and spec.get("dtype") == old:
        return {**spec, "dtype": new}
    return spec
