"""Checks of this machine for flacheck's work: one check a function, nothing printed."""

import json
import os
import platform
import resource
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from flacheck import toolchains
from flacheck.errors import FlacheckError
from flacheck.guest.engine import channel, confinement, escapes
from flacheck.model import Json
from flacheck.toolchains import cache, filling, index, lld, wheels

# The minor versions of Python 3 on which flacheck is tested; it needs the first one. Triton has
# wheels for newer ones, too.
TESTED_PYTHONS = (10, 13)
_WHEELS_FOR = ("x86_64", "aarch64")
# Room for two releases of Triton, and memory for one worker with a large compile.
_FREE_GB = 2.0
_MEMORY_GB = 4.0
# The steps of the sandbox for a worker: a group of its own, a limit, a fork.
_PROBE = """
import os, resource
os.setsid()
resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
os.fork() or os._exit(0)
"""


_NEEDS = (
    "Linux 5.19 with Landlock (among the kernel's `lsm=`) closes files and programs, 6.12 signals,"
    " seccomp the network, other processes and message queues, namespaces the list of connections;"
    " a container runtime may refuse each of them"
)
# What each version of Landlock's ABI closes beside files.
_LANDLOCK_RIGHTS = {4: "TCP", 5: "devices", 6: "signals and abstract sockets"}


@dataclass(frozen=True)
class Check:
    """The name, result, details and remedy of one check.

    An `optional` check never makes the machine unfit.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    optional: bool = False


def checks() -> Iterator[Check]:
    """Yield every check, the cheap ones first."""
    yield _system()
    yield check_python()
    yield _installer()
    yield _cache_folder()
    yield _space()
    yield _memory()
    yield _processes()
    yield check_confinement()
    # WAL needs 3.7, the store's upserts 3.24.
    remedy = "use a Python built with SQLite 3.24 or newer"
    yield Check("sqlite", sqlite3.sqlite_version_info >= (3, 24), sqlite3.sqlite_version, remedy)
    yield _triton_here()
    yield _linker()
    yield from training_checks()
    yield _network()


def training_checks() -> Iterator[Check]:
    """Yield what Triton needs to launch a kernel on this machine's GPU."""
    yield _launcher_compiler()
    yield _kernel_cache()


def _launcher_compiler() -> Check:
    """Return the check that Triton can compile its launcher, a C extension."""
    names = [os.environ.get("CC", ""), "clang", "gcc"]
    path = next(filter(None, map(shutil.which, filter(None, names))), None)
    header = Path(sysconfig.get_path("include"), "Python.h")
    remedy = "optional: Triton compiles its launcher with it (apt install gcc, or set CC)"
    name = "compiler of Triton's launcher"
    if path is not None and not header.is_file():
        remedy = "optional: Triton's launcher includes it (apt install python3-dev)"
        return Check(name, False, f"{header} is missing", remedy, optional=True)
    return Check(name, path is not None, path or "neither clang nor gcc", remedy, optional=True)


def _kernel_cache() -> Check:
    """Return the check that Triton can write the folder of its compiled kernels."""
    home = os.environ.get("TRITON_HOME") or str(Path.home())
    folder = Path(os.environ.get("TRITON_CACHE_DIR") or Path(home, ".triton", "cache"))
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    remedy = "optional: set TRITON_CACHE_DIR to a folder that can be written"
    try:
        # A right to write is not enough: to root every folder seems writable.
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        why = f"{folder}: {error.strerror}"
        return Check("Triton's cache", False, why, remedy, optional=True)
    return Check("Triton's cache", True, str(folder), remedy, optional=True)


def _system() -> Check:
    machine = f"{platform.system()} {platform.machine()}"
    ok = platform.system() == "Linux" and platform.machine() in _WHEELS_FOR
    remedy = f"Triton's wheels are for Linux on {' and '.join(_WHEELS_FOR)}"
    return Check("system", ok, machine, remedy)


def check_python() -> Check:
    first, last = TESTED_PYTHONS
    ok = sys.version_info >= (3, first)
    here = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= (3, last + 1):
        here += f"; untested: flacheck is tested on Python 3.{first} to 3.{last}"
    return Check("python", ok, here, f"use Python 3.{first} to 3.{last}")


def _installer() -> Check:
    names = ", ".join(installer.name for installer in wheels.installers())
    remedy = "install uv, or run `python -m ensurepip`"
    return Check("installer", bool(names), names or "neither uv nor pip", remedy)


