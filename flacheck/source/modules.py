"""A package's modules, each read once: the targets of their names and the kernels they launch."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from flacheck.source import syntax
from flacheck.source.launched_kernels import LaunchedKernels

# flacheck neither compiles kernels for other vendors' devices nor calls their modules.
OTHER_VENDORS = frozenset(
    """
    ascend npu cambricon mlu mthreads musa kunlunxin iluvatar metax hygon aipu tsingmicro enflame
    sunrise spacemit
    """.split()
)
# Folders and files whose modules users of a package do not import; importing some runs code.
_INTERNAL = frozenset("test tests testing benchmark benchmarks examples docs".split())
_RUNS = ("__main__", "setup", "conftest")
_IMPORT = re.compile(
    rb"^[ \t]*((?:from[ \t]+[.\w]+[ \t]+)?import[ \t]+(?:\([^)]*\)|(?:[^\n\\;#]|\\\n)*))",
    re.MULTILINE,
)
_FUNCTION = re.compile(rb"\bdef[ \t]+(\w+)")
# The most modules that lead to some kernels: a level of importers that makes more is left out.
_MOST_AROUND = 120
# `kernel[grid](…)`, also over several lines, `kernel.run(…)`, or a module with kernels, which may
# return `kernel[grid]`; text without a match contains no launch.
_MAY_LAUNCH = re.compile(rb"\][\s\\)]*(?:#[^\n]*\n[\s\\)]*)*\(|\.(?:run|warmup)\b|\bjit\b")


@dataclass(frozen=True)
class Import:
    """`from module import name` (`*` too); without a name the module itself."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class PackageModule:
    """The names of a module: empty if the module is missing or not Python.

    A name that branches bind anew has several imports. Imports within functions count as if they
    were at module level. `file` is relative to the package's folder; LaunchedKernels describes
    `kernels`, `launches` and `aliases`.
    """

    file: str = ""
    imports: Mapping[str, tuple[Import, ...]] = field(default_factory=dict)
    definitions: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    launches: tuple[tuple[str, str], ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def package_of(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def module_name(root: Path, file: Path) -> str:
    """Return the dotted name by which a file below a folder for imports is imported."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def importable(file: str) -> str | None:
    """Return the module that a file of a distribution holds; None if users do not import it.

    Left out are tests, benchmarks, scripts and modules for other vendors' devices.
    """
    parts = file.removesuffix(".py").split("/")
    if not file.endswith(".py") or not all(map(str.isidentifier, parts)):
        return None
    *folders, name = parts
    if name in _RUNS or not _INTERNAL.isdisjoint(folders):
        return None
    if name.startswith("test_") or name.endswith("_test"):
        return None
    for part in parts:
        words = part.lower().split("_")
        if not OTHER_VENDORS.isdisjoint(words):
            return None
    return ".".join(parts).removesuffix(".__init__")


def file_of(root: Path, module: str) -> Path | None:
    """Return the file of a module below a folder for imports."""
    base = root.joinpath(*module.split("."))
    for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def read(root: Path, module: str) -> PackageModule:
    """Read a module of the package in a folder; files in the cache do not change."""
    file = file_of(root, module)
    if file is None:
        return PackageModule()
    package = module
    if file.name != "__init__.py":
        package = module.rpartition(".")[0]
    tree = syntax.tree(syntax.content(file))
    imports: dict[str, list[Import]] = {}
    for statement, _ in statements(tree.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, target in _imports(statement, package):
                imports.setdefault(name, []).append(target)
    found = LaunchedKernels.of(tree)
    return PackageModule(
        file.relative_to(root).as_posix(),
        {name: tuple(bound) for name, bound in imports.items()},
        frozenset(name for name, _ in definitions(tree)),
        frozenset(found.kernels),
        tuple(found.launches),
        {name: tuple(values) for name, values in found.aliases.items()},
    )


def definitions(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield each name of a module's functions, classes and values, with its statement."""
    for statement, outside in statements(module.body):
        if outside and isinstance(statement, syntax.DEFINITION):
            yield statement.name, statement
        elif outside:
            for target in syntax.targets(statement):
                if isinstance(target, ast.Name):
                    yield target.id, statement


def statements(body: Iterable[ast.stmt], outside: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield every statement, and True if it stands outside functions and classes."""
    for statement in body:
        yield statement, outside
        # A name that a function assigns is local to it.
        deeper = outside and not isinstance(statement, syntax.DEFINITION)
        for block in syntax.inner_blocks(statement):
            yield from statements(block, deeper)


@cache
def launchable(
    folder: str | Path, prefix: str, globs: tuple[str, ...] = ()
) -> Mapping[str, tuple[str, ...]]:
    """Return the kernels below a module prefix (`fla.ops`) with the functions that launch them.

    With globs of kernels, only modules that lead to kernels of such names are read.
    """
    root = Path(folder)
    package = package_of(prefix)
    files = list(root.joinpath(package).rglob("*.py"))
    single_file = root / f"{package}.py"
    if single_file.is_file():
        files.append(single_file)
    own_files = [file.relative_to(root) for file in sorted(files)]
    modules = tuple(
        module_name(root, root / file) for file in own_files if importable(file.as_posix())
    )
    if globs:
        names = tuple(re.split(r"[:.]", glob)[-1] for glob in globs)
        start = [module for module in modules if _may_define(root, module, names)]
        modules = tuple(modules_around(root, modules, start))
    launchers: dict[str, set[str]] = {}
    for module in modules:
        if not _MAY_LAUNCH.search(_content(root, module)):
            # A parse costs a hundred times as much.
            continue
        for launcher, name in read(root, module).launches:
            for kernel in _kernels(root, module, name, set()):
                if kernel.startswith((f"{prefix}.", f"{prefix}:")):
                    launchers.setdefault(kernel, set()).add(f"{module}:{launcher}")
    return {kernel: tuple(sorted(names)) for kernel, names in sorted(launchers.items())}


def _content(root: Path, module: str) -> bytes:
    file = file_of(root, module)
    return syntax.content(file) if file is not None else b""


def _may_define(root: Path, module: str, globs: Iterable[str]) -> bool:
    """Return True if a module may define a kernel whose last name matches a glob."""
    content = _content(root, module)
    if b"jit" not in content:
        return False
    names = {name.decode() for name in _FUNCTION.findall(content)}
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def modules_around(folder: str | Path, modules: Sequence[str], start: Iterable[str]) -> list[str]:
    """Return those of some modules that import `start`, directly or not, and `start` itself."""
    importers = _importers(Path(folder), tuple(modules))
    around = level = set(start)
    while level and len(around | level) <= _MOST_AROUND:
        around = around | level
        level = set().union(*(importers.get(each, ()) for each in level)) - around
    return [module for module in modules if module in around]


@cache
def _importers(root: Path, modules: tuple[str, ...]) -> Mapping[str, set[str]]:
    """Return the modules that import each name."""
    importers: dict[str, set[str]] = {}
    for module in modules:
        for target in _imported_names(root, module):
            importers.setdefault(target, set()).add(module)
    return importers


def _imported_names(root: Path, module: str) -> Iterator[str]:
    """Yield the dotted names that a module imports, by its text: a parse costs far more."""
    file = file_of(root, module)
    if file is None:
        return
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for match in _IMPORT.finditer(syntax.content(file)):
        for node in syntax.tree(match[1]).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for _, target in _imports(node, package):
                    yield from (target.module, f"{target.module}.{target.name}")


def _kernels(root: Path, module: str, name: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield `module:name` of each kernel that a dotted name in a module may refer to.

    Imports and assignments are followed. `seen` are the names that were followed before.
    """
    # A package may have chains of more names than Python has levels of recursion.
    waiting = [(module, name)]
    while waiting:
        module, name = waiting.pop()
        if (module, name) in seen:
            continue
        seen.add((module, name))
        here = read(root, module)
        if name in here.kernels:
            yield f"{module}:{name}"
        else:
            waiting += reversed(list(_referents(here, module, name)))


def _referents(here: PackageModule, module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each thing that a dotted name in a module may refer to."""
    head, _, rest = name.partition(".")
    for target in here.imports.get(head, ()):
        if not rest and target.name:
            # An import without a name is a module, which cannot be launched.
            yield target.module, target.name
        elif rest:
            yield ".".join(filter(None, (target.module, target.name))), rest
    # `self.kernel` is bound by an assignment to an attribute of that name, and what `TABLE.get`
    # returns is among the values of `TABLE`.
    for part in dict.fromkeys((name.rpartition(".")[2], head)):
        for value in here.aliases.get(part, ()):
            yield module, value


def _imports(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Import]]:
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
