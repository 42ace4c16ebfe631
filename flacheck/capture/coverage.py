"""How much of a package a capture saw: its launchable kernels, those recorded, and why the others
were not.

Read from the source with `ast`: a kernel is a function decorated with `triton.jit`; it is
launchable when some function of the package calls it as `name[grid](…)`. Files for other vendors'
devices are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flacheck.model import Json
from flacheck.source.source import Import, content, read

OTHER_VENDORS = ("ascend", "npu")
_CHAIN = 8


@dataclass(frozen=True)
class Coverage:
    """`launchable` kernels, how many of them were `recorded`, and each other one with the reason."""

    launchable: int
    recorded: int
    missed: tuple[tuple[str, str], ...]

    def to_json(self) -> Json:
        missed = [{"kernel": kernel, "reason": reason} for kernel, reason in self.missed]
        return {"launchable": self.launchable, "recorded": self.recorded, "missed": missed}


@cache
def launchable(folder: str | Path, prefix: str) -> Mapping[str, tuple[str, ...]]:
    """The launchable kernels below a module prefix (`fla.ops`), each with the functions that launch
    it.

    A folder is read once: what is installed in the cache stays as it is.
    """
    root = Path(folder)
    found: dict[str, set[str]] = {}
    for file in sorted(root.joinpath(prefix.partition(".")[0]).rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if any(word in file.as_posix() for word in OTHER_VENDORS):
            continue
        for launcher, name in _launches(file):
            kernel = _kernel(root, module, name)
            if kernel and (kernel.startswith((f"{prefix}.", f"{prefix}:"))):
                found.setdefault(kernel, set()).add(f"{module}:{launcher}")
    return {kernel: tuple(sorted(launchers)) for kernel, launchers in sorted(found.items())}


def _launches(file: Path) -> Iterator[tuple[str, str]]:
    """(enclosing function, name) of every `name[…](…)` in a file."""
    try:
        tree = ast.parse(content(file))
    except (SyntaxError, ValueError):
        return
    for owner in tree.body:
        for node in ast.walk(owner):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                called = node.func.value
                if isinstance(called, ast.Name):
                    yield getattr(owner, "name", "<module>"), called.id


def _kernel(root: Path, module: str, name: str) -> str | None:
    """`module:qualname` of the jit function that a name leads to, through imports."""
    for _ in range(_CHAIN):
        bound = read(root, module).names.get(name, ())
        imported = next(
            (target for target in bound if isinstance(target, Import) and target.name), None
        )
        if imported is None:
            return f"{module}:{name}" if name in _jitted(root, module) else None
        module, name = imported.module, imported.name
    return None


def _jitted(
    root: Path, module: str, _known: dict[tuple[Path, str], frozenset[str]] = {}
) -> frozenset[str]:  # noqa: B006
    """The jit functions that a module defines."""
    if (root, module) not in _known:
        file = read(root, module).file
        tree = ast.parse(content(root / file)) if file else ast.Module([], [])
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        _known[root, module] = frozenset(
            function.name for function in functions if _is_jitted(function)
        )
    return _known[root, module]


def _is_jitted(function: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def coverage(
    kernels: Mapping[str, tuple[str, ...]], recorded: Mapping[str, int], report: Mapping[str, Any]
) -> Coverage:
    """What of the launchable kernels was recorded; for the rest, what the driver's report knows."""
    missed = [
        (kernel, _reason(kernel, by, report))
        for kernel, by in kernels.items()
        if kernel not in recorded
    ]
    return Coverage(len(kernels), len(kernels) - len(missed), tuple(missed))


def _reason(kernel: str, launchers: tuple[str, ...], report: Mapping[str, Any]) -> str:
    for module, said in report.get("modules", {}).items():
        if any(launcher.startswith(module + ":") for launcher in launchers):
            return f"{module} cannot be imported: {said}"
    using = {
        name: entry
        for name, entry in report.get("operators", {}).items()
        if kernel in entry["kernels"]
    }
    if not using:
        return f"launched only by {', '.join(launchers)}, which no operator that was found calls"
    for name, entry in using.items():
        if not entry["launches"] and entry["failures"]:
            return f"{name} raised before it: {next(iter(entry['failures'].values()))[:200]}"
    names = ", ".join(list(using)[:3])
    return f"{names} ran and took another way; launched by {', '.join(launchers)}"
