"""Compilers that flacheck did not install: this environment's, a wheel file, a folder, a source
build.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains import identity

NAME = "triton"
_VERSION = re.compile(r"""^__version__\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """Where a compiler lies (the folder above its package, or a wheel file) and what it is.

    `reason` says why this Python cannot use it.
    """

    location: Path
    version: str
    identity: str
    reason: str | None = None


def installed() -> Place:
    """The one that `import triton` would find in this environment; nothing is imported."""
    spec = importlib.util.find_spec(NAME)
    if spec is None or not spec.submodule_search_locations:
        raise ToolchainError(
            f"no {NAME} is installed for {sys.executable}; `pip install {NAME}`, or ask for a release "
            f"(--{NAME} 3.6.0), which flacheck keeps in its own cache"
        )
    package = Path(next(iter(spec.submodule_search_locations)))
    version, files = _version(package), identity.content(package)
    distribution = next(
        iter(importlib.metadata.distributions(name=NAME, path=[str(package.parent)])), None
    )
    if (
        distribution
        and distribution.version == version
        and identity.is_release(distribution, package, files)
    ):
        return Place(package.parent, version, f"{NAME}=={version}")
    return Place(package.parent, version, identity.local(NAME, _public(version), files))


def at(path: Path) -> Place:
    """The one in a wheel file, or in a folder with `triton/` directly or under `python/`."""
    path = path.expanduser().absolute()
    if path.suffix == ".whl":
        return _wheel(path)
    for parent in (path, path / "python", path.parent):
        package = parent / NAME
        if (package / "__init__.py").is_file() and (parent != path.parent or path.name == NAME):
            return _folder(package)
    raise UsageError(
        f"{path} holds no {NAME}: neither {NAME}/__init__.py nor python/{NAME}/__init__.py is there"
    )


def _folder(package: Path) -> Place:
    if not list(package.glob("_C/libtriton*")):
        raise UsageError(f"{package} is not built: there is no _C/libtriton in it")
    version = _version(package)
    return Place(
        package.parent, version, identity.local(NAME, _public(version), identity.content(package))
    )


def _wheel(path: Path) -> Place:
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
        files = identity.wheel_content(path, NAME)
    except (InvalidWheelFilename, zipfile.BadZipFile, StopIteration, OSError) as error:
        raise UsageError(
            f"{path} cannot be read as a wheel: {error or type(error).__name__}"
        ) from error
    if not files:
        raise UsageError(f"{path} holds {name}, not {NAME}")
    fits = not tags.isdisjoint(sys_tags())
    reason = (
        None
        if fits
        else f"{path.name} is no wheel for CPython {sys.version_info.major}.{sys.version_info.minor}"
    )
    return Place(path, str(version), identity.local(NAME, version.public, files), reason)


def _version(package: Path) -> str:
    """`__version__` as its source says it."""
    found = _VERSION.search((package / "__init__.py").read_text(errors="replace"))
    if not found:
        raise UsageError(f"{package}/__init__.py says no __version__")
    return found[1]


def _public(version: str) -> str:
    return version.partition("+")[0]
