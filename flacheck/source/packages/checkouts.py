"""Checkouts: the sources of a package in a folder."""

import ast
import base64
import contextlib
import email
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.files import content_hash, lies_inside, read_text
from flacheck.toolchains.scratch import temporary_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BUILDS = ("pyproject.toml", "setup.py", "setup.cfg")
# Folders with an `__init__` that do not belong to the package.
_NO_PACKAGES = ("tests", "test", "benchmarks", "benchmark", "examples", "docs", "scripts")
# Folders that tools create in a checkout; they do not belong to the package.
_TOOL_FOLDERS = ("build", "dist", "__pycache__", "node_modules", "venv", "env")


def is_path(spec: str) -> bool:
    """Return True if a package is specified as a folder rather than as NAME==VERSION."""
    return os.sep in spec or spec in (".", "..") or (Path(spec).is_dir() and "=" not in spec)


def folder(spec: str) -> Path:
    """Return the checkout's folder; raise UsageError unless a package can be built from it."""
    path = Path(spec).expanduser().resolve()
    if not path.is_dir():
        raise UsageError(
            f"--package {spec}: there is no such folder; give a checkout or NAME==VERSION"
        )
    if not any((path / name).is_file() for name in _BUILDS) and not importable(path):
        raise UsageError(
            f"--package {spec}: neither {' nor '.join(_BUILDS)} is in it, nor a Python package, so "
            "it is not a package's checkout"
        )
    return path


def question_source(spec: str) -> str:
    """Return the folder of a checkout, "" for a release.

    Every edit changes a checkout's version; the question stays the same.
    """
    if is_path(spec):
        return str(Path(spec).expanduser().resolve())
    return ""


def importable(path: Path) -> list[Path]:
    """Return a checkout's Python packages: folders with an `__init__`, in it or below `src`."""
    for root in (path, path / "src"):
        packages = []
        for init in sorted(root.glob("*/__init__.py")):
            if init.parent.name not in _NO_PACKAGES:
                packages.append(init.parent)
        if packages:
            return packages
    return []


def cannot_build(path: Path) -> str | None:
    """Return why a checkout is used without a build; None if it can be built.

    A checkout cannot be built if it lacks a build backend, or if its build requires torch, which
    has over a gigabyte.
    """
    if not any((path / name).is_file() for name in _BUILDS):
        return "it has no build configuration"
    requires = _table(path, "build-system").get("requires")
    if isinstance(requires, list):
        for requirement in map(str, requires):
            if re.match(r"torch\b", requirement):
                return "its build requires torch"
    setup = path / "setup.py"
    if setup.is_file():
        text = read_text(setup, errors="replace")
        if re.search(r"^\s*(import torch|from torch)\b", text, re.MULTILINE):
            return "its setup.py imports torch"
    return None


@dataclass(frozen=True)
class BuildSystem:
    """The table `[build-system]` in the pyproject.toml of a checkout (PEP 518)."""

    requires: tuple[str, ...]
    backend: str
    backend_path: tuple[str, ...] = ()


def build_system(path: Path) -> BuildSystem:
    """Return what builds a checkout; without a table, or for a malformed one, setuptools."""
    table = _table(path, "build-system")
    requires, backend = table.get("requires"), table.get("build-backend")
    if not isinstance(requires, list):
        return _SETUPTOOLS
    if not isinstance(backend, str):
        return replace(_SETUPTOOLS, requires=tuple(map(str, requires)))
    folders = table.get("backend-path")
    if not isinstance(folders, list):
        folders = []
    return BuildSystem(tuple(map(str, requires)), backend, tuple(map(str, folders)))


# The backend that installers use where none is named.
_SETUPTOOLS = BuildSystem(("setuptools>=40.8",), "setuptools.build_meta:__legacy__")


