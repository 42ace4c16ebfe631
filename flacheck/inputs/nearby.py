"""What there is to scan where flacheck runs: packages with Triton kernels in this project or
environment, the GPU, and the releases of torch and Triton. Files are read, nothing is imported."""

import contextlib
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

from flacheck.captures.cards import target_of
from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.packages import checkouts
from flacheck.source.kernel_files import kernels_in
from flacheck.toolchains import torch_pins

# Their kernels come with torch and Triton themselves, or are flacheck's own.
_NOT_SCANNED = ("torch", "triton", "pytorch-triton", "triton-windows", "flacheck")
# What a package with Triton kernels says that it needs. Reading the files of all others would take
# seconds in a large environment.
_NEEDS = re.compile(r"(?i)^(torch|triton|pytorch-triton)\b(?!.*\bextra\b)")
# Of several packages, those with most kernels; releases of torch, the newest.
_NAMED, _NEWEST = 3, 3
# What most people train on, where no GPU says what they have.
_USUAL_CARDS = "a100,h100"
_DRIVER = Path("/proc/driver/nvidia/gpus")
# Seconds: a driver that hangs must not hold up a scan.
_PATIENCE = 5


@dataclass(frozen=True)
class KernelPackage:
    """A package with Triton kernels. `spec` is what --package takes: NAME==VERSION or a folder."""

    name: str
    spec: str
    kernels: int


@dataclass(frozen=True)
class Surroundings:
    """`gpu` is the card's name as its driver calls it and `target` what to scan for; `releases`
    are the options that name the releases that are here, `here` the same for people."""

    packages: tuple[KernelPackage, ...]
    gpu: str | None
    target: str
    releases: str
    here: str
    has_torch: bool

    def commands(self) -> Iterator[str]:
        """The command that scans each package, those with most kernels first."""
        for package in self.packages[:_NAMED]:
            spec = shlex.quote(package.spec)
            yield f"flacheck scan --package {spec} --target {self.target} {self.releases}"


def look(folder: Path) -> Surroundings | None:
    """What is around a folder; None where no package has Triton kernels."""
    there = _distributions(folder)
    packages = {each.name: each for each in [*_installed(there), *_project(folder)]}
    if not packages:
        return None
    versions = {str(canonicalize_name(each.metadata["Name"])): each.version for each in there}
    releases, here = _releases(versions)
    gpu = _gpu()
    target = target_of(gpu) if gpu else None
    return Surroundings(
        packages=tuple(sorted(packages.values(), key=lambda each: (-each.kernels, each.name))),
        gpu=gpu,
        target=target or _USUAL_CARDS,
        releases=releases,
        here=here,
        has_torch=importlib.util.find_spec("torch") is not None,
    )


def _distributions(folder: Path) -> list[Distribution]:
    """What is installed in the environment: the active one, the project's own, else flacheck's."""
    for place in (os.environ.get("VIRTUAL_ENV"), folder / ".venv"):
        paths = [str(path) for path in Path(place or "").glob("lib/python3*/site-packages")]
        if place and paths and not Path(place).samefile(sys.prefix):
            return _named(importlib.metadata.distributions(path=paths))
    return _named(importlib.metadata.distributions())


def _named(there: Iterable[Distribution]) -> list[Distribution]:
    """Without what a broken installation left behind."""
    return [each for each in there if each.metadata and each.metadata["Name"]]


def _installed(there: Iterable[Distribution]) -> Iterator[KernelPackage]:
    for each in there:
        name = canonicalize_name(each.metadata["Name"])
        needs = any(map(_NEEDS.match, each.requires or ()))
        if name in _NOT_SCANNED or not needs:
            continue
        checkout = _checkout(each)
        if checkout is not None:
            yield from _of_folder(name, checkout, str(checkout))
            continue
        files = (Path(str(file.locate())) for file in each.files or () if file.suffix == ".py")
        kernels = kernels_in(files)
        # A local build has no release in any index.
        if kernels and "+" not in each.version:
            yield KernelPackage(name, f"{name}=={each.version}", kernels)


def _checkout(distribution: Distribution) -> Path | None:
    """The folder that a distribution was installed from, if it is still there."""
    said = distribution.read_text("direct_url.json")
    with contextlib.suppress(ValueError, LookupError, TypeError):
        folder = Path(unquote(urlparse(json.loads(said or "")["url"]).path))
        if folder.is_dir():
            return folder
    return None


def _project(folder: Path) -> Iterator[KernelPackage]:
    """The project of a folder, if a package can be built from it."""
    try:
        checkouts.folder(str(folder.absolute()))
    except UsageError:
        return
    name = folder.absolute().name
    with contextlib.suppress(OSError, UsageError):
        text = (folder / "pyproject.toml").read_text(encoding="utf-8", errors="replace")
        name = toml.loads(text, "pyproject.toml").get("project", {}).get("name", name)
    if canonicalize_name(str(name)) not in _NOT_SCANNED:
        yield from _of_folder(canonicalize_name(str(name)), folder, ".")


def _of_folder(name: str, folder: Path, spec: str) -> Iterator[KernelPackage]:
    kernels = 0
    # A folder that may not be read is nobody's package.
    with contextlib.suppress(OSError):
        # Tests may hold kernels, too, but no package is made of them.
        kept = [each for each in checkouts.files(folder) if "tests" not in each.parts]
        kernels = kernels_in(file for file in kept if file.suffix == ".py")
    if kernels:
        yield KernelPackage(name, spec, kernels)


def _releases(versions: dict[str, str]) -> tuple[str, str]:
    """The option that names the releases here, and the same for people; the newest of torch where
    neither torch nor Triton is installed."""
    torch, triton = (_release(versions.get(name)) for name in ("torch", "triton"))
    if triton is not None:
        with_torch = f" (torch {torch})" if torch else ""
        return f"--triton {triton}", f"Triton {triton}{with_torch}"
    if torch is not None and torch in torch_pins.pins():
        return f"--torch {torch}", f"torch {torch}"
    lines = dict.fromkeys(version.rpartition(".")[0] for version in torch_pins.pins())
    newest = list(lines)[-_NEWEST:]
    return f"--torch {','.join(newest)}", f"torch {', '.join(newest)}, the newest releases"


def _release(version: str | None) -> str | None:
    """The public version, without the local part that names a build; None for a nightly one."""
    try:
        parsed = Version(version or "")
    except InvalidVersion:
        return None
    if parsed.is_prerelease:
        return None
    return parsed.public


def _gpu() -> str | None:
    """The first NVIDIA GPU by its driver's name."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip().splitlines()[0]
    with contextlib.suppress(OSError):
        for file in sorted(_DRIVER.glob("*/information")):
            model = re.search(r"^Model:\s*(.+)$", file.read_text(), re.MULTILINE)
            if model:
                return model[1].strip()
    return None
