"""Kernels whose decorator is refused (FC603): found in a package's sources, for none of them can be
imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from flacheck.packages.package import Package
from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.original import NotReproduced
from flacheck.repro.passes.tuning import autotuned

_CONFIGS = ({"kwargs": {}, "num_warps": 4}, {"kwargs": {}, "num_warps": 8})


def refused(package: Package, kernel: str, target: str) -> Specimen:
    """The kernel of that name when its autotuner has a key that is no parameter; else the first
    such of the package.

    An import that fails names the kernel that was asked for, and the fault may be another's. Raises
    NotReproduced when there is none.
    """
    found = list(_faulty(Path(package.path)))
    if not found:
        raise NotReproduced(
            f"no autotuner in {package.identity} has a key in plain text that is no parameter"
        )
    module, _, qualname = kernel.partition(":")
    best = min(
        found,
        key=lambda entry: ((entry[0], entry[1].name) != (module, qualname), entry[0] != module),
    )
    return _specimen(best[1], best[2], target)


def _faulty(folder: Path) -> Iterator[tuple[str, ast.FunctionDef, list[str]]]:
    """Module, function and keys of each kernel that names a key it does not take."""
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            keys = _keys(node) if isinstance(node, ast.FunctionDef) else None
            if isinstance(node, ast.FunctionDef) and keys and set(keys) - _parameters(node):
                yield ".".join(file.relative_to(folder).with_suffix("").parts), node, keys


def _keys(function: ast.FunctionDef) -> list[str] | None:
    """The literal `key` of an autotuner among the decorators."""
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "autotune":
            given = {k.arg: k.value for k in call.keywords} | dict(
                zip(("configs", "key"), call.args)
            )
            try:
                return list(ast.literal_eval(given["key"]))
            except (KeyError, ValueError, TypeError):
                return None
    return None


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {
        a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    }


def _specimen(function: ast.FunctionDef, keys: list[str], target: str) -> Specimen:
    """Only its decoration matters: what the body uses is not looked up before a launch."""
    plain = ast.FunctionDef(
        name=function.name,
        args=function.args,
        body=function.body,
        decorator_list=[ast.parse("triton.jit", mode="eval").body],
        lineno=1,
    )
    text = (
        "import triton\nimport triton.language as tl\n\n\n"
        + ast.unparse(ast.fix_missing_locations(plain))
        + "\n"
    )
    names = [
        a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    ]
    bare = Specimen(text, function.name, {}, target, {}, "import", tuple(names))
    return autotuned(bare, _CONFIGS, keys)
