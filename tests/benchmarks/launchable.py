"""Counts the Triton kernels of a distribution that some of its own code launches. Shares no code
with flacheck, whose coverage it checks.

    python -m tests.benchmarks.launchable FOLDER          all Python files below a folder
    python -m tests.benchmarks.launchable FOLDER NAME     those that the RECORD of NAME lists

A kernel is a function below `@triton.jit`, or one that is wrapped by a call: `triton.jit(f)`. It is
launched where the host subscripts and calls it (`kernel[grid](…)`, `self.kernel[grid](…)`,
`wrap_triton(kernel)[grid](…)`), calls its `run` or `warmup`, or does so with a name that it bound
to the kernel: `kernel = autotune(…)(f)`, `kernel = a if new else b`, `KERNELS = {"a": a}`. If a
module launches something without a name (an argument, an attribute), the kernels that the module or
its importers pass around as values count too. A function that returns a value does not count: Triton
compiles it only into its callers. Tests, benchmarks, `__main__` and code for devices of vendors other
than NVIDIA are left out.
"""

from __future__ import annotations

import ast
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_LEFT_OUT = {"test", "tests", "testing", "benchmark", "benchmarks", "build", "examples"}
_VENDORS = frozenset(
    "ascend npu cambricon mthreads kunlunxin iluvatar metax hygon amd arm aipu tsingmicro enflame "
    "sunrise spacemit cdna rocm xpu intel thead mps metal".split()
)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def files(folder: Path, name: str | None) -> list[Path]:
    """The distribution's Python files, without tests and the like."""
    paths = list(folder.rglob("*.py"))
    if name:
        plain = name.lower().replace("-", "_")
        records = [
            path
            for path in folder.glob("*.dist-info/RECORD")
            if path.parent.name.lower().replace("-", "_").startswith(f"{plain}_")
            or path.parent.name.lower().rpartition("-")[0].replace("-", "_") == plain
        ]
        with records[0].open(encoding="utf-8", newline="") as file:
            paths = [folder / row[0] for row in csv.reader(file) if row[0].endswith(".py")]
    return sorted(path for path in paths if path.is_file() and _counts(path.relative_to(folder)))


def _counts(path: Path) -> bool:
    folders = {part.lower().lstrip("_") for part in path.parts[:-1]}
    stem = path.stem.lower()
    if folders & _LEFT_OUT or any(part.startswith(".") for part in path.parts):
        return False
    if stem in ("__main__", "setup", "conftest") or stem.startswith("test_"):
        return False
    if stem.endswith("_test"):
        return False
    words = {word for part in (*folders, stem) for word in part.split("_")}
    return not words.intersection(_VENDORS)


