"""Triton releases by the torch releases that require them: `torch==2.9.*` stands for Triton 3.5.0
and 3.5.1."""

import importlib.metadata
import re

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains import index, torch_pins, triton_releases
from flacheck.toolchains.base import Choice, Resolution

NAME = "torch"
_NUMBERS = re.compile(r"\d+(\.\d+)*")
# 2.9.1 is one release, 2.9 all of its patch releases: who says "torch 2.9" rarely means 2.9.0.
_PARTS_OF_A_RELEASE = 3


def parse_requirement(text: str) -> str:
    """A requirement for what a user says of torch alone: `torch==2.9.*` for `2.9`, `torch==2.9.1`
    for `2.9.1`, `torch>=2.5,<2.9` for `>=2.5,<2.9`; `installed` is the release that is here.

    Raises UsageError when none is installed, or for a path.
    """
    text = text.strip().removeprefix(NAME).strip()
    if text == "installed":
        return f"{NAME}=={_installed()}"
    if not _NUMBERS.fullmatch(text):
        if not re.match(r"[<>=!~]", text):
            raise UsageError(
                f"--torch {text}: expected a version (2.9 or 2.9.1), a PEP 440 specifier "
                "(>=2.5,<2.9) or installed"
            )
        return NAME + text
    if text.count(".") + 1 < _PARTS_OF_A_RELEASE:
        text += ".*"
    return f"{NAME}=={text}"


def _installed() -> str:
    try:
        return Version(importlib.metadata.version(NAME)).public
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "--torch installed: no torch is installed beside flacheck; name a release (2.9)"
        ) from None
    except InvalidVersion as error:
        raise UsageError(f"--torch installed: {error}; name a release (2.9)") from None


def releases(specifiers: SpecifierSet) -> dict[str, str]:
    """The torch releases that specifiers admit, oldest first, each with the newest known Triton
    release that it requires. Raises UsageError where there is none, ToolchainError where the index
    could not be read for newer ones."""
    admitted = _admitted(specifiers)
    if not admitted:
        # Perhaps it is newer than what flacheck was shipped with.
        torch_pins.refresh(again=not torch_pins.is_complete())
        admitted = _admitted(specifiers)
    if not admitted and not torch_pins.is_complete():
        raise ToolchainError(
            f"flacheck knows no release of torch that matches {specifiers}, and the package index"
            " could not be read for newer ones; check the network and the index settings"
        )
    if not admitted:
        raise UsageError(f"no release of torch matches {specifiers}; there are {_near(specifiers)}")
    known = [Version(text) for text in triton_releases.known_releases()]
    pinned = {}
    for torch, pin in admitted.items():
        fitting = list(SpecifierSet(pin).filter(known))
        if fitting:
            pinned[torch] = str(fitting[-1])
    if not pinned:
        required = " and ".join(
            f"torch {torch} requires triton{p}" for torch, p in admitted.items()
        )
        raise UsageError(f"{required}, of which flacheck knows no release")
    return pinned


def _admitted(specifiers: SpecifierSet) -> dict[str, str]:
    return {torch: pin for torch, pin in torch_pins.pins().items() if torch in specifiers}


def _near(specifiers: SpecifierSet) -> str:
    """The releases to name beside one that does not exist."""
    known = [Version(text) for text in torch_pins.pins()]
    asked = [each.version for each in specifiers if each.operator in ("==", "===")]
    if len(asked) == 1:
        known = index.near(Version(asked[0].removesuffix(".*")), known)
    return ", ".join(map(str, known))


def resolve(text: str) -> Resolution:
    """The choices for `==2.9.1` or another specifier of torch. As with Triton's own releases, one
    without a wheel for this Python is a choice with a reason when asked for by its exact version,
    else a warning."""
    specifiers = SpecifierSet(text)
    required = dict.fromkeys(releases(specifiers).values())
    is_exact = re.fullmatch(r"={2,3}\s*[\d.]+", text) is not None
    choices: list[Choice] = []
    warnings: list[str] = []
    for triton in required:
        if is_exact:
            choices.append(triton_releases.exact(Version(triton)))
            continue
        resolution = triton_releases.matching(SpecifierSet(f"=={triton}"))
        choices += resolution.choices
        warnings += resolution.warnings
    return Resolution(tuple(choices), tuple(dict.fromkeys(warnings)))