def read_metadata(path: Path) -> tuple[str, str, list[str]]:
    """Return the name, version and requirements of a checkout without building it.

    Only literal values in its files count. A source distribution contains its built name.
    """
    project = _table(path, "project")
    information = email.message_from_string("")
    if (path / "PKG-INFO").is_file():
        text = read_text(path / "PKG-INFO", errors="replace")
        information = email.message_from_string(text)
    # The archive lacks requirements that its setup.py computes.
    requires = information.get_all("Requires-Dist") or project.get("dependencies")
    if not isinstance(requires, list):
        requires = _required_by_setup(path / "setup.py")
    name = str(information["Name"] or project.get("name", path.name))
    version = str(information["Version"] or project.get("version", "0"))
    return name, version, list(map(str, requires))


def _table(path: Path, name: str) -> dict[str, Any]:
    """Return a table of a checkout's pyproject.toml, empty if it cannot be read."""
    file = path / "pyproject.toml"
    try:
        table = tomllib.loads(read_text(file)).get(name)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if isinstance(table, dict):
        return table
    return {}


def _required_by_setup(file: Path) -> list[str]:
    """Return the literal list `install_requires` of a setup.py."""
    if not file.is_file():
        return []
    try:
        tree = ast.parse(read_text(file, errors="replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            values = [getattr(part, "value", None) for part in getattr(node.value, "elts", [])]
            return [value for value in values if isinstance(value, str)]
    return []


def take(path: Path, into: Path) -> None:
    """Copy the Python packages of a checkout into a folder for imports.

    The metadata that an installer would write is added.
    """
    name, version, requires = read_metadata(path)

    def ignore(folder: str, names: list[str]) -> set[str]:
        # A link in a stranger's checkout may lead to any file of the user, a pipe may have no end.
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")(folder, names)
        for file in map(Path(folder).joinpath, names):
            if not lies_inside(file, path) or not (file.is_file() or file.is_dir()):
                ignored.add(file.name)
        return ignored

    copies: list[Path] = []
    for package in importable(path):
        shutil.copytree(package, into / package.name, ignore=ignore, symlinks=False)
        copies += sorted((into / package.name).rglob("*"))
    info = into / f"{re.sub(r'[^A-Za-z0-9.]+', '_', name)}-{version}.dist-info"
    info.mkdir()
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {each}\n" for each in requires]
    (info / "METADATA").write_text("".join(lines), encoding="utf-8")
    rows = []
    for file in filter(Path.is_file, copies):
        text = base64.urlsafe_b64encode(content_hash(file).digest()).rstrip(b"=").decode()
        rows.append(f"{file.relative_to(into).as_posix()},sha256={text},{file.stat().st_size}\n")
    (info / "RECORD").write_text("".join(rows), encoding="utf-8")


def digest(path: Path) -> str:
    """Return a hash of all files of the package: after an edit it counts as another package."""
    total = hashlib.sha256()
    for file in sorted(files(path)):
        total.update(f"{file.relative_to(path)}\0{content_hash(file).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def files(path: Path) -> Iterator[Path]:
    """Yield the files of a checkout that belong to the package."""
    for entry in path.iterdir():
        is_tools = entry.name in _TOOL_FOLDERS or entry.name.endswith(".egg-info")
        if is_tools or entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files(entry)
        elif entry.is_file():
            yield entry


@contextlib.contextmanager
def temporary_copy(path: Path) -> Iterator[Path]:
    """Copy the checkout to a temporary folder, because builds create folders in it.

    The copy has the history, from which some builds read their version.
    """
    with temporary_folder() as aside:
        copy = Path(aside) / path.name
        tools = shutil.ignore_patterns(*_TOOL_FOLDERS, "*.egg-info", ".venv", ".tox", ".nox")

        def ignore(folder: str, names: list[str]) -> set[str]:
            # A pipe or a device cannot be copied; a build that needs one makes it.
            files = map(Path(folder).joinpath, names)
            special = [file.name for file in files if not (file.is_file() or file.is_dir())]
            return {*tools(folder, names), *special}

        shutil.copytree(path, copy, symlinks=True, ignore=ignore, ignore_dangling_symlinks=True)
        yield copy
