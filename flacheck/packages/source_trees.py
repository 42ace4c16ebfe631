"""Packages whose C++ sources are compiled: a source distribution, unpacked and never built, or a
checkout as it stands."""

import hashlib
import os
import re
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from flacheck.errors import ToolchainError, UsageError
from flacheck.packages import checkouts
from flacheck.packages.package import Package, parse
from flacheck.toolchains import cache, filling, wheels

# An installer asks a source distribution's build backend what it holds, and so runs the project's
# own code. In the process that asks, this backend takes its place, which reads the metadata that
# lies in the archive.
_BACKEND = """
import os, sys, types

_name = os.environ.get("_PYPROJECT_HOOKS_BUILD_BACKEND") or os.environ.get("PEP517_BUILD_BACKEND")


def _metadata(folder, config_settings=None):
    import email

    with open("PKG-INFO", encoding="utf-8") as file:
        said = email.message_from_file(file)
    name, version = said["Name"], said["Version"]
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    os.mkdir(os.path.join(folder, info))
    with open(os.path.join(folder, info, "METADATA"), "w", encoding="utf-8") as file:
        file.write(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return info


if _name:
    _module, _, _attributes = _name.partition(":")
    _parts = _module.split(".")
    for _count in range(1, len(_parts) + 1):
        _made = types.ModuleType(".".join(_parts[:_count]))
        _made.__path__ = []
        sys.modules[_made.__name__] = _made
    _holder = sys.modules[_module]
    for _part in filter(None, _attributes.split(".")):
        setattr(_holder, _part, types.SimpleNamespace())
        _holder = getattr(_holder, _part)
    _holder.prepare_metadata_for_build_wheel = _metadata
    _holder.get_requires_for_build_wheel = lambda config_settings=None: []
"""
# Bytes that a source distribution may unpack to: the largest that are known hold CUTLASS.
_LARGEST = 1 << 30


def provide_sources(spec: str) -> Package:
    """The sources of `NAME==VERSION`, or of the checkout in a folder; nothing of them is run.

    Raises UsageError for what does not exist, ToolchainError where it cannot be had.
    """
    if checkouts.is_path(spec):
        return _checkout(Path(spec).expanduser().resolve(), spec)
    name, version = parse(spec)
    folder = cache.root() / "sources" / f"{name}-{version}"
    try:
        shelf = filling.fill(folder, lambda into: _download(name, version, into))
    except wheels.NotFound as error:
        raise UsageError(f"there is no source distribution of {name} {version}: {error}") from error
    root = shelf.path / str(shelf.manifest["root"])
    return Package(name, version, str(root), str(shelf.manifest["digest"]), {})


def _checkout(path: Path, spec: str) -> Package:
    if not path.is_dir():
        raise UsageError(f"--package {spec}: there is no such folder; give one, or NAME==VERSION")
    state = checkouts.digest(path)
    # An edit makes it another package, as it does for kernels of a checkout.
    return Package(path.name, f"0+h{state[:8]}", str(path), state, {})


def _download(name: str, version: str, into: Path) -> dict[str, Any]:
    what = f"the sources of {name} {version}"
    with tempfile.TemporaryDirectory(prefix="flacheck-") as aside:
        (Path(aside) / "sitecustomize.py").write_text(_BACKEND)
        wheels.download_sources(f"{name}=={version}", Path(aside) / "files", Path(aside), what)
        archives = sorted((Path(aside) / "files").iterdir())
        if len(archives) != 1:
            raise ToolchainError(f"{what}: expected one archive, got {len(archives)}")
        _unpack(archives[0], into)
    roots = [path for path in into.iterdir() if path.is_dir()]
    if len(roots) != 1:
        raise ToolchainError(f"{what}: an archive of {len(roots)} folders is none that is known")
    (root,) = roots
    return {
        "name": name,
        "version": version,
        "root": root.name,
        "digest": _digest(root),
        "size_mb": cache.size_mb(into),
    }


def _unpack(archive: Path, into: Path) -> None:
    """Plain files only, none of them outside of the folder."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            _check_size(archive, sum(entry.file_size for entry in opened.infolist()))
            opened.extractall(into)
        return
    with tarfile.open(archive) as opened:
        members = [each for each in opened.getmembers() if each.isfile() or each.isdir()]
        _check_size(archive, sum(each.size for each in members))
        for each in members:
            is_inside = not each.name.startswith("/") and ".." not in Path(each.name).parts
            if not is_inside:
                raise ToolchainError(f"{archive.name} holds {each.name}, outside of its folder")
            each.mode = 0o755 if each.isdir() else 0o644
        opened.extractall(into, members=members)


def _check_size(archive: Path, size: int) -> None:
    if size > _LARGEST:
        raise ToolchainError(
            f"{archive.name} unpacks to {size >> 20} MB; {_LARGEST >> 20} are most"
        )


def _digest(root: Path) -> str:
    seen = hashlib.sha256()
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = Path(folder) / name
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            seen.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return seen.hexdigest()[:32]


def library_headers(spec: str) -> tuple[str, ...]:
    """The include folders of a CUDA library's wheel (`nvidia-cublas==13.0.*`), whose libraries are
    left out: only headers are compiled."""
    named = re.sub(r"[^\w.]+", "-", spec).strip("-")

    def install(into: Path) -> dict[str, Any]:
        done = wheels.install([spec], into, what=spec, binary_only=(":all:",))
        for folder, _, names in os.walk(into):
            for name in names:
                if re.search(r"\.(?:so|a)(?:\.|$)", name):
                    (Path(folder) / name).unlink()
        return done

    shelf = filling.fill(cache.root() / "headers" / named, install)
    found = sorted(path for path in shelf.path.glob("nvidia/*/include") if path.is_dir())
    return tuple(map(str, found))
