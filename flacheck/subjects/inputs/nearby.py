"""The surroundings of flacheck: packages with Triton kernels, the GPU, torch and Triton releases.

Packages are those of the project and the environment. Files are read, nothing is imported.
"""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck import files
from flacheck.errors import UsageError
from flacheck.source.kernel_files import kernels_in
from flacheck.source.packages import checkouts
from flacheck.subjects.captures.cards import target_of
from flacheck.tables.settings import toml
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import torch_pins

# The kernels of these packages are torch's, Triton's and flacheck's own.
_NOT_SCANNED = ("torch", "triton", "pytorch-triton", "triton-windows", "flacheck")
# Requirements of a package with Triton kernels. Reading the files of all others would take seconds
# in a large environment.
_NEEDS = re.compile(r"(?i)^(torch|triton|pytorch-triton)\b(?!.*\bextra\b)")
# The number of packages, those with most kernels, and of releases of torch, the newest.
_MOST_PACKAGES, _NEWEST = 3, 3
# The usual training GPUs, for a machine without a GPU.
USUAL_CARDS = "a100,h100"
DRIVER = Path("/proc/driver/nvidia/gpus")
# Seconds: a driver that hangs must not hold up a scan.
_PATIENCE = 5


@dataclass(frozen=True)
class KernelPackage:
    """A package with Triton kernels.

    `spec` is the argument of --package: NAME==VERSION or a folder.
    """

    name: str
    spec: str
    kernels: int


@dataclass(frozen=True)
class Surroundings:
    """The packages, GPU and releases around a folder.

    `gpu` is the card's name in its driver, and `target` the target of a scan. `releases` are the
    options that name the installed releases, `here` is a phrase with the same releases.
    """

    packages: tuple[KernelPackage, ...]
    gpu: str | None
    target: str
    releases: str
    here: str
    has_torch: bool

    def commands(self) -> Iterator[str]:
        """Yield the command that scans each package, those with most kernels first."""
        for package in self.packages[:_MOST_PACKAGES]:
            spec = shlex.quote(package.spec)
            yield f"flacheck scan --package {spec} --target {self.target} {self.releases}"


def look(folder: Path) -> Surroundings | None:
    """Return the surroundings of a folder; None if no package has Triton kernels."""
    found = distributions(folder)
    by_name: dict[str, KernelPackage] = {}
    for package in (*environment_packages(found), *project(folder)):
        by_name[package.name] = package
    if not by_name:
        return None
    packages = sorted(by_name.values(), key=lambda each: (-each.kernels, each.name))
    versions = {}
    for distribution in found:
        name = str(canonicalize_name(distribution.metadata["Name"]))
        versions[name] = distribution.version
    releases, here = _releases(versions)
    gpu = read_gpu()
    target = target_of(gpu) if gpu else None
    return Surroundings(
        packages=tuple(packages),
        gpu=gpu,
        target=target or USUAL_CARDS,
        releases=releases,
        here=here,
        has_torch=importlib.util.find_spec("torch") is not None,
    )


def distributions(folder: Path) -> list[Distribution]:
    """Return the distributions of the active environment, the project's, or else flacheck's."""
    for place in (os.environ.get("VIRTUAL_ENV"), folder / ".venv"):
        paths = list(map(str, Path(place or "").glob("lib/python3*/site-packages")))
        if place and paths and not Path(place).samefile(sys.prefix):
            return _complete(importlib.metadata.distributions(path=paths))
    return _complete(importlib.metadata.distributions())


def _complete(distributions: Iterable[Distribution]) -> list[Distribution]:
    """Return the distributions without the remains of broken installations."""
    return [each for each in distributions if each.metadata and each.metadata["Name"]]


def environment_packages(found: Iterable[Distribution]) -> Iterator[KernelPackage]:
    """Yield the installed packages that require torch or Triton and define kernels."""
    for each in found:
        name = canonicalize_name(each.metadata["Name"])
        needs = any(map(_NEEDS.match, each.requires or ()))
        if name in _NOT_SCANNED or not needs:
            continue
        checkout = _checkout(each)
        if checkout is not None:
            yield from _of_folder(name, checkout, str(checkout))
            continue
        files = []
        for file in each.files or ():
            if file.suffix == ".py":
                files.append(Path(str(file.locate())))
        kernels = kernels_in(files)
        # Local builds are not in an index.
        if kernels and "+" not in each.version:
            yield KernelPackage(name, f"{name}=={each.version}", kernels)


