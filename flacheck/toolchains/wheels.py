"""Installation of distributions into a folder with the user's own installer, uv or pip.

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
from flacheck.toolchains import connections, index_sources
from flacheck.toolchains.cache import size_mb
from flacheck.toolchains.downloads import Download, in_megabytes, required_bytes
from flacheck.toolchains.filling import no_permission, no_space
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# Seconds between two lines of progress: shorter than a user's patience, longer than most installs.
HEARTBEAT = 8.0
# Seconds between two looks at the bytes that an installer received.
_POLL = 1.0
# A prctl option, from linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
# Messages of uv and pip, in any version from 2023 on; neither has an exit status for these errors.
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
    r"ha(s|ve) no (usable )?wheels|were found in the package registry"
)
# From uv's report of a trial: "Would download 2 packages", " + triton==3.7.1".
_DOWNLOADS = re.compile(r"^Would download ", re.MULTILINE)
_PLANNED = re.compile(r"^ \+ (\S+==\S+)", re.MULTILINE)
# From pip's report of a conflict: "toy 1.0 depends on torch<2.8 and >=2.1".
_DEPENDS = re.compile(r"depends on ([\w.-]+?)((?:(?: and |,)?[<>=!~]=?=?\s*[\w.*+!-]+)+)")
# Settings that contradict an install into a folder of its own, or constrain the user's environment:
# a cap on torch there must not keep flacheck from using a newer torch.
_CONTRARY = """
PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
PYTHONPATH PYTHONHOME UV_CONSTRAINT UV_OVERRIDE
""".split()
_INSTEAD = {
    "NO_COLOR": "1",
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    # pip ignores an empty variable and would use its configuration file.
    "PIP_CONSTRAINT": os.devnull,
}


# The first words of an error line of uv or pip.
_ERROR_LINE = re.compile(r"(?i)error\b|cause:|╰─▶|×|because\b")


class NotFound(ToolchainError):
    """A requirement that none of the installer's indexes has."""


class Offline(ToolchainError):
    """An index that the installer could not reach."""

    @property
    def reason(self) -> str:
        """The reason, the same for each distribution: many lines of a report would repeat it."""
        if connections.is_offline():
            return "not in the cache, and --offline forbids an installation; leave --offline out"
        return "not in the cache, and no package index answers; check the network"


class BoundsConflict(ToolchainError):
    """Requirements that contradict the constraints.

    `bounds` are the contradicting ones that the installer lists, by distribution.
    """

    def __init__(self, message: str, bounds: Mapping[str, SpecifierSet]) -> None:
        super().__init__(message)
        self.bounds = bounds


@dataclass(frozen=True)
class Installer:
    """A program that fills a folder: its name and the start of its command lines."""

    name: str
    install: tuple[str, ...]
    pip: tuple[str, ...]


def installers() -> list[Installer]:
    """Return the installers of this machine, the faster first.

    The second is used if the first finds nothing.
    """
    here = []
    # uv in flacheck's own environment may be missing from the PATH.
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
    """Return the installers; raise ToolchainError if there are none."""
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
    constraints: Path | None = None,
    alone: bool = False,
) -> dict[str, Any]:
    """Install requirements from wheels into a folder and return a report for its manifest.

    Dependencies are installed too, unless `alone`. `what` is the subject in messages. `constraints`
    hold for all requirements, whatever versions are required; with pip only within these. Raises
    NotFound, Offline, BoundsConflict or another ToolchainError.
    """
    start = time.monotonic()
    # An installer would build sources with the user's rights.
    flags = ["--only-binary", ":all:"]
    if alone:
        flags.append("--no-deps")
    environment = {}
    if constraints:
        flags += ["--constraint", str(constraints)]
        environment["PIP_CONSTRAINT"] = str(constraints)
    errors: list[ToolchainError] = []
    usable = require_installers()
    pip = usable[-1].pip
    # pip can leave out the index that does not answer; uv reads its own cache without any, and pip
    # then reads folders alone.
    if connections.has_dead_index() and not connections.has_no_index():
        usable = usable[-1:]
    elif connections.has_no_index() and not connections.has_local_source(pip):
        usable = usable[:1]
    for installer in usable:
        overrides = []
        # pip lacks such an option: with pip an upper bound must admit the constraint.
        if constraints and installer.name == "uv":
            overrides = ["--override", str(constraints)]
        command = [*installer.install, *flags, *overrides]
        if connections.has_no_index() and installer.name == "uv":
            command.append("--offline")
        variables = {**connections.limits(pip), **environment}
        command += requirements
        size = _announce(installer, command, requirements, folder, what, variables)
        code, output = _fill(installer, folder, command, what, variables, size)
        if code == 0:
            (folder / ".lock").unlink(missing_ok=True)  # uv leaves one
            seconds = round(time.monotonic() - start, 1)
            megabytes = size_mb(folder)
            _LOG.info(f"installing {what} … {seconds} s, {megabytes} MB")
            return {
                "installer": installer.name,
                "seconds": seconds,
                "size_mb": megabytes,
                "contains": contents(folder),
            }
        error = diagnose(output, f"install {what}", folder, installer.name)
        if isinstance(error, Offline):
            connections.try_all(pip)
        if isinstance(error, NotFound) and connections.has_no_index():
            error = _without_index(f"install {what}")
        errors.append(error)
        if not isinstance(error, (NotFound, Offline)):
            break
    # The first installer's error if nothing was found, unless another had a worse one.
    if isinstance(errors[-1], NotFound):
        raise errors[0]
    raise errors[-1]


