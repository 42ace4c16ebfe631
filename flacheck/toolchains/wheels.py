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
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from flacheck.errors import ToolchainError
from flacheck.toolchains import connections, index_settings
from flacheck.toolchains.cache import size_mb
from flacheck.toolchains.filling import no_permission, no_space
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# Seconds between two lines of progress: shorter than a user's patience, longer than most installs.
HEARTBEAT = 8.0
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
# "  Downloading triton-3.9.0-cp311-….whl (188.5 MB)" of pip, "Downloading triton (179.8MiB)" of uv.
_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \(([\d.]+) ?([MG])i?B\)")
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
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # pip ignores an empty variable and would use its configuration file.
    "PIP_CONSTRAINT": os.devnull,
    # The name of a file arrives before its download.
    "PYTHONUNBUFFERED": "1",
}


# The first words of an error line of uv or pip.
_ERROR_LINE = re.compile(r"(?i)error\b|cause:|╰─▶|×|because\b")


class NotFound(ToolchainError):
    """A requirement that none of the installer's indexes has."""


class Offline(ToolchainError):
    """An index that the installer could not reach."""

    @property
    def reason(self) -> str:
        """The reason; a report shows it once for all distributions."""
        if connections.is_offline():
            return "not in the cache, and --offline forbids an installation; leave --offline out"
        return "not in the cache, and no package index answers; check the network"


class BoundsConflict(ToolchainError):
    """Requirements that contradict the constraints.

    `bounds` maps each distribution to its contradicting bounds in the installer's message.
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
        pip = (sys.executable, "-m", "pip", "--no-input")
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
    override every requirement; pip applies them only where the requirements allow it. Raises
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
    for installer in usable:
        command = [*installer.install, *flags]
        # pip lacks such an option: with pip an upper bound must admit the constraint.
        if constraints and installer.name == "uv":
            command += ["--override", str(constraints)]
        if connections.has_no_index() and installer.name == "uv":
            command.append("--offline")
        variables = {**index_settings.variables(usable[-1].pip), **environment}
        doing = f"installing {what}"
        _LOG.info(f"{doing} …")
        code, output = _fill(installer, folder, [*command, *requirements], doing, variables)
        if code == 0:
            return _report(installer, folder, what, time.monotonic() - start)
        error = diagnose(output, f"install {what}", folder, installer.name)
        if isinstance(error, NotFound) and connections.has_no_index():
            error = _without_index(f"install {what}")
        errors.append(error)
        if not isinstance(error, (NotFound, Offline)):
            break
    if isinstance(errors[-1], Offline):
        connections.note_unreachable()
    # The first installer's error if nothing was found, unless another had a worse one.
    if isinstance(errors[-1], NotFound):
        raise errors[0]
    raise errors[-1]


def _report(installer: Installer, folder: Path, what: str, seconds: float) -> dict[str, Any]:
    """Log the end of an installation, and return its entries of the manifest."""
    (folder / ".lock").unlink(missing_ok=True)  # uv leaves one
    megabytes = size_mb(folder)
    _LOG.info(f"installing {what} … {seconds:.1f} s, {megabytes} MB")
    return {
        "installer": installer.name,
        "seconds": round(seconds, 1),
        "size_mb": megabytes,
        "contains": contents(folder),
    }


def _without_index(doing: str) -> Offline:
    """Return the error for a distribution that no readable index holds."""
    why = "no package index answers"
    if connections.is_offline():
        why = "--offline"
    return Offline(f"cannot {doing}: it is not in the cache, and {why}")


def _fill(
    installer: Installer,
    folder: Path,
    command: Sequence[str],
    doing: str,
    environment: Mapping[str, str],
) -> tuple[int, str]:
    """Run an installer's command for a folder; return the exit code and the output."""
    has_files = folder.is_dir() and any(folder.iterdir())
    if installer.name != "pip" or not has_files:
        return run([*command, "--target", str(folder)], doing, environment)
    # pip skips a directory that exists in its target: of two distributions with one top-level
    # package (flash-linear-attention and fla-core) the second would lose its modules.
    with temporary_folder() as aside:
        filled = Path(aside) / "filled"
        code, output = run([*command, "--target", str(filled)], doing, environment)
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
    command: Sequence[str], doing: str, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Return exit status and joined output of an installer's command.

    Each large file is logged with its size before it is downloaded, and the time every eight
    seconds. The command runs in the user's environment with its index settings, without those for
    other installs, and with `environment` added; the settings and modules in the current folder are
    left out. Paths in the command are absolute.
    """
    user_environment = {name: value for name, value in os.environ.items() if name not in _CONTRARY}
    lines = []
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=index_settings.NEUTRAL_FOLDER,
            env=index_settings.with_absolute_paths(
                {**user_environment, **_INSTEAD, **(environment or {})}
            ),
            preexec_fn=_die_with_parent,
        ) as process,
        _heartbeat(doing),
    ):
        try:
            for line in process.stdout or ():
                lines.append(line)
                _log_download(line)
            return process.wait(), "".join(lines)
        finally:
            # It has ended, unless an error or an interrupt came first.
            process.kill()


def _log_download(line: str) -> None:
    """Log a file of a megabyte or more that an installer is about to download."""
    match = _DOWNLOADING.match(line)
    if match:
        # A wheel's name has its tags behind the version; uv prints the distribution alone.
        name = " ".join(match[1].rpartition("/")[2].split("-")[:2])
        _LOG.info(f"fetching {name} ({match[2]} {match[3]}B) …")


@contextlib.contextmanager
def _heartbeat(doing: str) -> Iterator[None]:
    """Log the seconds of a step within the block, every eight of them."""
    ended = threading.Event()
    start = time.monotonic()

    def beat() -> None:
        while not ended.wait(HEARTBEAT):
            _LOG.info(f"{doing} … {time.monotonic() - start:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
    `sitecustomize` that replaces its build backend. Only pip can do this; if pip is missing, uv
    runs it. Raises NotFound, Offline or another ToolchainError.
    """
    pip = require_installers()[-1]
    flags = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
    command = [*pip.pip, "download", *flags, "--dest", str(into), requirement]
    _LOG.info(f"fetching {what} …")
    variables = {**index_settings.variables(pip.pip), "PYTHONPATH": str(aside)}
    code, output = run(command, f"fetching {what}", variables)
    if code != 0 and connections.has_no_index():
        raise _without_index(f"fetch {what}")
    if code != 0:
        raise diagnose(output, f"fetch {what}", into, pip.name)