def _checkout(distribution: Distribution) -> Path | None:
    """Return the folder from which a distribution was installed, if it still exists."""
    text = distribution.read_text("direct_url.json")
    with contextlib.suppress(ValueError, LookupError, TypeError):
        url = json.loads(text or "")["url"]
        folder = Path(unquote(urlparse(url).path))
        if folder.is_dir():
            return folder
    return None


def project(folder: Path) -> Iterator[KernelPackage]:
    """Yield the project of a folder, if a package can be built from it."""
    try:
        checkouts.folder(str(folder.absolute()))
    except UsageError:
        return
    name = folder.absolute().name
    with contextlib.suppress(OSError, UsageError):
        text = files.read_text(folder / "pyproject.toml", errors="replace")
        project = toml.loads(text, "pyproject.toml").get("project", {})
        name = project.get("name", name)
    name = canonicalize_name(str(name))
    if name not in _NOT_SCANNED:
        yield from _of_folder(name, folder, ".")


def _of_folder(name: str, folder: Path, spec: str) -> Iterator[KernelPackage]:
    kernels = 0
    # An unreadable folder does not count as a package.
    with contextlib.suppress(OSError):
        files = []
        for file in checkouts.files(folder):
            # Kernels of tests are not part of the package.
            if file.suffix == ".py" and "tests" not in file.parts:
                files.append(file)
        kernels = kernels_in(files)
    if kernels:
        yield KernelPackage(name, spec, kernels)


def _releases(versions: dict[str, str]) -> tuple[str, str]:
    """Return the option that names the installed releases, and a phrase with them.

    Without torch and Triton, the newest releases of torch.
    """
    torch = _release(versions.get("torch"))
    triton = _release(versions.get("triton"))
    if triton is not None:
        with_torch = f" (torch {torch})" if torch else ""
        return f"--triton {triton}", f"Triton {triton}{with_torch}"
    if torch is not None and torch in torch_pins.pins():
        return f"--torch {torch}", f"torch {torch}"
    lines = dict.fromkeys(version.rpartition(".")[0] for version in torch_pins.pins())
    newest = list(lines)[-_NEWEST:]
    return f"--torch {','.join(newest)}", f"torch {', '.join(newest)}, the newest releases"


def _release(version: str | None) -> str | None:
    """Return the public version, without a build's local part; None for a nightly build."""
    try:
        release = Version(version or "")
    except InvalidVersion:
        return None
    if release.is_prerelease:
        return None
    return release.public


@dataclass(frozen=True)
class InstalledCard:
    """An NVIDIA GPU by its driver: name, driver version, compute capability (`9.0`)."""

    name: str
    driver: str | None = None
    capability: str | None = None

    @property
    def target(self) -> str | None:
        """The target of its name, else of its capability; None for an unknown GPU."""
        named = target_of(self.name)
        if named is None and self.capability:
            name = f"sm{self.capability.replace('.', '')}"
            named = name if name in TARGETS else None
        return named


def read_gpu() -> str | None:
    """Return the name of the first NVIDIA GPU, as its driver gives it."""
    card = read_card()
    return card.name if card else None


def read_card() -> InstalledCard | None:
    """Return the first NVIDIA GPU by NVML, `nvidia-smi` or the driver's files; None without one."""
    return _card_of_nvml() or _card_of_program() or _card_of_files()


def _card_of_nvml() -> InstalledCard | None:
    """Return the first GPU by nvidia-ml-py, if that is installed."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        name, driver = nvml.nvmlDeviceGetName(handle), nvml.nvmlSystemGetDriverVersion()
        return InstalledCard(str(name), str(driver), f"{major}.{minor}")
    return None


def _card_of_program() -> InstalledCard | None:
    fields = "name,driver_version,compute_cap"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        process = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
        lines = process.stdout.strip().splitlines()
        if process.returncode == 0 and lines:
            name, *others = [part.strip() for part in lines[0].split(",")]
            driver, capability = (*others, None, None)[:2]
            return InstalledCard(name, driver, capability)
    return None


def _card_of_files() -> InstalledCard | None:
    with contextlib.suppress(OSError):
        for file in sorted(DRIVER.glob("*/information")):
            model = re.search(r"^Model:\s*(.+)$", file.read_text(), re.MULTILINE)
            if model:
                return InstalledCard(model[1].strip())
    return None