class Module:
    """The facts of one file: `kernels` by the name in the module's scope → qualified name,
    `imports` by local name → (module, name), `bound` by local name → possible values, `launched`
    and `handed` names, and whether something without a name is launched."""

    def __init__(self, path: Path, folder: Path) -> None:
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
            self.package = ".".join(parts)
        else:
            self.package = ".".join(parts[:-1])
        self.name = ".".join(parts)
        self.kernels: dict[str, str] = {}
        self.functions: set[str] = set()
        self.imports: dict[str, tuple[str, str]] = {}
        self.stars: list[str] = []
        self.bound: dict[str, set[str]] = defaultdict(set)
        self.launched: set[str] = set()
        self.handed: set[str] = set()
        self.untold = False
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        self._jitted: set[ast.AST] = set()
        self._define(tree, "", False)
        self._read(tree)

    def _define(self, node: ast.AST, prefix: str, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*_FUNCTION, ast.ClassDef)):
                full_name = f"{prefix}{child.name}"
                is_jit = isinstance(child, _FUNCTION) and any(map(_is_jit, child.decorator_list))
                if is_jit:
                    self._jitted.add(child)
                    if not _returns_value(child):
                        self.kernels[child.name] = full_name
                elif isinstance(child, _FUNCTION):
                    self.functions.add(child.name)
                self._define(child, f"{full_name}.", inside or is_jit)
            else:
                self._define(child, prefix, inside)

    def _read(self, tree: ast.AST) -> None:
        for node in self._host(tree):
            if isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.Import):
                for item in node.names:
                    self.imports[item.asname or item.name] = (item.name, "")
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in _targets(target):
                        self.bound[name] |= set(_values(node.value))
                self._jit_by_call(node.value)
            elif isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Return) and node.value is not None:
                self.handed |= set(_values(node.value))

    def _host(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield all nodes outside kernels, with the defaults and decorators of kernels left out."""
        for child in ast.iter_child_nodes(node):
            if child not in self._jitted:
                yield child
                yield from self._host(child)

    def _import(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".") if node.level else []
        if node.level > 1:
            above = above[: 1 - node.level]
        source = ".".join([*above, *filter(None, [node.module])])
        for item in node.names:
            if item.name == "*":
                self.stars.append(source)
            else:
                self.imports[item.asname or item.name] = (source, item.name)

    def _jit_by_call(self, value: ast.expr) -> None:
        """`triton.jit(f)`, also deeper: `autotune(…)(triton.jit(f))`."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and _path_of(node.func) in ("triton.jit", "jit"):
                for argument in node.args[:1]:
                    if isinstance(argument, ast.Name) and argument.id in self.functions:
                        self.kernels.setdefault(argument.id, argument.id)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        by_name = isinstance(function, ast.Attribute) and function.attr in ("run", "warmup")
        if isinstance(function, ast.Subscript):
            self.untold = True
        if isinstance(function, ast.Subscript) or by_name:
            self.launched |= set(_values(function.value))
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.handed |= set(_values(argument))


def _is_jit(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return _path_of(decorator) in ("triton.jit", "jit", "tl.jit", "triton.runtime.jit")


def _returns_value(function: ast.AST) -> bool:
    """Return whether a function itself returns something, not one inside it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.Return) and ast.unparse(child) not in ("return", "return None"):
            return True
        if not isinstance(child, (*_FUNCTION, ast.Lambda)) and _returns_value(child):
            return True
    return False


def _path_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_path_of(node.value)}.{node.attr}"
    return ""


def _targets(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _targets(part)


def _values(node: ast.expr) -> Iterator[str]:
    """The names that an expression may be worth, through wrappers, branches and containers."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
        yield _path_of(node)
    elif isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for part in node.elts:
            yield from _values(part)
    elif isinstance(node, ast.Dict):
        for part in node.values:
            yield from _values(part)
    elif isinstance(node, ast.Subscript):
        yield from _values(node.value)
    elif isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _values(part)
    elif isinstance(node, ast.Call):
        yield from _values(node.func)
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _values(part)


class Distribution:
    """All modules of a distribution, their names followed."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.modules: dict[str, Module] = {}
        for path in files(folder, name):
            try:
                module = Module(path, folder)
            except (SyntaxError, ValueError):
                continue
            self.modules[module.name] = module

    def launchable(self) -> list[str]:
        """`module:qualname` of each kernel that some code launches."""
        kernels: set[str] = set()
        for module in self.modules.values():
            for name in module.launched:
                kernels |= self._kernels(module, name, set())
        for module in self.modules.values():
            for name in module.handed | set().union(*module.bound.values(), set()):
                if self._launches_untold(module, name):
                    kernels |= self._kernels(module, name, set())
        return sorted(kernels)

    def _launches_untold(self, module: Module, name: str) -> bool:
        """Return True if a value that is stored or passed on may be launched.

        Whether this module, or one that it imports, launches something that is not a kernel's name.
        """
        near = {module.name, *(source for source, _ in module.imports.values())}
        near |= {f"{source}.{name}" for source, name in module.imports.values()}
        return any(self._has_untold(self.modules[each]) for each in near if each in self.modules)

    def _has_untold(self, module: Module) -> bool:
        if not module.untold:
            return False
        return any(
            not self._kernels(module, name, set()) and "." not in name for name in module.launched
        )

    def _kernels(self, module: Module, name: str, seen: set[tuple[str, str]]) -> set[str]:
        if (module.name, name) in seen:
            return set()
        seen.add((module.name, name))
        if name in module.kernels:
            return {f"{module.name}:{module.kernels[name]}"}
        kernels: set[str] = set()
        for value in module.bound.get(name, ()):
            kernels |= self._kernels(module, value, seen)
        head, _, rest = name.partition(".")
        if name in module.imports:
            kernels |= self._kernels_of_import(*module.imports[name], seen)
        elif rest and head in module.imports:
            source, inner = module.imports[head]
            kernels |= self._kernels_of_import(".".join(filter(None, (source, inner))), rest, seen)
        for source in module.stars:
            kernels |= self._kernels_of_import(source, name, seen)
        return kernels

    def _kernels_of_import(self, source: str, name: str, seen: set[tuple[str, str]]) -> set[str]:
        if source in self.modules and name:
            return self._kernels(self.modules[source], name, seen)
        return set()


def main() -> None:
    for kernel in Distribution(Path(sys.argv[1]), *sys.argv[2:3]).launchable():
        print(kernel)


if __name__ == "__main__":
    main()
