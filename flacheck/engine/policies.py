"""Policies of confinement: the files that each kind of process needs, and nothing else.

`guest/engine/confinement.py` enters them. SECURITY.md lists what each kind of process gets.
"""

import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flacheck.guest.engine import channel
from flacheck.guest.engine.confinement import Policy
from flacheck.toolchains import cache

# The files that a program opens at its start to load its shared libraries.
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
_LOADER_FILES = (*_LIBRARIES, "/etc/ld.so.cache", "/etc/ld.so.preload")
# The kernel treats the loader as an executed program.
_LOADERS = "ld-*.so*"
_MACHINE = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/kernel/mm", "/dev/urandom", "/dev/random", "/dev/zero"),
)
# Headers of the system, which every C++ compiler reads.
_HEADERS = ("/usr/include", "/usr/local/include", "/usr/share/libc")
# The headers by which a folder shows that it holds a library's own, mostly a submodule's: CUTLASS.
_HEADERS_OF_LIBRARIES = ("cutlass/cutlass.h", "cutlass/util/command_line.h")
# Folders with the system's programs and headers, and without users' files.
_SYSTEM = ("/usr", "/bin", "/sbin", *_LIBRARIES)
# Files of /etc that libraries read and that hold no secrets.
_SETTINGS = (
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "localtime", "timezone"),
    *("os-release", "lsb-release", "debian_version", "mime.types", "ld.so.conf", "ld.so.conf.d"),
    *("fonts", "ssl/openssl.cnf", "ssl/certs", "alternatives"),
)

# The policy of the user's own program, or of a process that uses a GPU. It may do everything that
# its user may, except read the memory and the environment of processes outside.
OWN: Policy = {"read": [], "execute": ["/"], "write": ["/"], "private": [], "trusted": True}


def of_worker(config: Mapping[str, Any], scratch: str) -> Policy:
    """Return the policy of a compile worker with this configuration.

    A worker that imports a package or torch gets the policy of a package, because their code may
    start programs of the system. Any other worker compiles texts from untrusted sources.
    """
    packages = list(config.get("packages", {}).values())
    folders = [str(package["path"]) for package in packages]
    compiler = compiler_folders(config["path"])
    is_python = "toolkit" not in config and "library" not in config
    if is_python and (folders or config.get("torch")):
        return of_package([*folders, *compiler, config.get("torch") or ""], scratch)
    for package in packages:
        folders += package.get("headers", ())
    read = [*_LOADER_FILES, *_MACHINE, *_python(), *folders]
    read.append(config.get("corpus", ""))
    read += config.get("includes", ())
    if not is_python:
        read += _HEADERS
    programs = list(config.get("programs", ()))
    # The libraries of a program that is not part of the system lie beside it.
    for program in programs:
        root = Path(program).resolve().parent.parent
        read.append(str(root / "lib"))
    return {
        "read": _unique_paths(read),
        "execute": _unique_paths([*compiler, *programs, *_loaders()]),
        "write": [scratch, "/dev/null"],
        "private": [],
        "trusted": False,
    }


def of_script(paths: Sequence[str], scratch: str) -> Policy:
    """Return the policy of a Python script that compiles one kernel.

    It is the policy of a worker with the release in these folders, and allows Python itself and the
    shell that old releases start ptxas by.
    """
    programs = [sys.executable, "/bin/sh"]
    return of_worker({"path": list(paths), "programs": programs}, scratch)


def of_package(folders: Iterable[str], scratch: str) -> Policy:
    """Return the policy of a process that runs a package's code.

    The process may use the system's programs, this Python with the packages installed for it, and
    flacheck's cache, but none of the user's files.
    """
    settings = [f"/etc/{name}" for name in _SETTINGS]
    read = [*_LOADER_FILES, *_MACHINE, *_python(), *settings]
    read += ["/proc", "/sys", str(cache.root())]
    # The first entry is the folder of the command, or the current one.
    import_folders = [*sys.path[1:], site.getusersitepackages()]
    programs = [*_SYSTEM, sys.prefix, sys.base_prefix, *folders, *import_folders]
    return {
        "read": _unique_paths(read),
        "execute": _unique_paths(programs),
        "write": [scratch, "/dev/null"],
        # multiprocessing keeps its locks there.
        "private": ["/dev/shm"],
        "trusted": False,
    }


def compiler_folders(paths: Iterable[str]) -> list[str]:
    """Return the folders in which a compiler lies, links resolved.

    A compiler that flacheck did not install is a link in a folder of the cache, and the kernel's
    rules hold the target of a link. A source build also links to its backends from its own folders.
    """
    folders = list(paths)
    for path in filter(Path.is_dir, map(Path, paths)):
        for entry in path.iterdir():
            if entry.is_symlink():
                folders.append(str(entry.resolve()))
                files = entry.resolve().rglob("*")
                for link in filter(Path.is_symlink, files):
                    folders.append(str(link.resolve()))
    return folders


def header_folders(folders: Iterable[str], project: str) -> list[str]:
    """Return those of the header folders that a project's units may read.

    They are the folders below the project, in the system's folders, in Python and in flacheck's
    cache, and those of a library by a header of it. A build may name any other folder, even the
    one with the user's keys.
    """
    readable_roots = [project, "/usr", "/opt"]
    readable_roots += [sys.prefix, sys.base_prefix, str(cache.root())]
    roots = [Path(folder).resolve() for folder in readable_roots]
    readable = []
    for folder in folders:
        there = Path(folder).resolve()
        is_library = any((there / header).is_file() for header in _HEADERS_OF_LIBRARIES)
        if is_library or any(there.is_relative_to(root) for root in roots):
            readable.append(folder)
    return readable


def _python() -> Iterator[str]:
    """Yield the folders of the standard library and of the guest's modules."""
    yield sysconfig.get_path("stdlib")
    # The folder of the base installation: an environment's own folder also holds the packages
    # installed there.
    yield sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
    yield channel.GUEST


def _loaders() -> Iterator[str]:
    for folder in _LIBRARIES:
        yield from map(str, Path(folder).glob(_LOADERS))


def _unique_paths(paths: Iterable[str]) -> list[str]:
    """Return each path once, without empty ones: they would mean the current folder."""
    return [path for path in dict.fromkeys(paths) if path]
