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

# What a program that is linked against shared libraries opens when it starts.
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
_LINKED = (*_LIBRARIES, "/etc/ld.so.cache", "/etc/ld.so.preload")
# The kernel counts the loader among the programs that are executed.
_LOADERS = "ld-*.so*"
_MACHINE = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/kernel/mm", "/dev/urandom", "/dev/random", "/dev/zero"),
)
# Headers of the system, which every C++ compiler reads.
_HEADERS = ("/usr/include", "/usr/local/include", "/usr/share/libc")
# Folders in which a system keeps programs and headers, and no one's own files.
_SYSTEM = ("/usr", "/bin", "/sbin", *_LIBRARIES)
# Files of /etc that libraries read for no secret's sake.
_SETTINGS = (
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "localtime", "timezone"),
    *("os-release", "lsb-release", "debian_version", "mime.types", "ld.so.conf", "ld.so.conf.d"),
    *("fonts", "ssl/openssl.cnf", "ssl/certs", "alternatives"),
)

# A process of the user's own program, or one that uses a GPU: it may do all that its user can, but
# for the memory and the environment of processes outside.
OWN: Policy = {"read": [], "execute": ["/"], "write": ["/"], "trusted": True}


def of_worker(config: Mapping[str, Any], scratch: str) -> Policy:
    """Return the policy of a compile worker with this configuration.

    One that imports a package or torch gets a package's policy: their code may start programs of
    the system. Any other one compiles texts that nobody vouches for.
    """
    packages: list[Mapping[str, Any]] = list(config.get("packages", {}).values())
    folders = [str(package["path"]) for package in packages]
    compiler = compiler_folders(config["path"])
    is_python = "toolkit" not in config and "library" not in config
    if is_python and (folders or config.get("torch")):
        return of_package([*folders, *compiler, config.get("torch") or ""], scratch)
    for package in packages:
        folders += package.get("headers", ())
    read = [*_LINKED, *_MACHINE, *_python(), *folders, config.get("corpus", "")]
    read += config.get("includes", ())
    if not is_python:
        read += _HEADERS
    programs = list(config.get("programs", ()))
    # The libraries of a program that the system did not bring lie beside it.
    read += [str(Path(program).resolve().parent.parent / "lib") for program in programs]
    return {
        "read": _named(read),
        "execute": _named([*compiler, *programs, *_loaders()]),
        "write": [scratch, "/dev/null"],
        "trusted": False,
    }


def of_script(paths: Sequence[str], scratch: str) -> Policy:
    """Return the policy of a Python script that compiles one kernel with the release in some
    folders: a worker's, the Python itself, and the shell that old releases start ptxas by."""
    programs = [sys.executable, "/bin/sh"]
    return of_worker({"path": list(paths), "programs": programs}, scratch)


def of_package(folders: Iterable[str], scratch: str) -> Policy:
    """Return the policy of a process that runs a package's code: it finds the system's programs,
    this Python with all that is installed for it, and flacheck's cache; nothing of its user's."""
    settings = [f"/etc/{name}" for name in _SETTINGS]
    read = [*_LINKED, *_MACHINE, *_python(), *settings, "/proc", "/sys", str(cache.root())]
    # The first entry is the folder of the command, or the current one.
    installed = [*sys.path[1:], site.getusersitepackages()]
    programs = [*_SYSTEM, sys.prefix, sys.base_prefix, *folders, *installed]
    return {
        "read": _named(read),
        "execute": _named(programs),
        # multiprocessing keeps its locks in /dev/shm.
        "write": [scratch, "/dev/null", "/dev/shm"],
        "trusted": False,
    }


def compiler_folders(paths: Iterable[str]) -> list[str]:
    """Return the folders that a compiler lies in. One that was not installed by flacheck is a link
    in a folder of the cache, and the kernel holds what the link leads to. A source build has links
    in its own folders, too, to its backends."""
    folders = list(paths)
    for path in filter(Path.is_dir, map(Path, paths)):
        for entry in path.iterdir():
            if entry.is_symlink():
                links = [entry, *filter(Path.is_symlink, entry.resolve().rglob("*"))]
                folders += [str(link.resolve()) for link in links]
    return folders


def header_folders(folders: Iterable[str], project: str) -> list[str]:
    """Return those folders of headers that a project's units may read: below the project, the
    system's folders, Python and flacheck's cache. A build may name any folder, also that of the
    user's keys."""
    trusted = [project, "/usr", "/opt", sys.prefix, sys.base_prefix, str(cache.root())]
    roots = [Path(folder).resolve() for folder in trusted]
    readable = []
    for folder in folders:
        there = Path(folder).resolve()
        if any(there.is_relative_to(root) for root in roots):
            readable.append(folder)
    return readable


def _python() -> Iterator[str]:
    """The standard library, and the guest's own modules."""
    yield sysconfig.get_path("stdlib")
    # That of the base: an environment's own folder holds what is installed there.
    yield sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
    yield channel.GUEST


def _loaders() -> Iterator[str]:
    for folder in _LIBRARIES:
        yield from map(str, Path(folder).glob(_LOADERS))


def _named(paths: Iterable[str]) -> list[str]:
    """Each path once, without those that are empty: an empty one would be the current folder."""
    return [path for path in dict.fromkeys(paths) if path]
