"""The operators of a package: its public entry points on the recorded call paths."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from flacheck.model import canonical
from flacheck.source import modules
from flacheck.subjects.inputs.expand import tuned_names
from flacheck.subjects.inputs.extents import Operators
from flacheck.subjects.inputs.launches import CallPath, RecordedLaunch

# A function, or a class and its method; deeper names belong to decorators and closures.
_MOST_PARTS = 2


def operators_of(entries: Sequence[RecordedLaunch], folder: Path) -> Operators:
    """Return the public entry points of each launch, by kernel and canonical arguments.

    An entry point is a function or class that an `__init__` of the package imports or defines. In a
    package without such names it is the outermost public function of a path.
    """
    paths: dict[CallPath, None] = {}
    for entry in entries:
        paths.update(dict.fromkeys(entry.paths or ()))
    points_of = {path: tuple(_entry_points(folder, path)) for path in paths}
    if not any(points_of.values()):
        points_of = {path: tuple(_public_steps(folder, path))[:1] for path in paths}
    operators: dict[tuple[str, str], dict[str, None]] = {}
    for entry in entries:
        names: dict[str, None] = {}
        for path in entry.paths or ():
            names.update(dict.fromkeys(points_of[path]))
        if names:
            operators.setdefault(launch_key(entry), {}).update(names)
    return {key: tuple(names) for key, names in operators.items()}


def launch_key(entry: RecordedLaunch) -> tuple[str, str]:
    """Return a launch's kernel and its canonical arguments without tuned parameters."""
    launch = entry.without_decorators()
    tuned_parameters = tuned_names(launch.configs)
    arguments = {name: value for name, value in launch.args.items() if name not in tuned_parameters}
    return entry.kernel, canonical(arguments)


def _entry_points(folder: Path, path: CallPath) -> Iterator[str]:
    """Yield the functions and classes of a call path that the package exports."""
    for step in _public_steps(folder, path):
        if _is_exported(folder, step):
            yield step


def _public_steps(folder: Path, path: CallPath) -> Iterator[str]:
    """Yield the functions and classes of a call path whose names start with a letter."""
    for step in path:
        module = _module_of(folder, step)
        parts = step.removeprefix(f"{module}.").split(".")
        is_private = any(part.startswith("_") for part in parts[:1])
        if module and not is_private and len(parts) <= _MOST_PARTS:
            yield f"{module}.{parts[0]}"


@cache
def _module_of(folder: Path, step: str) -> str:
    """Return the module in which a function is defined; empty for none of this folder."""
    module = step.rpartition(".")[0]
    while module and modules.file_of(folder, module) is None:
        module = module.rpartition(".")[0]
    return module


@cache
def _is_exported(folder: Path, name: str) -> bool:
    """Return True if an `__init__` above a function or class imports or defines it."""
    module, _, last = name.rpartition(".")
    if last in _exports(folder, module):
        return True
    above = module.rpartition(".")[0]
    while above:
        if last in _exports(folder, above):
            return True
        stars = modules.read(folder, above).imports.get("*", ())
        if any(star.module == module for star in stars):
            return True
        above = above.rpartition(".")[0]
    return False


@cache
def _exports(folder: Path, module: str) -> frozenset[str]:
    """Return the names that a package's `__init__`, or a package of one file, binds."""
    file = modules.file_of(folder, module)
    is_package = file is not None and (file.name == "__init__.py" or "." not in module)
    if not is_package:
        return frozenset()
    content = modules.read(folder, module)
    names: set[str] = set(content.definitions)
    for targets in content.imports.values():
        names.update(target.name for target in targets)
    return frozenset(names)
