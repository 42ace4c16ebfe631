"""The nvcc family: CUDA toolkits from the package index, side by side, the machine's own
(`CUDA_HOME`), and one in any folder."""

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
# Where the wheels of the 13.x toolkits put their files.
_IN_WHEELS = Path("nvidia") / "cu13"
_SECONDS = 60
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)\b")
_ARCHITECTURE = re.compile(r"\bsm_(\d+)\b")
# C++17 is what nvcc 13 compiles by default; named, so that no toolkit's default decides.
_STANDARD = "c++17"
_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")


class Nvcc:
    """CUDA's compiler for C++, from 13.0 on."""

    name = NAME
    language = "cuda"
    stages = STAGES

    def target(self, name: str) -> str:
        return targets.cell_target_name(name)

    def options(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The standard and the host compiler, by its exact version, where they are not given."""
        for option in given:
            if option not in ("std", "host"):
                hint = did_you_mean(option, ("std", "host"))
                raise UsageError(f"option {option!r} is none of {NAME}'s: std and host are{hint}")
        standard = str(given.get("std", _STANDARD))
        if standard not in _STANDARDS:
            raise UsageError(f"std {standard!r}: allowed are {', '.join(_STANDARDS)}")
        asked = str(given.get("host", host_compilers.DEFAULT))
        return {"std": standard, "host": host_compilers.identity(asked) or asked}

    def versions(self) -> Resolution:
        versions, warnings = releases.here()
        newest = releases.newest_of_minors(versions)
        return Resolution(tuple(map(releases.release, newest)), warnings)

    def resolve(self, spec: str) -> Resolution:
        return releases.resolve_spec(spec, releases.matching, releases.exact)

    def find_installed(self) -> Choice:
        """The machine's own: CUDA_HOME, else the nvcc on the PATH, else /usr/local/cuda."""
        for root in _system_roots():
            if self.holds(str(root)):
                return _found(root, "installed")
        raise ToolchainError(
            "no CUDA toolkit is installed here: set CUDA_HOME, or ask for a release"
            " (--toolchain nvcc==13.0.*), which flacheck keeps in its own cache"
        )

    def holds(self, path: str) -> bool:
        root = Path(path).expanduser()
        return all((root / part).is_file() for part in ("bin/nvcc", "nvvm/bin/cicc"))

    def at(self, path: str) -> Choice:
        return _found(Path(path).expanduser().absolute(), "path")

    def provide(self, choice: Choice) -> Toolchain:
        if choice.location:
            return _toolchain(choice, Path(choice.location))
        shelf = filling.fill(_folder(choice), lambda into: _download(choice, into))
        damaged = identity.find_damaged_file(shelf.path)
        if damaged:
            raise ToolchainError(
                f"the files of {choice.identity} in {shelf.path} were changed after its"
                f" installation ({damaged}); run `flacheck toolchain remove {choice.identity}`, and"
                " the next scan installs it anew"
            )
        return _toolchain(choice, shelf.path / _IN_WHEELS)


def _folder(choice: Choice) -> Path:
    name = choice.identity.replace("==", "-")
    return cache.root() / "toolchains" / f"{name}-{platform.machine()}"


def _system_roots() -> list[Path]:
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    program = shutil.which(NAME)
    if program:
        # It may be a script that starts another: a trial run says where the toolkit itself lies.
        trial = [program, "--dryrun", "-c", "-x", "cu", os.devnull]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(trial, capture_output=True, text=True, timeout=_SECONDS)
            roots += [Path(top).resolve() for top in _TOP.findall(told.stderr)[:1]]
    return [*roots, Path("/usr/local/cuda")]


def _found(root: Path, origin: str) -> Choice:
    """A toolkit in a folder: its version and targets as its own nvcc tells them."""
    said = _ask(root, "--version")
    version = _VERSION.search(said)
    if version is None:
        raise UsageError(f"{root}/bin/nvcc --version says no version: {said.strip()[:200]}")
    known = [int(number) for number in _ARCHITECTURE.findall(_ask(root, "--list-gpu-code"))]
    name = identity.local(NAME, version[1], identity.toolkit(root))
    refused = releases.refusals(f"{NAME} {version[1]}", known)
    return Choice(NAME, version[1], name, origin, str(root), unsupported=refused)


def _ask(root: Path, question: str) -> str:
    try:
        told = subprocess.run(
            [str(root / "bin" / NAME), question], capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{root}/bin/nvcc cannot be run: {error}") from None
    if told.returncode:
        raise UsageError(f"{root}/bin/nvcc {question} failed: {told.stderr.strip()[:200]}")
    return told.stdout


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    wanted = releases.requirements(Version(choice.version))
    what = f"{NAME} {choice.version}"
    done = wheels.install(wanted, into, what=what, binary_only=(":all:",))
    if not (into / _IN_WHEELS / "bin" / NAME).is_file():
        raise ToolchainError(f"{what} as the index has it holds no {_IN_WHEELS}/bin/{NAME}")
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    return {**about, **done}


def _interpreter(program: Path) -> list[str]:
    """The program that runs a script, as the first line names it: some installations have a script
    in the place of nvcc."""
    with program.open("rb") as file:
        first = file.readline(1000).decode(errors="replace")
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words:
        return []
    # `#!/usr/bin/env bash` names two.
    return [words[0], *host_compilers.find_programs(*words[1:])]


def _toolchain(choice: Choice, root: Path) -> Toolchain:
    hosts = host_compilers.find_compilers()
    missing = {}
    if not hosts:
        lacking = "nvcc preprocesses with a C++ compiler, and none is here: install g++"
        names = [name for name, row in targets.TARGETS.items() if row.backend == "cuda"]
        missing = {name + suffix: lacking for name in names for suffix in ("", "a", "f")}
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
            "programs": [*host_compilers.programs(), *_interpreter(root / "bin" / NAME)],
        },
        fills_memory=True,
    )
