"""Packages whose C++ sources are compiled: a source distribution or a checkout, never built."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.files import content_hash
from flacheck.source.packages import archives, checkouts
from flacheck.source.packages.package import Package, parse
from flacheck.toolchains import cache, filling, wheels

# The folders of headers in wheels: NVIDIA's libraries, and CUTLASS.
_HEADER_FOLDERS = (
    "nvidia/*/include",
    "cutlass_library/source/include",
    "cutlass_library/source/tools/util/include",
)
# The version that `_checkout` gives to a folder.
_OF_CHECKOUT = re.compile(r"==0\+h[0-9a-f]{8}$")


def provide_sources(spec: str) -> Package:
    """Return the sources of `NAME==VERSION`, or of the checkout in a folder; no code of them runs.

    Raises UsageError if they do not exist, ToolchainError if they cannot be fetched.
    """
    if checkouts.is_path(spec):
        return _checkout(Path(spec).expanduser().resolve(), spec)
    name, version = parse(spec)
    try:
        shelf = filling.fill(_folder(spec), lambda into: _download(name, version, into))
    except wheels.NotFound as error:
        raise UsageError(f"there is no source distribution of {name} {version}: {error}") from error
    root = shelf.path / str(shelf.manifest["root"])
    return Package(name, version, str(root), str(shelf.manifest["digest"]), {})


def has_sources(spec: str) -> bool:
    """Return True if an earlier command fetched the sources of `NAME==VERSION`."""
    return not checkouts.is_path(spec) and cache.read_shelf(_folder(spec)) is not None


def _folder(spec: str) -> Path:
    name, version = parse(spec)
    return cache.root() / "sources" / f"{name}-{version}"


def is_checkout(package: str) -> bool:
    """Return True if `NAME==VERSION` has the version of a checkout, which releases never have."""
    return _OF_CHECKOUT.search(package) is not None


def _checkout(path: Path, spec: str) -> Package:
    if not path.is_dir():
        raise UsageError(f"--package {spec}: there is no such folder; give one, or NAME==VERSION")
    state = checkouts.digest(path)
    # After an edit it counts as another package, like the kernels of a checkout.
    return Package(path.name, f"0+h{state[:8]}", str(path), state, {})


def _download(name: str, version: str, into: Path) -> dict[str, Any]:
    root = archives.fetch(name, version, into)
    return {
        "name": name,
        "version": version,
        "root": root.name,
        "digest": _digest(root),
        "size_mb": cache.size_mb(into),
    }


def _digest(root: Path) -> str:
    total = hashlib.sha256()
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = Path(folder) / name
            content = content_hash(path).hexdigest()
            total.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return total.hexdigest()[:32]


def library_headers(spec: str, alone: bool = False) -> tuple[str, ...]:
    """Return the include folders of a CUDA library's wheel (`nvidia-cublas==13.0.*`).

    The libraries themselves are removed. `alone` leaves out the wheel's requirements.
    """
    folder_name = re.sub(r"[^\w.]+", "-", spec).strip("-")

    def install(into: Path) -> dict[str, Any]:
        manifest = wheels.install([spec], into, what=spec, alone=alone)
        for folder, _, names in os.walk(into):
            for name in names:
                if re.search(r"\.(?:so|a)(?:\.|$)", name):
                    (Path(folder) / name).unlink()
        return manifest

    shelf = filling.fill(cache.root() / "headers" / folder_name, install)
    folders: list[Path] = []
    for pattern in _HEADER_FOLDERS:
        folders += shelf.path.glob(pattern)
    return tuple(str(path) for path in sorted(folders) if path.is_dir())