def _announce(
    installer: Installer,
    command: Sequence[str],
    requirements: Sequence[str],
    folder: Path,
    what: str,
    variables: Mapping[str, str],
) -> int:
    """Log what an installer is about to fetch, with its size; return the bytes, 0 if unknown."""
    is_local = all(each.endswith(".whl") for each in requirements)
    if is_local or connections.has_no_index():
        _LOG.info(f"installing {what} …")
        return 0
    pip = require_installers()[-1].pip
    if installer.name == "uv":
        # uv resolves in less than a second; pip would fetch the wheels to do so.
        trial = [*command, "--dry-run", "--target", str(folder)]
        code, output = run(trial, what, variables)
        if code == 0 and not _DOWNLOADS.search(output):
            # uv's cache has them all.
            _LOG.info(f"installing {what} …")
            return 0
        requirements = _PLANNED.findall(output) or requirements
    size = required_bytes(requirements, pip)
    _LOG.info(f"fetching {what}{in_megabytes(size)} …")
    return size


def _without_index(doing: str) -> Offline:
    """Return the error of a distribution that no readable place holds."""
    why = "no package index answers"
    if connections.is_offline():
        why = "--offline"
    return Offline(f"cannot {doing}: it is not in the cache, and {why}")


def _fill(
    installer: Installer,
    folder: Path,
    command: Sequence[str],
    what: str,
    environment: Mapping[str, str],
    size: int,
) -> tuple[int, str]:
    """Run an installer's command for a folder; return the exit code and the output."""
    has_files = folder.is_dir() and any(folder.iterdir())
    if installer.name != "pip" or not has_files:
        return run([*command, "--target", str(folder)], what, environment, size)
    # pip skips a directory that exists in its target: of two distributions with one top-level
    # package (flash-linear-attention and fla-core) the second would lose its modules.
    with temporary_folder() as aside:
        filled = Path(aside) / "filled"
        code, output = run([*command, "--target", str(filled)], what, environment, size)
        if code == 0:
            add_distributions(filled, folder)
    return code, output


def add_distributions(source: Path, folder: Path) -> None:
    """Move the distributions of one folder that another one lacks; files that exist there stay."""
    present = contents(folder)
    for distribution in importlib.metadata.distributions(path=[str(source)]):
        if canonicalize_name(distribution.name) in present:
            continue
        for file in distribution.files or ():
            # Scripts are recorded outside of the folder.
            if ".." in file.parts or file.is_absolute():
                continue
            origin, target = source / file, folder / file
            if origin.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(origin, target)


def contents(folder: Path) -> dict[str, str]:
    """Return the distributions in a folder → their versions."""
    distributions = importlib.metadata.distributions(path=[str(folder)])
    return {canonicalize_name(each.name): each.version for each in distributions}


