"""Puts distributions into a folder with the user's own installer: uv when it is there, else pip.

The installer's environment and configuration are the user's, so their index settings hold.
"""

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from flacheck.errors import ToolchainError
from flacheck.toolchains.cache import size_mb
from flacheck.toolchains.filling import no_permission, no_space

_LOG = logging.getLogger(__name__)

# Seconds between two lines of progress: shorter than a user's patience, longer than most installs.
_HEARTBEAT = 10.0
# A prctl option, from linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
# What uv and pip print, in any version from 2023 on; neither has an exit status for it.
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Errno 28|os error 28")
_NO_PERMISSION = re.compile(
    r"Permission denied|Read-only file system|Errno (13|30)\b|os error (13|30)\b"
)
_NO_NETWORK = re.compile(
    r"Retrying \(|error sending request|dns error|[Cc]onnection (refused|reset|timed out)"
    r"|Connection broken|Network is unreachable|[Nn]ame resolution|Max retries exceeded|ProxyError"
    r"|ConnectTimeout|ReadTimeout|SSLError|[Tt]imed out|network was disabled"
    r"|Network connectivity is disabled"
)
_NOT_FOUND = re.compile(
    r"No matching distribution|no version of|was not found in the package registry|no versions of|"
    r"has no (usable )?wheels|were found in the package registry"
)
# Of pip's account of a conflict: "toy 1.0 depends on torch<2.8 and >=2.1".
_DEPENDS = re.compile(r"depends on ([\w.-]+?)((?:(?: and |,)?[<>=!~]=?=?\s*[\w.*+!-]+)+)")
# Settings that contradict an install into a folder of its own, or constrain what belongs to the
# user's environment: a cap on torch there must not keep flacheck from looking at a newer torch.
_CONTRARY = """
PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
PYTHONPATH PYTHONHOME UV_CONSTRAINT UV_OVERRIDE
""".split()
_INSTEAD = {
    "NO_COLOR": "1",
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    # pip takes no notice of an empty variable, and would go by its configuration file.
    "PIP_CONSTRAINT": os.devnull,
}


class NotFound(ToolchainError):
    """No index that the installer knows has what was asked for."""


class Offline(ToolchainError):
    """The installer could not reach its index."""


class BoundsConflict(ToolchainError):
    """Requirements contradict what is constrained: `bounds` are those that the installer names, by
    the distribution that they are on."""

    def __init__(self, message: str, bounds: Mapping[str, SpecifierSet]) -> None:
        super().__init__(message)
        self.bounds = bounds


@dataclass(frozen=True)
class Installer:
    """A program that fills a folder: its name and how its command lines start."""

    name: str
    install: tuple[str, ...]
    pip: tuple[str, ...]


def installers() -> list[Installer]:
    """What this machine has, the faster first; the second is asked when the first finds nothing."""
    here = []
    # Installed into the environment that runs flacheck, uv need not be on the PATH.
    beside = os.path.dirname(sys.executable)
    uv = shutil.which("uv") or shutil.which("uv", path=beside)
    if uv:
        python = ("--python", sys.executable)
        run_pip = (uv, "tool", "run", "--quiet", *python, "pip")
        here.append(Installer("uv", (uv, "pip", "install", *python), run_pip))
    if importlib.util.find_spec("pip"):
        pip = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check")
        flags = ("--no-compile", "--no-warn-script-location")
        here.append(Installer("pip", (*pip, "install", *flags), pip))
    return here


def require_installers() -> list[Installer]:
    """The same; a ToolchainError where there is none."""
    here = installers()
    if not here:
        raise ToolchainError(
            f"neither uv nor pip is there to install a compiler; install uv, or run "
            f"`{sys.executable} -m ensurepip`, or name a toolchain by its path"
        )
    return here


