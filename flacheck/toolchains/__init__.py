"""Compilers, each at an exact version and in a folder of its own.

`resolve` turns what a user asked for into choices without installing anything; `provide` makes one
ready.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from flacheck.errors import UsageError
from flacheck.toolchains import by_torch, cache, filling
from flacheck.toolchains.base import Choice, Family, Resolution, Toolchain
from flacheck.toolchains.nvcc import Nvcc
from flacheck.toolchains.nvrtc import Nvrtc
from flacheck.toolchains.triton import Triton

FAMILIES: dict[str, Family] = {"triton": Triton(), "nvcc": Nvcc(), "nvrtc": Nvrtc()}
_DEFAULT = "triton"
_IDENTITY = re.compile(r"[A-Za-z][\w.-]*==")
_NAMED = re.compile(r"([A-Za-z][\w.-]*)\s*(?=[<>=!~])(.+)")


def split_specs(text: str) -> list[str]:
    """`3.2.0,installed` and `>=3.2,<3.9,3.1.0` as separate specifications: a bound joins the one
    before it."""
    parts: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        is_bound = re.match(r"<|>|!=|~=|==.*\*$", part)
        if is_bound and parts and re.search(r"[<>!~]|\*$", parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def resolve(specs: Iterable[str]) -> Resolution:
    """The choices for specifications: `installed`, `triton==3.2.0`, `3.2.0`, `>=3.2,<3.9`, a path,
    `torch==2.9.*` for the Triton releases that those of torch require, `nvcc==13.1` or
    `nvcc==installed` for a CUDA toolkit, `nvrtc==12.4` for an older one's device code alone.

    Raises UsageError for what does not exist, ToolchainError for what cannot be known or had. A
    release without a wheel is a choice with a reason when asked for by its exact version, else a
    warning.
    """
    choices: dict[str, Choice] = {}
    warnings: list[str] = []
    for text in specs:
        for spec in _single_specs(text):
            resolution = _resolve(spec)
            warnings += resolution.warnings
            for choice in resolution.choices:
                choices.setdefault(choice.identity, choice)
    return Resolution(tuple(choices.values()), tuple(dict.fromkeys(warnings)))


def _single_specs(text: str) -> list[str]:
    """The specifications in a text; a path may hold commas and is one."""
    if _is_path(text):
        return [text]
    return split_specs(text)


def _is_path(text: str) -> bool:
    """Return True for a file or folder. `NAME==VERSION` never is one, for a store may hold it."""
    if _IDENTITY.match(text):
        return False
    return text.endswith(".whl") or "/" in text or Path(text).is_dir()


def _resolve(spec: str) -> Resolution:
    if spec == "installed":
        return Resolution((FAMILIES[_DEFAULT].find_installed(),))
    if _is_path(spec):
        holding = [family for family in FAMILIES.values() if family.holds(spec)]
        return Resolution((next(iter(holding), FAMILIES[_DEFAULT]).at(spec),))
    name, rest = _DEFAULT, spec
    named = _NAMED.fullmatch(spec)
    if named:
        name, rest = named[1].lower(), named[2]
    if name not in FAMILIES and name != by_torch.NAME:
        raise UsageError(f"unknown toolchain {name!r} in {spec!r}; there are {', '.join(FAMILIES)}")
    try:
        if name == by_torch.NAME:
            return by_torch.resolve(rest)
        if rest.lstrip("= ") == "installed":
            return Resolution((FAMILIES[name].find_installed(),))
        return FAMILIES[name].resolve(rest)
    except (InvalidVersion, InvalidSpecifier) as error:
        raise UsageError(
            f"{spec!r} is no toolchain: give `installed`, a version (3.2.0), a PEP 440 specifier"
            " (>=3.2,<3.9) or a path"
        ) from error


def family_of(toolchain: str) -> Family:
    """The family of a compiler by its identity, `nvcc==13.0.88`."""
    return FAMILIES.get(toolchain.partition("==")[0], FAMILIES[_DEFAULT])


def language_of(specs: Iterable[str]) -> str:
    """What the compilers of specifications compile; UsageError where they differ."""
    single = [spec for text in specs for spec in _single_specs(text)]
    languages = dict.fromkeys(_family_asked(spec).language for spec in single)
    if len(languages) > 1:
        raise UsageError(
            f"{' and '.join(languages)} are different languages: ask for the compilers of one"
        )
    return next(iter(languages), FAMILIES[_DEFAULT].language)


def _family_asked(spec: str) -> Family:
    named = _NAMED.fullmatch(spec)
    if _is_path(spec):
        holding = [family for family in FAMILIES.values() if family.holds(spec)]
        return next(iter(holding), FAMILIES[_DEFAULT])
    return FAMILIES.get(named[1].lower() if named else _DEFAULT, FAMILIES[_DEFAULT])


def stages() -> tuple[str, ...]:
    """The stages of all families, each once."""
    names = dict.fromkeys(stage for family in FAMILIES.values() for stage in family.stages)
    return tuple(names)


class Resolver:
    """Toolchain specifications to names, each asked once; keeps the choices behind the names."""

    def __init__(self) -> None:
        self.choices: dict[str, Choice] = {}
        self.warnings: list[str] = []
        self._names: dict[str, tuple[str, ...]] = {}

    def __call__(self, spec: str) -> tuple[str, ...]:
        if spec not in self._names:
            resolution = resolve([spec])
            self.warnings += resolution.warnings
            self.choices |= {choice.identity: choice for choice in resolution.choices}
            self._names[spec] = tuple(choice.identity for choice in resolution.choices)
        return self._names[spec]


def provide(choice: Choice) -> Toolchain:
    """Make a choice ready to run, installing it when it is not there; ToolchainError when that
    fails."""
    return FAMILIES[choice.family].provide(choice)


def installed_toolchains() -> Iterator[cache.Shelf]:
    """What is complete in the cache; manifests hold name, version, identity, size_mb, installer."""
    return cache.shelves("toolchains")


def remove(identities: Sequence[str]) -> list[cache.Shelf]:
    """Remove releases (`triton==3.2.0` or `3.2.0`) from the cache and say which; UsageError for
    what is not there."""
    chosen: dict[Path, cache.Shelf] = {}
    shelves = list(installed_toolchains())
    for name in identities:
        named = {}
        for shelf in shelves:
            manifest = shelf.manifest
            if name in (manifest.get("identity"), manifest.get("version"), shelf.path.name):
                named[shelf.path] = shelf
        if not named:
            there = ", ".join(each.manifest.get("identity", each.path.name) for each in shelves)
            raise UsageError(f"{name} is not in {cache.root()}; there is {there or 'nothing'}")
        chosen |= named
    filling.discard(chosen)
    return list(chosen.values())
