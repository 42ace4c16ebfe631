"""Builds of packages from their sources: their code runs in the sandbox, without a network."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from flacheck import files
from flacheck.engine import policies, programs
from flacheck.errors import ToolchainError
from flacheck.files import GuestFileError, GuestFolder
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Json
from flacheck.source.packages import checkouts, installing, package
from flacheck.source.packages.package import Package
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)
# Of the clock and of memory, for a build with C++ sources.
_SECONDS = 1800.0
_MEMORY_MB = 8192
# Bytes of a wheel: those with CUDA binaries have some hundred megabytes.
_MOST_WHEEL, _MOST_ANSWER = 1 << 30, 1 << 20
# The end of a failed build's log, in a message.
_LONGEST = 300


def provide_package(spec: str) -> Package:
    """Return a package as `package.provide_package` does; what has to be built is built here."""
    return package.provide_package(spec, build_wheel)


def build_wheel(root: Path, into: Path) -> Path:
    """Build the wheel of the sources in a folder; return its file in `into`.

    The build requirements are fetched first, as wheels. The build itself runs without a network, in
    a clean environment, and writes its folder and a scratch folder.

    Raises Offline if a requirement cannot be fetched, ToolchainError if the build fails.
    """
    _LOG.info(f"building {root.name} in the sandbox, without a network …")
    system = checkouts.build_system(root)
    with temporary_folder() as requirements:
        config: Json = {
            "root": str(root),
            "requirements": requirements,
            "backend": system.backend,
            "backend_path": list(system.backend_path),
            "wheel": None,
        }
        _install(system.requires, root, Path(requirements))
        with temporary_folder() as scratch:
            more = _call(config, Path(scratch))
        if not isinstance(more, list):
            raise _failure(root, "its backend lists no requirements")
        _install(list(map(str, more)), root, Path(requirements))
        with temporary_folder() as scratch:
            name = str(_call({**config, "wheel": f"{scratch}/wheel"}, Path(scratch)))
            content = _read_wheel(root, GuestFolder(Path(scratch)))
    if content is None or not _is_wheel_name(name):
        raise _failure(root, "its backend made no wheel")
    wheel = into / name
    files.write_whole(wheel, content)
    return wheel


def _read_wheel(root: Path, folder: GuestFolder) -> bytes | None:
    try:
        return folder.read("wheel", _MOST_WHEEL)
    except GuestFileError as error:
        raise _failure(root, str(error)) from None


def _install(requirements: Sequence[str], root: Path, into: Path) -> None:
    """Install a build's requirements from wheels; torch and Triton are left out."""
    to_install = list(installing.installable(requirements))
    if to_install:
        installing.install(to_install, f"the build requirements of {root.name}", into)


def _call(config: Json, scratch: Path) -> Any:
    """Call a hook of the build's backend in the sandbox; return its answer.

    Raises ToolchainError if it fails.
    """
    root = Path(config["root"])
    requirements = config["requirements"]
    variables = {
        "PATH": f"{requirements}/bin:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": requirements,
        # git would end where it cannot read the machine's settings.
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    arguments = programs.guest_arguments(
        ".engine.wheel_build", {**config, "answer": f"{scratch}/answer"}, scratch
    )
    end = programs.run(
        # Only the build's requirements can be imported, not what is installed beside flacheck.
        ["-I", "-S", *arguments],
        programs.environment(scratch, variables),
        scratch,
        scratch / "log",
        seconds=_SECONDS,
        memory_mb=_MEMORY_MB,
        policy=_policy(root, requirements, str(scratch)),
    )
    folder = GuestFolder(scratch)
    try:
        answer = folder.read_json("answer", _MOST_ANSWER)
    except GuestFileError as error:
        raise _failure(root, str(error)) from None
    if end.exit_code != 0 or answer is None:
        lines = folder.read_end("log", files.MOST_LOG).strip().splitlines() or [""]
        raise _failure(root, f"{end.how}: {lines[-1][:_LONGEST]}")
    return answer.get("answer")


def _policy(root: Path, requirements: str, scratch: str) -> Policy:
    """Return the policy of a build: that of a package, with the sources to write and execute."""
    policy = policies.of_package([requirements], scratch)
    own = [str(root), scratch]
    return {
        **policy,
        "execute": [*policy["execute"], *own],
        "write": [*own, os.devnull],
    }


def _failure(root: Path, reason: str) -> ToolchainError:
    return ToolchainError(f"the build of {root.name} failed ({reason})")


def _is_wheel_name(name: str) -> bool:
    try:
        parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return os.path.basename(name) == name
