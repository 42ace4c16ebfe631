"""The C++ compilers of this machine, which preprocess and compile host code for nvcc.

Each is identified by its name and exact version (`g++ 12.2.0`), which is part of a cell's key.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from flacheck.errors import UsageError

# The sandbox's PATH: a compiler elsewhere would be another one in a worker.
_PATH = "/usr/local/bin:/usr/bin:/bin"
DEFAULT = "g++"
_NAME = re.compile(r"(g\+\+|clang\+\+)(-\d+)?")
_IDENTITY = re.compile(r"(g\+\+|clang\+\+) (\d+(?:\.\d+)*)")
_NEWEST = 30
# Programs that a C++ compiler starts, and those that nvcc starts beside its own and the compiler.
_PARTS = ("cc1plus", "cc1", "collect2", "as", "ld")
_BESIDE_NVCC = ("rm", "cat", "c++filt")
_SECONDS = 30


@cache
def identity(name: str) -> str | None:
    """Return `g++ 12.2.0` for `g++` or `g++-12`, and an identity unchanged.

    Returns None for a compiler that is not here. Raises UsageError for any other text.
    """
    if _IDENTITY.fullmatch(name):
        return name
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"host compiler {name!r}: expected g++, clang++, or one such as g++-12")
    path = shutil.which(name, path=_PATH)
    if path is None:
        return None
    try:
        result = subprocess.run(
            [path, "-dumpfullversion", "-dumpversion"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = result.stdout.strip()
    if result.returncode != 0 or not version:
        return None
    return f"{match[1]} {version}"


def find_programs(*names: str) -> list[str]:
    """Return the paths of those programs that are installed here."""
    paths = []
    for name in names:
        path = shutil.which(name, path=_PATH)
        if path is not None:
            paths.append(path)
    return paths


@cache
def programs() -> list[str]:
    """Return every program that a compile of a unit executes beside the toolkit's own.

    These are the C++ compilers with the programs that they start, and the shell that runs nvcc's
    commands.
    """
    paths = [*find_compilers().values(), *find_programs("sh", *_BESIDE_NVCC)]
    for compiler in find_compilers().values():
        # A compiler cache starts the next compiler of its own name.
        paths += [f"{folder}/{Path(compiler).name}" for folder in _PATH.split(":")]
        for name in _PARTS:
            paths += _find_part(compiler, name)
    return list(dict.fromkeys(paths))


def _find_part(compiler: str, name: str) -> list[str]:
    """Return the path of a program that the compiler starts, if it is here."""
    try:
        result = subprocess.run(
            [compiler, f"-print-prog-name={name}"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    path = result.stdout.strip()
    if Path(path).is_absolute():
        return [path]
    # The compiler looks for it on the PATH.
    return find_programs(name)


@cache
def find_compilers() -> Mapping[str, str]:
    """Return the path of every C++ compiler of this machine, by its identity."""
    names = [DEFAULT, "clang++"]
    for kind in (DEFAULT, "clang++"):
        names += [f"{kind}-{number}" for number in range(_NEWEST)]
    compilers: dict[str, str] = {}
    for name in names:
        path = shutil.which(name, path=_PATH)
        if path is None:
            continue
        compiler = identity(name)
        if compiler is not None:
            compilers.setdefault(compiler, path)
    return compilers
