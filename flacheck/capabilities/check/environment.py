"""The environment to check, read from installed metadata or given by options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.model.answer import Point
from flacheck.subjects.inputs.nearby import InstalledCard
from flacheck.toolchains import torch_pins

# Distributions that install the folder `triton`, with their origin.
TRITON_BUILDS = {
    "triton": "",
    "pytorch-triton": "PyTorch's build of a commit between two releases",
    "triton-nightly": "a nightly build of Triton",
    "pytorch-triton-rocm": "PyTorch's build for AMD",
    "triton-rocm": "PyTorch's build for AMD",
    "pytorch-triton-xpu": "PyTorch's build for Intel",
    "triton-windows": "a fork for Windows, whose changes flacheck does not compile",
}
_COMMIT = "a build of a commit, not of a release"
# A requirement of torch that names the CUDA of its build: nvidia-cublas-cu12, nvidia-cublas (13).
_CUDA_WHEEL = re.compile(r"nvidia-cublas(?:-cu(\d+))?$")
_LOCAL_CUDA = re.compile(r"cu(\d{2})\d$")
_MARKERS = {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64"}


@dataclass(frozen=True)
class Build:
    """An installed or named distribution of torch or Triton.

    `requires` are its requirements on Triton; None if they are unknown.
    """

    name: str
    version: str
    requires: tuple[Requirement, ...] | None = None
    cuda: int | None = None

    @property
    def release(self) -> str | None:
        """The public release that it is a build of; None for a build between two releases."""
        try:
            version = Version(self.version)
        except InvalidVersion:
            return None
        # pytorch-triton 3.6.0+git9844da95 is a commit before or after 3.6.0.
        if version.is_prerelease or "git" in (version.local or ""):
            return None
        return version.base_version

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def origin(self) -> str:
        """The origin of a build that is not a release from the package index; else empty."""
        local = self.version.partition("+")[2]
        if self.name != "torch":
            own = TRITON_BUILDS.get(self.name, "")
            if "rocm" in local:
                own = own or "a build for AMD"
            if own or self.release:
                return own
            return _COMMIT
        if any(part.startswith("nv") for part in local.split(".")):
            return "a build from NVIDIA's NGC containers, which bring their own Triton"
        if ".dev" in self.version:
            return "a nightly build of torch"
        if "rocm" in local:
            return "a build for AMD"
        if local == "cpu":
            return "a build without a GPU, which requires no Triton"
        if local == "xpu":
            return "a build for Intel"
        return "" if self.release else _COMMIT

    @property
    def index(self) -> str:
        """The options of pip for the index that has this build: that of PyTorch, or none."""
        local = self.version.partition("+")[2]
        if self.name != "torch" or not re.fullmatch(r"cpu|xpu|(cu|rocm)[\d.]+", local):
            return ""
        nightly = "nightly/" if ".dev" in self.version else ""
        return f" --index-url https://download.pytorch.org/whl/{nightly}{local}"


@dataclass(frozen=True)
class Environment:
    """The checked environment; `tritons` are all distributions that install the folder `triton`.

    `packages` are NAME==VERSION with kernels; `source` says where it was read. `contradictions`
    are pins of the project that exclude what is installed.
    """

    torch: Build | None
    tritons: tuple[Build, ...]
    card: InstalledCard | None
    target: str | None
    packages: tuple[str, ...]
    source: str
    contradictions: tuple[Point, ...] = ()

    @property
    def triton(self) -> Build | None:
        return self.tritons[0] if self.tritons else None


def installed_builds(
    distributions: Iterable[Distribution],
) -> tuple[Build | None, tuple[Build, ...]]:
    """Return the installed torch and every installed build of Triton, by their metadata."""
    torch = None
    tritons = []
    for each in distributions:
        name = canonicalize_name(each.metadata["Name"])
        if name == "torch":
            torch = _torch(each.version, each.requires or [])
        elif name in TRITON_BUILDS:
            tritons.append(Build(name, each.version))
    return torch, tuple(sorted(tritons, key=lambda each: list(TRITON_BUILDS).index(each.name)))


def torch_release(version: str) -> Build:
    """Return a release of torch that is not installed, with its pin by the shipped table."""
    pin = torch_pins.pins().get(Version(version).base_version)
    requires = (Requirement(f"triton{pin}"),) if pin else None
    build = Build("torch", version, requires, _cuda(version, ()))
    if build.origin and not pin:
        return build
    return Build("torch", version, () if "+cpu" in version else requires, build.cuda)


def _torch(version: str, texts: Iterable[str]) -> Build:
    requirements = list(_applicable(texts))
    on_triton = tuple(each for each in requirements if each.name in TRITON_BUILDS)
    return Build("torch", version, on_triton, _cuda(version, [each.name for each in requirements]))


def _applicable(texts: Iterable[str]) -> Iterable[Requirement]:
    """Yield the requirements that hold on Linux, without extras."""
    markers: Mapping[str, str] = {**default_environment(), **_MARKERS, "extra": ""}  # type: ignore[dict-item]
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        requirement.name = canonicalize_name(requirement.name)
        if requirement.marker is None or requirement.marker.evaluate(dict(markers)):
            yield requirement


def _cuda(version: str, names: Iterable[str]) -> int | None:
    """Return the major version of CUDA that torch was built with."""
    local = _LOCAL_CUDA.match(version.partition("+")[2])
    if local:
        return int(local[1])
    for name in names:
        wheel = _CUDA_WHEEL.match(name)
        if wheel:
            return int(wheel[1] or 13)
    return None
