"""Source distributions, fetched and unpacked; none of their code runs."""

import tarfile
import zipfile
from pathlib import Path

from flacheck.errors import ToolchainError
from flacheck.toolchains import wheels
from flacheck.toolchains.scratch import temporary_folder

# An installer calls a source distribution's build backend for its metadata, and so runs code of the
# project. In the installer's process this backend replaces it, and reads the archive's metadata.
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


_path = os.environ.get("_PYPROJECT_HOOKS_BACKEND_PATH") or os.environ.get("PEP517_BACKEND_PATH")
if _name:
    _module, _, _attributes = _name.partition(":")
    _parts = _module.split(".")
    for _count in range(1, len(_parts) + 1):
        _made = types.ModuleType(".".join(_parts[:_count]))
        _made.__path__ = []
        sys.modules[_made.__name__] = _made
    _holder = sys.modules[_module]
    # pip checks that a backend in the sources lies there.
    _holder.__file__ = os.path.join((_path or "").split(os.pathsep)[0], "backend.py")
    for _part in filter(None, _attributes.split(".")):
        setattr(_holder, _part, types.SimpleNamespace())
        _holder = getattr(_holder, _part)
    _holder.prepare_metadata_for_build_wheel = _metadata
    _holder.get_requires_for_build_wheel = lambda config_settings=None: []
"""
# The unpacked bytes of a source distribution: the largest known ones contain CUTLASS.
_LARGEST = 1 << 30


def fetch(name: str, version: str, into: Path) -> Path:
    """Unpack the source distribution of `NAME==VERSION` into `into`; return its folder.

    Raises NotFound if it does not exist, ToolchainError if it cannot be fetched.
    """
    what = f"the sources of {name} {version}"
    with temporary_folder() as aside:
        (Path(aside) / "sitecustomize.py").write_text(_BACKEND)
        wheels.download_sources(f"{name}=={version}", Path(aside) / "files", Path(aside), what)
        archives = sorted((Path(aside) / "files").iterdir())
        if len(archives) != 1:
            raise ToolchainError(f"{what}: expected one archive, got {len(archives)}")
        _unpack(archives[0], into)
    roots = [path for path in into.iterdir() if path.is_dir()]
    if len(roots) != 1:
        raise ToolchainError(f"{what}: expected one folder in the archive, got {len(roots)}")
    return roots[0]


def _unpack(archive: Path, into: Path) -> None:
    """Unpack regular files and folders; raise ToolchainError for a path outside of the folder."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zip_file:
            sizes = [entry.file_size for entry in zip_file.infolist()]
            _check_size(archive, sum(sizes))
            zip_file.extractall(into)
        return
    with tarfile.open(archive) as tar_file:
        members = []
        size = 0
        for member in tar_file.getmembers():
            if member.isfile() or member.isdir():
                members.append(member)
                size += member.size
        _check_size(archive, size)
        for each in members:
            is_inside = not each.name.startswith("/") and ".." not in Path(each.name).parts
            if not is_inside:
                raise ToolchainError(f"{archive.name} contains {each.name}, outside of its folder")
            each.mode = 0o755 if each.isdir() else 0o644
        tar_file.extractall(into, members=members)


def _check_size(archive: Path, size: int) -> None:
    if size > _LARGEST:
        raise ToolchainError(
            f"{archive.name} unpacks to {size >> 20} MB; {_LARGEST >> 20} are most"
        )
