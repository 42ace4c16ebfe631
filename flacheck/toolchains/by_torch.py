"""Triton releases by the torch releases that require them.

For example `torch==2.9.*` stands for Triton 3.5.0 and 3.5.1.
"""

import importlib.metadata
import re

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains import index, torch_pins, triton_releases
from flacheck.toolchains.base import Choice, Resolution

NAME = "torch"
_NUMBERS = re.compile(r"\d+(\.\d+)*")
# A nightly, or the build of an NVIDIA container: 2.14.0.dev20261001+cu130, 2.8.0a0+5228986c39.
_BUILD = re.compile(r"\d+(\.\d+)*(a|b|rc|\.dev|\+)[\w.+-]*")
# 2.9.1 is one release, 2.9 means all of its patch releases: people rarely mean 2.9.0 by it.
_PARTS_OF_A_RELEASE = 3


def parse_requirement(text: str) -> str:
    """Return a requirement for the user's specification of torch alone.

    The result is `torch==2.9.*` for `2.9`, `torch==2.9.1` for `2.9.1`, `torch>=2.5,<2.9` for
    `>=2.5,<2.9`; `installed` is the release in this environment. Raises UsageError if none is
    installed, or for a path.
    """
    text = text.strip().removeprefix(NAME).strip()
    if text == "installed":
        return f"{NAME}=={_installed_version()}"
    if _BUILD.fullmatch(text):
        return f"{NAME}=={text}"
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


def _installed_version() -> str:
    try:
        return Version(importlib.metadata.version(NAME)).public
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "--torch installed: no torch is installed beside flacheck; name a release (2.9)"
        ) from None
    except InvalidVersion as error:
        raise UsageError(f"--torch installed: {error}; name a release (2.9)") from None


def releases(specifiers: SpecifierSet) -> dict[str, str]:
    """Return the torch releases that specifiers admit, oldest first.

    Each is mapped to the newest known Triton release that it requires. Raises UsageError if there
    are none, ToolchainError if the index could not be read for newer ones.
    """
    admitted_pins = _pins_within(specifiers)
    if not admitted_pins:
        # The release may be newer than the table that ships with flacheck.
        torch_pins.refresh(again=not torch_pins.is_complete())
        admitted_pins = _pins_within(specifiers)
    if not admitted_pins and not torch_pins.is_complete():
        raise ToolchainError(
            f"flacheck's table has no release of torch that matches {specifiers}, and the package"
            " index could not be read for newer ones; check the network and the index settings"
        )
    if not admitted_pins:
        raise UsageError(
            f"no release of torch matches {specifiers}; there are {_list_near(specifiers)}"
        )
    all_triton = list(map(Version, triton_releases.known_releases()))
    newest_triton = {}
    for torch, pin in admitted_pins.items():
        fitting = list(SpecifierSet(pin).filter(all_triton))
        if fitting:
            newest_triton[torch] = str(fitting[-1])
    if not newest_triton:
        requirements = " and ".join(
            f"torch {torch} requires triton{p}" for torch, p in admitted_pins.items()
        )
        raise UsageError(f"{requirements}, but flacheck has no such release")
    return newest_triton


def _pins_within(specifiers: SpecifierSet) -> dict[str, str]:
    return {torch: pin for torch, pin in torch_pins.pins().items() if torch in specifiers}


def _list_near(specifiers: SpecifierSet) -> str:
    """Return the releases to list beside one that does not exist."""
    versions = list(map(Version, torch_pins.pins()))
    exact = [each.version for each in specifiers if each.operator in ("==", "===")]
    if len(exact) == 1:
        versions = index.near(Version(exact[0].removesuffix(".*")), versions)
    return ", ".join(map(str, versions))


def resolve(text: str) -> Resolution:
    """Return the choices for `==2.9.1` or another specifier of torch.

    A release without a wheel for this Python is kept with the reason if it was named exactly;
    otherwise it is a warning.
    """
    specifiers = SpecifierSet(text)
    triton_releases_required = dict.fromkeys(releases(specifiers).values())
    is_exact = re.fullmatch(r"={2,3}\s*[\d.]+", text) is not None
    choices: list[Choice] = []
    warnings: list[str] = []
    for triton in triton_releases_required:
        if is_exact:
            choices.append(triton_releases.exact(Version(triton)))
            continue
        resolution = triton_releases.matching(SpecifierSet(f"=={triton}"))
        choices += resolution.choices
        warnings += resolution.warnings
    return Resolution(tuple(choices), tuple(dict.fromkeys(warnings)))
