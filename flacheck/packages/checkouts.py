"""Checkouts: a package's own sources in a folder, taken as they stand."""

import ast
import base64
import contextlib
import email
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.toolchains.scratch import temporary_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BUILDS = ("pyproject.toml", "setup.py", "setup.cfg")
# Folders with an `__init__` that are no part of the package.
_NO_PACKAGES = ("tests", "test", "benchmarks", "benchmark", "examples", "docs", "scripts")
# What tools leave in a checkout, which is no part of the package.
_LEFT = ("build", "dist", "__pycache__", "node_modules", "venv", "env")


def is_path(spec: str) -> bool:
    """Whether a package is given as a folder rather than as NAME==VERSION."""
    return os.sep in spec or spec in (".", "..") or (Path(spec).is_dir() and "=" not in spec)


def folder(spec: str) -> Path:
    """The checkout's folder; raises UsageError unless a package can be built from it."""
    path = Path(spec).expanduser().resolve()
    if not path.is_dir():
        raise UsageError(
            f"--package {spec}: there is no such folder; give a checkout or NAME==VERSION"
        )
    if not any((path / name).is_file() for name in _BUILDS) and not importable(path):
        raise UsageError(
            f"--package {spec}: neither {' nor '.join(_BUILDS)} is in it, nor a Python package, so "
            "it is no package's checkout"
        )
    return path


def importable(path: Path) -> list[Path]:
    """The Python packages of a checkout: folders with an `__init__`, in it or below `src`."""
    for root in (path, path / "src"):
        inits = sorted(root.glob("*/__init__.py"))
        packages = [init.parent for init in inits if init.parent.name not in _NO_PACKAGES]
        if packages:
            return packages
    return []


def cannot_build(path: Path) -> str | None:
    """Why a checkout is taken as it stands, without a build: there is none, or it needs torch,
    which is a gigabyte and more, to compile extensions with. None where a build is to be tried."""
    if not any((path / name).is_file() for name in _BUILDS):
        return "it says nowhere how it is built"
    required = _table(path, "build-system").get("requires")
    if isinstance(required, list) and any(re.match(r"torch\b", str(each)) for each in required):
        return "its build requires torch"
    setup = path / "setup.py"
    if setup.is_file():
        text = setup.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*(import torch|from torch)\b", text, re.MULTILINE):
            return "its setup.py imports torch"
    return None


def read_metadata(path: Path) -> tuple[str, str, list[str]]:
    """The name, version and requirements of a checkout that is not built, as far as its files say
    them plainly. A source distribution brings what its build would say of the name."""
    project = _table(path, "project")
    information = email.message_from_string("")
    if (path / "PKG-INFO").is_file():
        text = (path / "PKG-INFO").read_text(encoding="utf-8", errors="replace")
        information = email.message_from_string(text)
    # Where its setup.py finds them out, the archive does not say them.
    requires = information.get_all("Requires-Dist") or project.get("dependencies")
    if not isinstance(requires, list):
        requires = _required_by_setup(path / "setup.py")
    name = str(information["Name"] or project.get("name", path.name))
    version = str(information["Version"] or project.get("version", "0"))
    return name, version, list(map(str, requires))


def _table(path: Path, name: str) -> dict[str, Any]:
    """Return a table of a checkout's pyproject.toml; empty where it has none that can be read."""
    file = path / "pyproject.toml"
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get(name)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if isinstance(table, dict):
        return table
    return {}


def _required_by_setup(file: Path) -> list[str]:
    """The literal list `install_requires` of a setup.py."""
    if not file.is_file():
        return []
    try:
        tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            parts = getattr(node.value, "elts", [])
            literals = [part.value for part in parts if isinstance(part, ast.Constant)]
            return [each for each in literals if isinstance(each, str)]
    return []


def take(path: Path, into: Path) -> None:
    """Copy the Python packages of a checkout into a folder for imports, with the note that an
    installer would leave beside them."""
    name, version, requires = read_metadata(path)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")
    written = []
    for package in importable(path):
        shutil.copytree(package, into / package.name, ignore=ignored, symlinks=False)
        written += sorted((into / package.name).rglob("*"))
    info = into / f"{re.sub(r'[^A-Za-z0-9.]+', '_', name)}-{version}.dist-info"
    info.mkdir()
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {each}\n" for each in requires]
    (info / "METADATA").write_text("".join(lines), encoding="utf-8")
    link = {"url": path.as_uri(), "dir_info": {}}
    (info / "direct_url.json").write_text(json.dumps(link), encoding="utf-8")
    rows = []
    for each in filter(Path.is_file, written):
        hashed = hashlib.sha256(each.read_bytes()).digest()
        told = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
        rows.append(f"{each.relative_to(into).as_posix()},sha256={told},{each.stat().st_size}\n")
    (info / "RECORD").write_text("".join(rows), encoding="utf-8")


def digest(path: Path) -> str:
    """A hash of all files of the package, 16 hex digits: an edit makes it another package."""
    seen = hashlib.sha256()
    for file in sorted(files(path)):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        seen.update(f"{file.relative_to(path)}\0{content}\n".encode())
    return seen.hexdigest()[:16]


def files(path: Path) -> Iterator[Path]:
    """The files of a checkout that belong to the package."""
    for entry in path.iterdir():
        is_left = entry.name in _LEFT or entry.name.endswith(".egg-info")
        if is_left or entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files(entry)
        elif entry.is_file():
            yield entry


@contextlib.contextmanager
def temporary_copy(path: Path) -> Iterator[Path]:
    """The checkout elsewhere, history included: builds leave folders behind, and some read their
    version there."""
    with temporary_folder() as aside:
        copy = Path(aside) / path.name
        ignored = shutil.ignore_patterns(*_LEFT, "*.egg-info", ".venv", ".tox", ".nox")
        shutil.copytree(path, copy, symlinks=True, ignore=ignored, ignore_dangling_symlinks=True)
        yield copy


def find_built(into: Path) -> importlib.metadata.Distribution:
    """The distribution that was built from a folder, which installers note beside it."""
    for distribution in importlib.metadata.distributions(path=[str(into)]):
        said = distribution.read_text("direct_url.json")
        if said and "dir_info" in json.loads(said):
            return distribution
    raise UsageError(
        "what was built from the checkout names no package; does `pip install` of it work?"
    )
