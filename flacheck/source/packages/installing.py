"""The installation of a package in a folder, from a wheel or from its sources.

Torch, Triton and packages that only a GPU needs are left out. The manifest lists other omissions.
"""

import contextlib
import importlib.metadata
import logging
import py_compile
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from flacheck.errors import ToolchainError
from flacheck.source.packages import archives, checkouts
from flacheck.toolchains import index, torch_pins, triton_releases, wheels
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# The guest supplies these: a recording torch, and each release of Triton in turn.
STAND_INS = ("torch", "triton")
# High enough for every lower bound on them.
_STAND_IN_VERSION = "9999.0"
# The most versions of stand-ins that pip is offered one after the other: each time it names one
# bound that they violate.
_MOST_OFFERS = 8
# The most modules with bytecode; larger packages import a part of theirs.
_MOST_COMPILED = 1000
# The most requirements that a message names one by one.
_MOST_NAMES = 6


class BuildWheel(Protocol):
    """A function that builds the wheel of the sources in `root`, and returns its file in `into`.

    Raises ToolchainError if the build fails.
    """

    def __call__(self, root: Path, into: Path) -> Path: ...


def from_index(
    name: str, version: str, into: Path, aside: Path, build: BuildWheel
) -> dict[str, Any]:
    """Install `NAME==VERSION` and its requirements from its wheel, else from its sources.

    Sources are unpacked `aside`. Returns the entries for a manifest. Raises NotFound without a
    wheel and sources, Offline or another ToolchainError.
    """
    what = f"{name} {version}"
    try:
        manifest = install([f"{name}=={version}"], what, into, alone=True)
    except wheels.NotFound as error:
        try:
            root = archives.fetch(name, version, aside)
        except wheels.NotFound:
            raise error from None
        return from_sources(root, what, into, build)
    return {**manifest, **_Requirements(into, build).install_of(name)}


def from_sources(root: Path, what: str, into: Path, build: BuildWheel) -> dict[str, Any]:
    """Install a package and its requirements from its sources.

    If it cannot be built, its Python files are copied. A build may create folders in the sources.
    The manifest has the `name` and `version` of the package.
    """
    requirements = _Requirements(into, build)
    why = checkouts.cannot_build(root)
    if why is None:
        try:
            manifest = _install_built(root, what, into, build)
            return {**manifest, **requirements.install_of(manifest["name"])}
        except wheels.Offline:
            raise
        except ToolchainError as error:
            if not checkouts.importable(root):
                raise
            why = str(error).splitlines()[0]
    _empty(into)
    name, version, requires = checkouts.read_metadata(root)
    left_out = requirements.install(requires)
    checkouts.take(root, into)
    return {"installer": "copy", "why": why, "name": name, "version": version, **left_out}


def _install_built(root: Path, what: str, into: Path, build: BuildWheel) -> dict[str, Any]:
    """Build a package's wheel and install it without its requirements."""
    with temporary_folder() as aside:
        wheel = build(root, Path(aside))
        manifest = install([str(wheel)], what, into, alone=True)
        name, version, _, _ = parse_wheel_filename(wheel.name)
    return {**manifest, "name": str(name), "version": str(version)}


def _empty(folder: Path) -> None:
    """Remove the remains of a failed installation."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class _Requirements:
    """The requirements of a package, installed in its folder.

    The requirements are installed from wheels; requirements without a wheel are built from their
    sources. `_tried` holds the names that were installed one by one.
    """

    def __init__(self, into: Path, build: BuildWheel) -> None:
        self._into = into
        self._build = build
        self._tried: set[str] = set()

    def install_of(self, name: str) -> dict[str, Any]:
        """Install what a distribution in the folder requires, as `install` does."""
        return self.install(self._of(name))

    def install(self, requires: Sequence[str]) -> dict[str, Any]:
        """Install those requirements that can be installed; `left_out` names the others."""
        requirements = list(installable(requires))
        if not requirements:
            return {}
        # An installer would build what a URL leads to.
        has_url = any(Requirement(each).url for each in requirements)
        if not has_url and self._install_wheels(requirements, "its requirements"):
            return {}
        left_out = [each for each in requirements if not self._install_one(each)]
        return {"left_out": left_out}

    def _install_one(self, text: str) -> bool:
        """Install a requirement with its own; return False if it cannot be installed."""
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.url:
            return False
        if name in self._tried or self._install_wheels([text], text):
            return True
        self._tried.add(name)
        is_there = self._install_wheels([text], text, alone=True)
        if not is_there and not self._install_sources(requirement):
            return False
        return not self.install_of(name).get("left_out")

    def _install_wheels(self, requirements: Sequence[str], what: str, alone: bool = False) -> bool:
        """Install requirements from wheels; return False if one has none."""
        try:
            install(requirements, what, self._into, alone)
        except wheels.Offline:
            raise
        except ToolchainError as error:
            _LOG.debug(str(error))
            return False
        return True

    def _install_sources(self, requirement: Requirement) -> bool:
        """Build the newest release of a requirement, and install it without its own."""
        try:
            available = index.available(requirement.name)
            versions = list(requirement.specifier.filter(available))
            if not versions:
                return False
            version = str(max(versions))
            with temporary_folder() as aside:
                root = archives.fetch(requirement.name, version, Path(aside))
                _install_built(root, f"{requirement.name} {version}", self._into, self._build)
        except wheels.Offline:
            raise
        except ToolchainError as error:
            _LOG.debug(str(error))
            return False
        return True

    def _of(self, name: str) -> Sequence[str]:
        """Return the requirements of a distribution in the folder."""
        for distribution in importlib.metadata.distributions(path=[str(self._into)]):
            if canonicalize_name(distribution.name) == canonicalize_name(name):
                return distribution.requires or []
        return []


def installable(requires: Sequence[str]) -> Iterator[str]:
    """Yield the requirements that apply here, without the guest's packages and those for GPUs."""
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        applies = marker is None or marker.evaluate({"extra": ""})
        if applies and name not in STAND_INS and not name.startswith("nvidia-"):
            yield text