def install(
    requirements: Sequence[str],
    folder: Path,
    *,
    what: str,
    binary_only: Sequence[str] = (),
    constraints: Path | None = None,
    alone: bool = False,
) -> dict[str, Any]:
    """Install requirements with their dependencies into a folder, or `alone`; what was done, for
    its manifest.

    `what` names the thing in messages. `constraints` hold for all that is required, by builds too,
    whatever versions are asked for; of pip only within these. Raises NotFound, Offline,
    BoundsConflict or another ToolchainError.
    """
    started = time.monotonic()
    _LOG.info(f"installing {what} …")
    flags = ["--target", str(folder)]
    for name in binary_only:
        flags += ["--only-binary", name]
    if alone:
        flags.append("--no-deps")
    environment = {}
    if constraints:
        flags += ["--constraint", str(constraints)]
        # Of old pips the first holds for builds, too; newer ones have the second for these.
        environment = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(constraints))
    errors: list[ToolchainError] = []
    for installer in require_installers():
        replaced = []
        # pip knows nothing like it: under pip an upper bound has to admit what is constrained.
        if constraints and installer.name == "uv":
            replaced = ["--override", str(constraints), "--build-constraint", str(constraints)]
        command = [*installer.install, *flags, *replaced, *requirements]
        code, output = run(command, what, environment)
        if code == 0:
            (folder / ".lock").unlink(missing_ok=True)  # uv leaves one
            seconds = round(time.monotonic() - started, 1)
            size = size_mb(folder)
            _LOG.info(f"installing {what} … {seconds} s, {size} MB")
            return {
                "installer": installer.name,
                "seconds": seconds,
                "size_mb": size,
                "contains": contents(folder),
            }
        errors.append(diagnose(output, f"install {what}", folder, installer.name))
        if not isinstance(errors[-1], (NotFound, Offline)):
            break
    # The first installer's word on what is not there, unless another met worse trouble.
    if isinstance(errors[-1], NotFound):
        raise errors[0]
    raise errors[-1]


def contents(folder: Path) -> dict[str, str]:
    """The distributions in a folder → their versions."""
    distributions = importlib.metadata.distributions(path=[str(folder)])
    return {canonicalize_name(each.name): each.version for each in distributions}


def run(
    command: Sequence[str], what: str, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit status and joined output of an installer's command, with a line every ten seconds.

    It has the user's environment with its index settings, less what is meant for other installs,
    and `environment` beside it.
    """
    started = time.monotonic()
    kept = {name: value for name, value in os.environ.items() if name not in _CONTRARY}
    out, joined = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=joined,
        env={**kept, **_INSTEAD, **(environment or {})},
        preexec_fn=_die_with_parent,
    ) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=_HEARTBEAT)
                    return process.returncode, output.decode(errors="replace")
                except subprocess.TimeoutExpired:
                    _LOG.info(f"installing {what} … {time.monotonic() - started:.0f} s")
        except BaseException:
            process.kill()
            raise


def _die_with_parent() -> None:
    """In the installer before it starts: it ends when flacheck does, however that is."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def diagnose(output: str, doing: str, folder: Path, installer: str) -> ToolchainError:
    """The error an installer's output speaks of, in one message that says what to do; `doing`:
    "install X"."""
    if _NO_SPACE.search(output):
        return ToolchainError(f"cannot {doing}: {no_space(folder.parent)}")
    if _NO_PERMISSION.search(output):
        return ToolchainError(f"cannot {doing}: {no_permission(folder.parent)}")
    if _NO_NETWORK.search(output):
        return Offline(
            f"cannot {doing}: the package index could not be reached; check the network and the"
            f" index settings of {installer}, or use what is there (`flacheck toolchain list`)"
        )
    said = decisive(output)
    bounds = _bounds(output)
    if bounds:
        return BoundsConflict(f"cannot {doing}: {installer} failed: {said}", bounds)
    if _NOT_FOUND.search(output):
        return NotFound(
            f"cannot {doing}: {installer} finds no such release for this Python and system ({said})"
        )
    return ToolchainError(f"cannot {doing}: {installer} failed: {said}")


def _bounds(output: str) -> dict[str, SpecifierSet]:
    """The bounds that pip names where requirements conflict."""
    bounds: dict[str, SpecifierSet] = {}
    if "conflicting dependencies" not in output:
        return bounds
    for name, bound in _DEPENDS.findall(output):
        with contextlib.suppress(InvalidSpecifier):
            said = SpecifierSet(bound.replace(" and ", ","))
            bounds[canonicalize_name(name)] = bounds.get(name, SpecifierSet()) & said
    return bounds


def decisive(output: str, limit: int = 300) -> str:
    """The installer's first line of error in one line, at most `limit` characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?i)error\b|cause:|╰─▶|×|because\b", line)]
    text = " ".join(errors[:3] or lines[-1:] or ["it said nothing"])
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text


def download_sources(requirement: str, into: Path, aside: Path, what: str) -> None:
    """Fetch the source distribution of a requirement into a folder, without its dependencies and
    without a build; the folder `aside` holds the `sitecustomize` that answers for its backend.

    Only pip can do so, which uv brings where there is none. Raises NotFound, Offline or another
    ToolchainError.
    """
    pip = require_installers()[-1]
    flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
    command = [*pip.pip, "download", *flags, "--dest", str(into), requirement]
    code, output = run(command, what, {"PYTHONPATH": str(aside)})
    if code != 0:
        raise diagnose(output, f"fetch {what}", into, pip.name)
