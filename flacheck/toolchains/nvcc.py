"""The nvcc family: CUDA toolkits.

They come from the package index, side by side, from the machine itself (`CUDA_HOME`), or from any
folder.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError, did_you_mean
from flacheck.tables import targets
from flacheck.toolchains import cache, filling, host_compilers, identity, wheels
from flacheck.toolchains import nvcc_releases as releases
from flacheck.toolchains.base import Choice, Resolution, Toolchain
from flacheck.toolchains.nvcc_releases import NAME

STAGES = ("syntax", "ptx", "cubin", "object")
# The place of the files in the wheels of the 13.x toolkits.
_IN_WHEELS = Path("nvidia") / "cu13"
_SECONDS = 60
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)\b")
_ARCHITECTURE = re.compile(r"\bsm_(\d+)\b")
# C++17 is the default of nvcc 13; it is explicit so that no toolkit's default decides.
_STANDARD = "c++17"
_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")


class Nvcc:
    """CUDA's compiler for C++, from 13.0 on."""

    name = NAME
    language = "cuda"
    stages = STAGES

    def target(self, name: str) -> str:
        return targets.cell_target_name(name)

    def options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options with defaults for the standard and the host compiler.

        The host compiler is identified by its exact version.
        """
        for option in options:
            if option not in ("std", "host"):
                hint = did_you_mean(option, ("std", "host"))
                raise UsageError(
                    f"unknown option {option!r} of {NAME}; the options are std and host{hint}"
                )
        standard = str(options.get("std", _STANDARD))
        if standard not in _STANDARDS:
            raise UsageError(f"std {standard!r}: allowed are {', '.join(_STANDARDS)}")
        host = str(options.get("host", host_compilers.DEFAULT))
        return {"std": standard, "host": host_compilers.identity(host) or host}

    def versions(self) -> Resolution:
        versions, warnings = releases.here()
        newest = releases.newest_of_minors(versions)
        return Resolution(tuple(map(releases.release, newest)), warnings)

    def resolve(self, spec: str) -> Resolution:
        return releases.resolve(spec)

    def find_installed(self) -> Choice:
        """Return the toolkit of CUDA_HOME, else of nvcc on the PATH, else in /usr/local/cuda."""
        for root in _find_system_roots():
            if self.holds(str(root)):
                return _inspect(root, "installed")
        raise ToolchainError(
            "no CUDA toolkit is installed here: set CUDA_HOME, or ask for a release"
            " (--toolchain nvcc==13.0.*), which flacheck keeps in its own cache"
        )

    def holds(self, path: str) -> bool:
        root = Path(path).expanduser()
        return all((root / part).is_file() for part in ("bin/nvcc", "nvvm/bin/cicc"))

    def at(self, path: str) -> Choice:
        return _inspect(Path(path).expanduser().absolute(), "path")

    def provide(self, choice: Choice) -> Toolchain:
        if choice.location:
            return _make_toolchain(choice, Path(choice.location))
        shelf = filling.fill(_folder(choice), lambda into: _download(choice, into))
        changed_file = identity.find_damaged_file(shelf.path)
        if changed_file:
            raise identity.damaged(choice.identity, f"{shelf.path} ({changed_file})")
        return _make_toolchain(choice, shelf.path / _IN_WHEELS)


def _folder(choice: Choice) -> Path:
    name = choice.identity.replace("==", "-")
    return cache.root() / "toolchains" / f"{name}-{platform.machine()}"


def _find_system_roots() -> list[Path]:
    folders = map(os.environ.get, ("CUDA_HOME", "CUDA_PATH"))
    roots = [Path(folder) for folder in folders if folder]
    program = shutil.which(NAME)
    if program:
        # It may be a script that starts another; a trial run shows the place of the toolkit.
        trial = [program, "--dryrun", "-c", "-x", "cu", os.devnull]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            result = subprocess.run(trial, capture_output=True, text=True, timeout=_SECONDS)
            top = _TOP.search(result.stderr)
            if top is not None:
                roots.append(Path(top[1]).resolve())
    return [*roots, Path("/usr/local/cuda")]


def _inspect(root: Path, origin: str) -> Choice:
    """Return the toolkit in a folder, with the version and targets that its nvcc reports."""
    output = _run(root, "--version")
    version = _VERSION.search(output)
    if version is None:
        raise UsageError(f"{root}/bin/nvcc --version prints no version: {output.strip()[:200]}")
    listing = _run(root, "--list-gpu-code")
    architectures = list(map(int, _ARCHITECTURE.findall(listing)))
    name = identity.local(NAME, version[1], identity.toolkit(root))
    unsupported = releases.refusals(f"{NAME} {version[1]}", architectures)
    return Choice(NAME, version[1], name, origin, str(root), unsupported=unsupported)


def _run(root: Path, flag: str) -> str:
    program = str(root / "bin" / NAME)
    try:
        result = subprocess.run([program, flag], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{root}/bin/nvcc cannot be run: {error}") from None
    if result.returncode:
        raise UsageError(f"{root}/bin/nvcc {flag} failed: {result.stderr.strip()[:200]}")
    return result.stdout


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    requirements = releases.requirements(Version(choice.version))
    what = f"{NAME} {choice.version}"
    report = wheels.install(requirements, into, what=what)
    if not (into / _IN_WHEELS / "bin" / NAME).is_file():
        raise ToolchainError(f"{what} from the index contains no {_IN_WHEELS}/bin/{NAME}")
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    return {**about, **report}


def _find_interpreter(program: Path) -> list[str]:
    """Return the interpreter of a script, from its first line.

    Some installations have a script in the place of nvcc.
    """
    with program.open("rb") as file:
        first = file.readline(1000).decode(errors="replace")
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words:
        return []
    # `#!/usr/bin/env bash` contains two programs.
    return [words[0], *host_compilers.find_programs(*words[1:])]


def _make_toolchain(choice: Choice, root: Path) -> Toolchain:
    hosts = host_compilers.find_compilers()
    missing = {}
    if not hosts:
        lacking = "nvcc preprocesses with a C++ compiler, and none is here: install g++"
        for name, row in targets.TARGETS.items():
            if row.backend == "cuda":
                missing.update({name: lacking, f"{name}a": lacking, f"{name}f": lacking})
    return Toolchain(
        name=NAME,
        version=choice.version,
        identity=choice.identity,
        origin=choice.origin,
        paths=(str(root),),
        worker="nvcc_worker",
        stages=STAGES,
        unsupported=choice.unsupported,
        missing=missing,
        config={
            "toolkit": str(root),
            "hosts": dict(hosts),
            "programs": [*host_compilers.programs(), *_find_interpreter(root / "bin" / NAME)],
        },
        fills_memory=True,
    )
