"""Fills a package's folder with what can be had of it: without torch, Triton and what only a GPU
needs, from a wheel or from its sources, built or as they stand. What is left out is said."""

import importlib.metadata
import logging
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from flacheck.errors import ToolchainError
from flacheck.packages import archives, checkouts
from flacheck.toolchains import torch_pins, triton_releases, wheels

_LOG = logging.getLogger(__name__)

# The guest brings these: a recording torch, and each release of Triton in turn.
STAND_INS = ("torch", "triton")
# High enough for every lower bound on them.
_STAND_IN_VERSION = "9999.0"
# Versions of stand-ins that pip is offered, one after the other: each time it names one bound that
# was not met.
_MOST_OFFERS = 8
# Requirements that are named one by one where they cannot be had.
_NAMED = 6


def from_index(name: str, version: str, into: Path, aside: Path) -> dict[str, Any]:
    """Install `NAME==VERSION` with what it requires: from its wheel, else from its sources, which
    are unpacked `aside`; what was done, for a manifest.

    Raises NotFound where there is neither, Offline or another ToolchainError.
    """
    wanted, what = f"{name}=={version}", f"{name} {version}"
    try:
        done = install([wanted], what, into, alone=True, binary_only=(name,))
    except wheels.NotFound as error:
        try:
            root = archives.fetch(name, version, aside)
        except wheels.NotFound:
            raise error from None
        return from_sources(root, what, into)
    return {**done, **require(_required(into, name), into)}


def from_sources(root: Path, what: str, into: Path) -> dict[str, Any]:
    """Install the package whose sources these are, with what it requires: built, or its Python
    files as they stand where a build is not to be had. A build may leave folders behind."""
    why = checkouts.cannot_build(root)
    if why is None:
        try:
            done = install([str(root)], what, into, alone=True)
            return {**done, **require(_required(into, checkouts.find_built(into).name), into)}
        except wheels.Offline:
            raise
        except ToolchainError as error:
            if not checkouts.importable(root):
                raise
            why = str(error).splitlines()[0]
    _empty(into)
    _, _, requires = checkouts.read_metadata(root)
    left_out = require(requires, into)
    checkouts.take(root, into)
    return {"installer": "copy", "why": why, **left_out}


def _empty(folder: Path) -> None:
    """An installer that failed may have left something."""
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()


def _required(into: Path, name: str) -> Sequence[str]:
    """What a distribution in a folder requires."""
    for distribution in importlib.metadata.distributions(path=[str(into)]):
        if canonicalize_name(distribution.name) == canonicalize_name(name):
            return distribution.requires or []
    return []


def require(requires: Sequence[str], into: Path) -> dict[str, Any]:
    """Install all of these that can be had; `left_out` names the others."""
    wanted = list(_wanted(requires))
    if not wanted:
        return {}
    try:
        install(wanted, "what it requires", into)
        return {}
    except wheels.Offline:
        raise
    except ToolchainError as error:
        _LOG.debug(f"not all at once: {error}")
    left_out = []
    for each in wanted:
        try:
            install([each], each, into)
        except wheels.Offline:
            raise
        except ToolchainError as error:
            _LOG.debug(str(error))
            left_out.append(each)
    return {"left_out": left_out}


def _wanted(requires: Sequence[str]) -> Iterator[str]:
    """The requirements that hold here, without what the guest brings and what only a GPU needs."""
    for text in requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        name = canonicalize_name(wanted.name)
        holds = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if holds and name not in STAND_INS and not name.startswith("nvidia-"):
            yield text


def remark(manifest: Mapping[str, Any]) -> str | None:
    """One sentence on what is missing of a package in its folder."""
    about = f"{manifest['name']} {manifest['version']}"
    said = []
    if manifest.get("why"):
        said.append(
            f"{about} is not built ({manifest['why']}): its Python files are used as they stand, "
            "without compiled extensions"
        )
    left_out = manifest.get("left_out") or []
    if left_out:
        named = ", ".join(left_out[:_NAMED])
        if len(left_out) > _NAMED:
            named += f" and {len(left_out) - _NAMED} more"
        said.append(f"what {about} requires and could not be installed: {named}")
    return "; ".join(said) or None


def install(
    requirements: Sequence[str],
    what: str,
    into: Path,
    alone: bool = False,
    binary_only: Sequence[str] = (),
) -> dict[str, Any]:
    """Install requirements beside stand-ins for torch and Triton, of which none stays; `alone`
    without what they require. Builds find the stand-ins, too: none brings a real torch."""
    offered = dict.fromkeys(STAND_INS, _STAND_IN_VERSION)
    bounds = dict.fromkeys(STAND_INS, SpecifierSet())
    for _ in range(_MOST_OFFERS):
        aside = into / ".stand-ins"
        aside.mkdir(exist_ok=True)
        constraints = aside / "constraints.txt"
        wheels_of = {name: _stand_in(aside, name, version) for name, version in offered.items()}
        constraints.write_text("".join(f"{n} @ {w.as_uri()}\n" for n, w in wheels_of.items()))
        try:
            return wheels.install(
                requirements,
                into,
                what=what,
                binary_only=binary_only,
                constraints=constraints,
                alone=alone,
            )
        except wheels.BoundsConflict as conflict:
            narrowed = _narrowed(bounds, conflict.bounds)
            if narrowed == bounds:
                raise
            bounds = narrowed
            offered = {name: _fitting(name, bounds[name], conflict) for name in STAND_INS}
        finally:
            shutil.rmtree(aside)
            for name in STAND_INS:
                for left in into.glob(f"{name}-*.dist-info"):
                    shutil.rmtree(left)
    raise ToolchainError(f"cannot install {what}: its bounds on torch and Triton contradict")


def _narrowed(
    bounds: Mapping[str, SpecifierSet], said: Mapping[str, SpecifierSet]
) -> dict[str, SpecifierSet]:
    return {name: bounds[name] & said.get(name, SpecifierSet()) for name in bounds}


def _fitting(name: str, bound: SpecifierSet, conflict: ToolchainError) -> str:
    """The highest version that a bound admits; the conflict is raised where there is none."""
    known = [*torch_pins.pins()]
    if name == "triton":
        known = list(triton_releases.known_releases())
    # A build for some CUDA is asked for by its exact name.
    known += [each.version for each in bound if each.operator in ("==", "===", "<=")]
    versions = [version for version in known if not version.endswith(".*")]
    for version in [_STAND_IN_VERSION, *sorted(versions, key=Version, reverse=True)]:
        if bound.contains(version, prereleases=True):
            return version
    raise conflict


def _stand_in(folder: Path, name: str, version: str) -> Path:
    """An empty wheel of `name`, so that the installer brings no real one."""
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    entries = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: flacheck\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    entries[f"{info}/RECORD"] = "".join(f"{entry},,\n" for entry in [*entries, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry, text in entries.items():
            archive.writestr(entry, text)
    return wheel
