"""Checkouts: a package's own sources in a folder, taken as they stand."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flacheck.errors import UsageError

_BUILDS = ("pyproject.toml", "setup.py", "setup.cfg")
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
    if not any((path / name).is_file() for name in _BUILDS):
        raise UsageError(
            f"--package {spec}: neither {' nor '.join(_BUILDS)} is in it, so it is no package's"
            " checkout"
        )
    return path


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
def copied(path: Path) -> Iterator[Path]:
    """The checkout elsewhere, history included: builds leave folders behind, and some read their
    version there."""
    with tempfile.TemporaryDirectory(prefix="flacheck-") as aside:
        copy = Path(aside) / path.name
        ignored = shutil.ignore_patterns(*_LEFT, "*.egg-info", ".venv", ".tox", ".nox")
        shutil.copytree(path, copy, symlinks=True, ignore=ignored, ignore_dangling_symlinks=True)
        yield copy


def installed(into: Path) -> importlib.metadata.Distribution:
    """The distribution that was built from a folder, which installers note beside it."""
    for distribution in importlib.metadata.distributions(path=[str(into)]):
        said = distribution.read_text("direct_url.json")
        if said and "dir_info" in json.loads(said):
            return distribution
    raise UsageError(
        "what was built from the checkout names no package; does `pip install` of it work?"
    )