def write_bytecode(files: Iterable[Path]) -> None:
    """Write the bytecode of a package's modules beside them, of at most a thousand.

    Captures, which may only read the folder, would compile them each time. A module without
    bytecode works too, so a file that cannot be written is not an error.
    """
    modules = [file for file in files if file.suffix == ".py" and file.is_file()]
    with warnings.catch_warnings():
        # Those about a package's syntax are of no use to its users.
        warnings.simplefilter("ignore")
        for module in modules[:_MOST_COMPILED]:
            # Beside the module, whatever folder this process keeps its own in.
            name = f"{module.stem}.{sys.implementation.cache_tag}.pyc"
            compiled = module.parent / "__pycache__" / name
            with contextlib.suppress(OSError):
                py_compile.compile(str(module), str(compiled), quiet=2)


def remark(manifest: Mapping[str, Any]) -> str | None:
    """Return a sentence on the missing parts of a package; None if it is complete."""
    about = f"{manifest['name']} {manifest['version']}"
    parts = []
    if manifest.get("why"):
        parts.append(
            f"{about} is not built ({manifest['why']}): its Python files are used as they stand, "
            "without compiled extensions"
        )
    left_out = manifest.get("left_out") or []
    if left_out:
        names = ", ".join(left_out[:_MOST_NAMES])
        if len(left_out) > _MOST_NAMES:
            names += f" and {len(left_out) - _MOST_NAMES} more"
        parts.append(f"what {about} requires and could not be installed: {names}")
    return "; ".join(parts) or None


def install(
    requirements: Sequence[str],
    what: str,
    into: Path,
    alone: bool = False,
) -> dict[str, Any]:
    """Install requirements beside stand-ins for torch and Triton, which are removed afterwards.

    They are installed from wheels, because an installer would run a build with the user's rights.
    `alone` leaves out their own requirements.
    """
    versions = dict.fromkeys(STAND_INS, _STAND_IN_VERSION)
    bounds = dict.fromkeys(STAND_INS, SpecifierSet())
    for _ in range(_MOST_OFFERS):
        aside = into / ".stand-ins"
        aside.mkdir(exist_ok=True)
        constraints = aside / "constraints.txt"
        lines = []
        for name, version in versions.items():
            wheel = _stand_in(aside, name, version)
            lines.append(f"{name} @ {wheel.as_uri()}\n")
        constraints.write_text("".join(lines))
        try:
            return wheels.install(
                requirements,
                into,
                what=what,
                constraints=constraints,
                alone=alone,
            )
        except wheels.BoundsConflict as conflict:
            narrower = _narrow(bounds, conflict.bounds)
            if narrower == bounds:
                raise
            bounds = narrower
            versions = {name: fitting_pins(name, bounds[name], conflict) for name in STAND_INS}
        finally:
            shutil.rmtree(aside)
            for name in STAND_INS:
                for info in into.glob(f"{name}-*.dist-info"):
                    shutil.rmtree(info)
    raise ToolchainError(f"cannot install {what}: its bounds on torch and Triton contradict")


def _narrow(
    bounds: Mapping[str, SpecifierSet], more: Mapping[str, SpecifierSet]
) -> dict[str, SpecifierSet]:
    return {name: bounds[name] & more.get(name, SpecifierSet()) for name in bounds}


def fitting_pins(name: str, bound: SpecifierSet, conflict: ToolchainError) -> str:
    """Return the highest version within a bound; raise the conflict without such a version."""
    releases = list(torch_pins.pins())
    if name == "triton":
        releases = list(triton_releases.known_releases())
    # A build for a CUDA version is only in the bound, by its exact name.
    releases += [each.version for each in bound if each.operator in ("==", "===", "<=")]
    versions = [version for version in releases if not version.endswith(".*")]
    for version in [_STAND_IN_VERSION, *sorted(versions, key=Version, reverse=True)]:
        if bound.contains(version, prereleases=True):
            return version
    raise conflict


def _stand_in(folder: Path, name: str, version: str) -> Path:
    """Write an empty wheel of `name`, so that the installer does not fetch the real one."""
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    entries = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: flacheck\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = f"{info}/RECORD"
    entries[record] = ",,\n".join([*entries, record, ""])
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry, text in entries.items():
            archive.writestr(entry, text)
    return wheel