def run(
    command: Sequence[str],
    what: str,
    environment: Mapping[str, str] | None = None,
    size: int = 0,
) -> tuple[int, str]:
    """Return exit status and joined output of an installer's command; log every eight seconds.

    It runs in the user's environment with its index settings, without those for other installs, and
    with `environment` added; the settings and modules in the current folder are left out. Paths in
    the command are absolute. `size` are the bytes that it fetches, 0 if that is unknown.
    """
    start = time.monotonic()
    user_environment = {name: value for name, value in os.environ.items() if name not in _CONTRARY}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=index_sources.NEUTRAL_FOLDER,
        env=index_sources.with_absolute_paths(
            {**user_environment, **_INSTEAD, **(environment or {})}
        ),
        preexec_fn=_die_with_parent,
    ) as process:
        pip = require_installers()[-1].pip
        download = Download(process.pid, size)
        last_line = start
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=min(_POLL, HEARTBEAT))
                    return process.returncode, output.decode(errors="replace")
                except subprocess.TimeoutExpired:
                    download.poll()
                now = time.monotonic()
                if now - last_line < HEARTBEAT:
                    continue
                last_line = now
                _LOG.info(f"installing {what} … {now - start:.0f} s{download.line()}")
                # An installer tries a dead host for minutes.
                connections.try_all(pip)
                if connections.has_no_index() and not connections.is_offline():
                    process.kill()
                    return 1, "error: Connection timed out"
        except BaseException:
            process.kill()
            raise


def _die_with_parent() -> None:
    """Make the installer end with flacheck; it runs in the installer before it starts."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def diagnose(output: str, doing: str, folder: Path, installer: str) -> ToolchainError:
    """Return the error in an installer's output as one message with a remedy.

    `doing` is the failed step: "install X".
    """
    if _NO_SPACE.search(output):
        return ToolchainError(f"cannot {doing}: {no_space(folder.parent)}")
    if _NO_PERMISSION.search(output):
        return ToolchainError(f"cannot {doing}: {no_permission(folder.parent)}")
    if _NO_NETWORK.search(output):
        return Offline(
            f"cannot {doing}: the package index could not be reached; check the network and the"
            f" index settings of {installer}, or use what is there (`flacheck toolchain list`)"
        )
    reason = decisive(output)
    bounds = _read_bounds(output)
    if bounds:
        return BoundsConflict(f"cannot {doing}: {installer} failed: {reason}", bounds)
    if _NOT_FOUND.search(output):
        return NotFound(
            f"cannot {doing}: {installer} finds no such release for this Python and system"
            f" ({reason})"
        )
    return ToolchainError(f"cannot {doing}: {installer} failed: {reason}")


def _read_bounds(output: str) -> dict[str, SpecifierSet]:
    """Return the bounds that pip lists where requirements conflict."""
    bounds: dict[str, SpecifierSet] = {}
    if "conflicting dependencies" not in output:
        return bounds
    for name, bound in _DEPENDS.findall(output):
        with contextlib.suppress(InvalidSpecifier):
            specifier = SpecifierSet(bound.replace(" and ", ","))
            bounds[canonicalize_name(name)] = bounds.get(name, SpecifierSet()) & specifier
    return bounds


def decisive(output: str, limit: int = 300) -> str:
    """Return the installer's first line of error in one line of at most `limit` characters."""
    lines = list(filter(None, map(str.strip, output.splitlines())))
    errors = list(filter(_ERROR_LINE.match, lines))
    text = " ".join(errors[:3] or lines[-1:] or ["it printed nothing"])
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text


def download_sources(requirement: str, into: Path, aside: Path, what: str) -> None:
    """Fetch the source distribution of a requirement into a folder.

    It comes without its dependencies and without a build; the folder `aside` holds the
    `sitecustomize` that replaces its build backend. Only pip can do so, which uv runs if it is
    missing. Raises NotFound, Offline or another ToolchainError.
    """
    pip = require_installers()[-1]
    flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
    command = [*pip.pip, "download", *flags, "--dest", str(into), requirement]
    _LOG.info(f"fetching {what} …")
    code, output = run(command, what, {**connections.limits(pip.pip), "PYTHONPATH": str(aside)})
    if code != 0 and connections.has_no_index():
        raise _without_index(f"fetch {what}")
    if code != 0:
        raise diagnose(output, f"fetch {what}", into, pip.name)
