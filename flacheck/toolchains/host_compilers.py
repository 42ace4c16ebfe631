"""The C++ compilers of this machine: nvcc gives them its host code, and has them preprocess all of
it. Each is known by its name and exact version (`g++ 12.2.0`), which is part of a cell's key."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from flacheck.errors import UsageError

# Where the sandbox finds programs: a compiler elsewhere would be another one in a worker.
_PATH = "/usr/local/bin:/usr/bin:/bin"
DEFAULT = "g++"
_NAME = re.compile(r"(g\+\+|clang\+\+)(-\d+)?")
_IDENTITY = re.compile(r"(g\+\+|clang\+\+) (\d+(?:\.\d+)*)")
_NEWEST = 30
# What a C++ compiler starts, and what nvcc starts beside its own programs and the compiler.
_PARTS = ("cc1plus", "cc1", "collect2", "as", "ld")
_BESIDE_NVCC = ("rm", "cat", "c++filt")
_SECONDS = 30


@cache
def identity(name: str) -> str | None:
    """`g++ 12.2.0` for `g++` or `g++-12`, itself for an identity; None for one that is not here.

    Raises UsageError for what names no C++ compiler.
    """
    if _IDENTITY.fullmatch(name):
        return name
    named = _NAME.fullmatch(name)
    if named is None:
        raise UsageError(f"host compiler {name!r}: expected g++, clang++, or one such as g++-12")
    path = shutil.which(name, path=_PATH)
    if path is None:
        return None
    try:
        told = subprocess.run(
            [path, "-dumpfullversion", "-dumpversion"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = told.stdout.strip()
    if told.returncode != 0 or not version:
        return None
    return f"{named[1]} {version}"


def of_default() -> str:
    """The identity of g++, its bare name where there is none: then no unit compiles here."""
    return identity(DEFAULT) or DEFAULT


def find_programs(*names: str) -> list[str]:
    """The paths of programs, without those that are not here."""
    paths = [shutil.which(name, path=_PATH) for name in names]
    return [path for path in paths if path is not None]


@cache
def programs() -> list[str]:
    """Every program that a compile of a unit executes beside the toolkit's own: the C++ compilers
    here with what they start, and the shell that nvcc gives its commands to."""
    paths = [*find_compilers().values(), *find_programs("sh", *_BESIDE_NVCC)]
    for compiler in find_compilers().values():
        # One that keeps what was compiled before starts the next one of its name.
        paths += [f"{folder}/{Path(compiler).name}" for folder in _PATH.split(":")]
        for name in _PARTS:
            paths += _part(compiler, name)
    return list(dict.fromkeys(paths))


def _part(compiler: str, name: str) -> list[str]:
    """The path of a program that the compiler starts, if it is here."""
    try:
        told = subprocess.run(
            [compiler, f"-print-prog-name={name}"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    path = told.stdout.strip()
    if Path(path).is_absolute():
        return [path]
    # The compiler looks for it on the PATH.
    return find_programs(name)


@cache
def find_compilers() -> Mapping[str, str]:
    """Every C++ compiler here: its identity and its path."""
    names = [DEFAULT, "clang++"]
    for kind in (DEFAULT, "clang++"):
        names += [f"{kind}-{number}" for number in range(_NEWEST)]
    compilers: dict[str, str] = {}
    for name in names:
        path = shutil.which(name, path=_PATH)
        known = None
        if path is not None:
            known = identity(name)
        if known is not None and path is not None:
            compilers.setdefault(known, path)
    return compilers
