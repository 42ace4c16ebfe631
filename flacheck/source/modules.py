"""A package's modules, each read once: what their names stand for, which kernels they launch."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from flacheck.source import syntax

# Kernels for other vendors' devices are not ours to compile, and their modules not ours to call.
OTHER_VENDORS = frozenset(
    """
    ascend npu cambricon mlu mthreads musa kunlunxin iluvatar metax hygon aipu tsingmicro enflame
    sunrise spacemit
    """.split()
)
# Folders and files whose modules no user of a package imports; some of them run when they are.
_UNUSED = ("test", "tests", "testing", "benchmark", "benchmarks", "examples", "docs")
_RUNS = ("__main__", "setup", "conftest")
# Re-exports go a few modules deep; a circle of imports must end somewhere.
DEEPEST = 16


@dataclass(frozen=True)
class Import:
    """`from module import name` (`*` too); without a name the module itself."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class PackageModule:
    """What a module's names stand for. A name that branches bind anew has several imports; imports
    within functions count as if they stood outside. Empty when the module is missing or not Python.

    `file` is relative to the package's folder; `kernels` are the functions that Triton compiles,
    `launches` pairs (top-level function or class, name of the kernel).
    """

    file: str = ""
    imports: Mapping[str, tuple[Import, ...]] = field(default_factory=dict)
    definitions: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    launches: tuple[tuple[str, str], ...] = ()


def package_of(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


def module_name(root: Path, file: Path) -> str:
    """The dotted name by which a file below a folder for imports is imported."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def importable(file: str) -> str | None:
    """The module that a file of a distribution holds, None when users of it import none: tests,
    benchmarks, what runs by itself, what is for other vendors' devices."""
    parts = file.removesuffix(".py").split("/")
    if not file.endswith(".py") or not all(map(str.isidentifier, parts)):
        return None
    name = parts[-1]
    if any(part in _UNUSED for part in parts[:-1]) or name in _RUNS:
        return None
    if OTHER_VENDORS.intersection(word for part in parts for word in part.lower().split("_")):
        return None
    if name.startswith("test_") or name.endswith("_test"):
        return None
    return ".".join(parts).removesuffix(".__init__")


def file_of(root: Path, module: str) -> Path | None:
    """The file of a module below a folder for imports."""
    base = root.joinpath(*module.split("."))
    for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def read(root: Path, module: str) -> PackageModule:
    """A module of the package in a folder. What is installed in the cache stays as it is."""
    file = file_of(root, module)
    if file is None:
        return PackageModule()
    package = module
    if file.name != "__init__.py":
        package = module.rpartition(".")[0]
    parsed = syntax.tree(syntax.content(file))
    imports: dict[str, list[Import]] = {}
    for statement, _ in statements(parsed.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, target in _imported(statement, package):
                imports.setdefault(name, []).append(target)
    kernels, launches = _kernels_and_launches(parsed)
    return PackageModule(
        file.relative_to(root).as_posix(),
        {name: tuple(bound) for name, bound in imports.items()},
        frozenset(name for name, _ in definitions(parsed)),
        frozenset(kernels),
        tuple(launches),
    )


def definitions(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Each name that a module gives to a function, a class or a value, with the statement."""
    for statement, outside in statements(module.body):
        if outside and isinstance(statement, syntax.DEFINITION):
            yield statement.name, statement
        elif outside:
            for target in syntax.targets(statement):
                if isinstance(target, ast.Name):
                    yield target.id, statement


def statements(body: Iterable[ast.stmt], outside: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement, with whether it stands outside functions and classes."""
    for statement in body:
        yield statement, outside
        # A name that a function assigns is its own.
        deeper = outside and not isinstance(statement, syntax.DEFINITION)
        for block in syntax.inner_blocks(statement):
            yield from statements(block, deeper)


@cache
def launchable(folder: str | Path, prefix: str) -> Mapping[str, tuple[str, ...]]:
    """The kernels below a module prefix (`fla.ops`), each with the functions that launch it."""
    root = Path(folder)
    launchers: dict[str, set[str]] = {}
    package = package_of(prefix)
    alone = root / f"{package}.py"
    for file in sorted([*root.joinpath(package).rglob("*.py"), *filter(Path.is_file, [alone])]):
        if importable(file.relative_to(root).as_posix()) is None:
            continue
        module = module_name(root, file)
        for launcher, name in read(root, module).launches:
            kernel = _kernel(root, module, name)
            if kernel and kernel.startswith((f"{prefix}.", f"{prefix}:")):
                launchers.setdefault(kernel, set()).add(f"{module}:{launcher}")
    return {kernel: tuple(sorted(who)) for kernel, who in sorted(launchers.items())}


def _kernel(root: Path, module: str, name: str) -> str | None:
    """`module:name` of the kernel that a name of a module leads to, through imports."""
    for _ in range(DEEPEST):
        here = read(root, module)
        # Without a name it is a module, and a module is nothing to launch.
        imported = next((each for each in here.imports.get(name, ()) if each.name), None)
        if imported is None:
            break
        module, name = imported.module, imported.name
    if name in read(root, module).kernels:
        return f"{module}:{name}"
    return None


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Import]]:
    if isinstance(node, ast.Import):
        for item in node.names:
            if item.asname:
                yield item.asname, Import(item.name)
            else:
                yield package_of(item.name), Import(package_of(item.name))
        return
    above: list[str] = []
    # One dot is the package itself, each further dot its parent.
    if node.level:
        above = package.split(".")[: 1 - node.level or None]
    module = ".".join(filter(None, (*above, node.module)))
    for item in node.names:
        yield item.asname or item.name, Import(module, item.name)


def _kernels_and_launches(module: ast.Module) -> tuple[set[str], list[tuple[str, str]]]:
    """Both in one walk, for a package has a million nodes."""
    kernels: set[str] = set()
    launches: list[tuple[str, str]] = []
    for owner in module.body:
        for node in ast.walk(owner):
            if isinstance(node, syntax.FUNCTION) and syntax.is_kernel(node):
                kernels.add(node.name)
            elif name := syntax.launched_name(node):
                launches.append((getattr(owner, "name", "<module>"), name))
    return kernels, launches