def _cache_folder() -> Check:
    folder = cache.root()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("cache", False, f"{folder}: {error.strerror}", filling.explain(error, folder))
    return Check("cache", True, str(folder))


def _space() -> Check:
    folder = cache.root()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    remedy = (
        f"free {_FREE_GB:g} GB, or set FLACHECK_CACHE_DIR to a larger disk; a Triton release takes"
        " up to 1 GB"
    )
    return Check("disk space", free >= _FREE_GB, f"{free:.0f} GB free for {cache.root()}", remedy)


def _memory() -> Check:
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    remedy = "compile one cell at a time (-j 1) and set --memory"
    return Check("memory", gigabytes >= _MEMORY_GB, f"{gigabytes:.0f} GB", remedy)


def _processes() -> Check:
    """Return the check that workers can be forked into groups with limits of their own."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    remedy = f"allow processes to fork and set limits (RLIMIT_NPROC is {limit})"
    command = [sys.executable, "-I", "-S", "-c", _PROBE]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("subprocesses", False, str(error), remedy)
    if result.returncode:
        lines = result.stderr.strip().splitlines()[-1:] or [f"exit status {result.returncode}"]
        return Check("subprocesses", False, lines[0], remedy)
    return Check("subprocesses", True, "groups and limits can be set", remedy)


def check_confinement() -> Check:
    """Return the check that the kernel keeps compilers from the user's files and processes.

    It is tried in a process of its own.
    """
    remedy = "optional: without it run sources that you do not know in a container"
    try:
        tried = _try_escapes()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Check("confinement", False, f"cannot be tried: {error}", remedy, optional=True)
    detail = ", ".join(_means(tried["namespaces"]))
    closed_names = [name for name, is_closed in tried["ways"].items() if is_closed]
    open_names = [name for name in tried["ways"] if name not in closed_names]
    if closed_names:
        detail += f"; closed to compilers: {', '.join(closed_names)}"
    if open_names:
        detail += f"; left open by this kernel: {', '.join(open_names)}"
    return Check("confinement", not open_names, detail, f"{remedy}; {_NEEDS}", optional=True)


def _try_escapes() -> Json:
    """Return the report of a process that tries to leave a compiler's policy."""
    libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", sys.base_prefix]
    policy = {"read": libraries, "execute": [], "write": [], "private": [], "trusted": False}
    boot = ["-I", "-S", "-c", channel.BOOT, channel.GUEST, ".engine.escapes"]
    prefix = "flacheck-doctor-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, escapes.lay_bait(folder) as bait:
        command = [sys.executable, *boot, json.dumps(policy), json.dumps(bait)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    report: Json = json.loads(result.stdout)
    return report


def _means(has_namespaces: bool) -> Iterator[str]:
    """Yield the means of confinement that this machine has and lacks."""
    support = confinement.available_confinement()
    rights = ["files"]
    for version, right in _LANDLOCK_RIGHTS.items():
        if support["landlock"] >= version:
            rights.append(right)
    if support["landlock"]:
        yield f"Landlock {support['landlock']} ({', '.join(rights)})"
    else:
        yield "Landlock is not offered"
    yield "seccomp" if support["seccomp"] else "seccomp is not offered"
    if has_namespaces:
        yield "namespaces (IPC, mounts, network)"
    else:
        yield "namespaces are not permitted"


def _triton_here() -> Check:
    remedy = (
        "optional: `pip install triton`, or name a release with --triton; flacheck keeps it in its"
        " cache"
    )
    try:
        choice = next(iter(toolchains.resolve(["installed"]).choices))
    except FlacheckError:
        return Check("installed triton", False, "none in this environment", remedy, optional=True)
    return Check("installed triton", True, f"{choice.identity} in {choice.location}", optional=True)


def _linker() -> Check:
    # The newest release without a linker of its own, which requires the newest linkers.
    path = lld.find(Version("3.4.0")).path
    remedy = (
        "optional: AMD targets on Triton 3.0 to 3.4 need ld.lld 15 or newer (Debian: apt install"
        " lld-16)"
    )
    return Check("ld.lld", path is not None, path or "not found", remedy, optional=True)


def _network() -> Check:
    remedy = (
        "optional: without an index only releases in the cache can be used; see the index settings"
        " of pip or uv"
    )
    try:
        releases = index.available("triton")
    except FlacheckError as error:
        return Check("package index", False, str(error), remedy, optional=True)
    detail = f"{len(releases)} Triton releases, the newest {releases[-1]}"
    return Check("package index", True, detail, optional=True)
