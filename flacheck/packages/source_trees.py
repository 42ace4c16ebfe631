"""Packages whose C++ sources are compiled: a source distribution, unpacked and never built, or a
checkout as it stands."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from flacheck.errors import UsageError
from flacheck.packages import archives, checkouts
from flacheck.packages.package import Package, parse
from flacheck.toolchains import cache, filling, wheels

# Where wheels hold headers: NVIDIA's libraries, and CUTLASS.
_HEADER_FOLDERS = (
    "nvidia/*/include",
    "cutlass_library/source/include",
    "cutlass_library/source/tools/util/include",
)
# What `_checkout` calls the state of a folder.
_OF_CHECKOUT = re.compile(r"==0\+h[0-9a-f]{8}$")


def provide_sources(spec: str) -> Package:
    """The sources of `NAME==VERSION`, or of the checkout in a folder; nothing of them is run.

    Raises UsageError for what does not exist, ToolchainError where it cannot be had.
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
    """Whether a package, `NAME==VERSION`, is a checkout by its version: no release has such."""
    return _OF_CHECKOUT.search(package) is not None


def _checkout(path: Path, spec: str) -> Package:
    if not path.is_dir():
        raise UsageError(f"--package {spec}: there is no such folder; give one, or NAME==VERSION")
    state = checkouts.digest(path)
    # An edit makes it another package, as it does for kernels of a checkout.
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
    seen = hashlib.sha256()
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = Path(folder) / name
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            seen.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return seen.hexdigest()[:32]


def library_headers(spec: str, alone: bool = False) -> tuple[str, ...]:
    """Return the include folders of a CUDA library's wheel (`nvidia-cublas==13.0.*`), whose
    libraries are left out: only headers are compiled. `alone` leaves out what it requires."""
    named = re.sub(r"[^\w.]+", "-", spec).strip("-")

    def install(into: Path) -> dict[str, Any]:
        done = wheels.install([spec], into, what=spec, binary_only=(":all:",), alone=alone)
        for folder, _, names in os.walk(into):
            for name in names:
                if re.search(r"\.(?:so|a)(?:\.|$)", name):
                    (Path(folder) / name).unlink()
        return done

    shelf = filling.fill(cache.root() / "headers" / named, install)
    folders = [path for pattern in _HEADER_FOLDERS for path in shelf.path.glob(pattern)]
    return tuple(str(path) for path in sorted(folders) if path.is_dir())
