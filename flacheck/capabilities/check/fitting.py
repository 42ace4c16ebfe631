"""Do torch, Triton and the driver belong together; if not, the line to type."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from flacheck.capabilities.check.environment import Build, Environment
from flacheck.model.answer import Point

# The oldest driver for each major version of CUDA: NVIDIA's CUDA toolkit release notes, table
# "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility".
_DRIVERS = {11: 450, 12: 525, 13: 580}


@dataclass(frozen=True)
class Compatibility:
    """The result: faults with their remedies, notes on special builds, and the line to type."""

    faults: tuple[Point, ...] = ()
    notes: tuple[Point, ...] = ()
    command: str = ""


def fit(environment: Environment) -> Compatibility:
    """Return whether the parts of an environment belong together."""
    torch, triton = environment.torch, environment.triton
    faults = []
    command = ""
    wanted = _required(torch)
    if len(environment.tritons) > 1:
        names = " and ".join(each.label for each in environment.tritons)
        command = _reinstall(environment, torch, wanted)
        faults.append(Point(f"{names} are both installed and share one folder", command))
    elif torch is not None and wanted is not None:
        if triton is None:
            command = _install(torch, wanted)
            text = f"{torch.label} requires {wanted}, and no Triton is installed"
            faults.append(Point(text, command))
        elif not _satisfies(triton, wanted):
            command = _reinstall(environment, torch, wanted, triton)
            text = f"{torch.label} requires {wanted}, and {triton.label} is installed"
            faults.append(Point(text, command))
    faults += _driver_faults(environment)
    return Compatibility(tuple(faults), tuple(_notes(environment)), command)


def _required(torch: Build | None) -> Requirement | None:
    if torch is None or not torch.requires:
        return None
    return torch.requires[0]


def _satisfies(triton: Build, wanted: Requirement) -> bool:
    """Return True for the required distribution or one that installs the same folder."""
    if wanted.name != triton.name and not {wanted.name, triton.name} <= {
        "triton",
        "triton-windows",
    }:
        return False
    try:
        version = Version(triton.version)
    except InvalidVersion:
        return False
    return wanted.specifier.contains(version, prereleases=True) or wanted.specifier.contains(
        version.base_version, prereleases=True
    )


def _install(torch: Build | None, wanted: Requirement | None) -> str:
    if torch is None or wanted is None:
        return "pip install --force-reinstall triton"
    requirement = shlex.quote(f"{wanted.name}{wanted.specifier}")
    # An index of PyTorch has its own builds alone; releases are in the package index.
    return f"pip install {requirement}{torch.index if wanted.name != 'triton' else ''}"


def _reinstall(
    environment: Environment,
    torch: Build | None,
    wanted: Requirement | None,
    triton: Build | None = None,
) -> str:
    """Return the line that installs the required build and removes others in its folder."""
    names = [each.name for each in environment.tritons]
    if triton is not None and wanted is not None and triton.name == wanted.name:
        return _install(torch, wanted)
    return f"pip uninstall -y {' '.join(names)} && {_install(torch, wanted)}"


def _driver_faults(environment: Environment) -> list[Point]:
    card, torch = environment.card, environment.torch
    if card is None or not card.driver or torch is None or torch.cuda not in _DRIVERS:
        return []
    oldest = _DRIVERS[torch.cuda]
    if int(card.driver.partition(".")[0]) >= oldest:
        return []
    text = f"the driver {card.driver} is too old for {torch.label}, a build for CUDA {torch.cuda}"
    return [Point(text, f"install a driver {oldest} or newer, or a torch for an older CUDA")]


def _notes(environment: Environment) -> list[Point]:
    """Return what is known of builds that are not releases."""
    notes = []
    for build in filter(None, (environment.torch, *environment.tritons)):
        if build.origin:
            notes.append(Point(f"{build.label}: {build.origin}", _advice(build)))
    if environment.torch is not None and environment.torch.requires is None:
        text = f"the Triton that {environment.torch.label} requires is not in the table"
        notes.append(Point(text, "flacheck gate --refresh reads it from the package index"))
    return notes


# The advice for a build, by words of its origin.
_ADVICE = {
    "NGC": "keep the container's Triton: pip would replace it by another build",
    "without a GPU": "install torch's build for CUDA where you train",
    "AMD": "results are of NVIDIA GPUs; flacheck scan --target gfx942 compiles for AMD",
    "Intel": "flacheck compiles for NVIDIA and AMD alone",
}


def _advice(build: Build) -> str:
    for word, advice in _ADVICE.items():
        if word in build.origin:
            return advice
    return "results are of releases; flacheck scan --triton installed compiles with what is here"


def describe(environment: Environment) -> str:
    """Return `torch 2.12.1 and triton 3.7.1`."""
    parts = [each.label for each in filter(None, (environment.torch, environment.triton))]
    return " and ".join(parts) or "no torch and no Triton"
