"""Compilers, each at an exact version and in a folder of its own.

`resolve` turns specifications into choices without installing anything; `provide` makes one ready.
This package does not depend on kernels or packages under test.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.specifiers import InvalidSpecifier
from packaging.version import InvalidVersion

from flacheck.errors import UsageError
from flacheck.toolchains import by_torch, cache, filling, triton_releases
from flacheck.toolchains.base import Choice, Family, NotInstalled, Resolution, Toolchain
from flacheck.toolchains.nvcc import Nvcc
from flacheck.toolchains.triton import Triton

FAMILIES: dict[str, Family] = {"triton": Triton(), "nvcc": Nvcc()}
_DEFAULT = "triton"
# The specification where none is given: the installed Triton, else the newest release.
DEFAULT_SPEC = "default"
_IDENTITY = re.compile(r"[A-Za-z][\w.-]*==")
_NAME_AND_SPEC = re.compile(r"([A-Za-z][\w.-]*)\s*(?=[<>=!~])(.+)")


def split_specs(text: str) -> list[str]:
    """Return `3.2.0,installed` and `>=3.2,<3.9,3.1.0` as separate specifications.

    A bound joins the one before it.
    """
    parts: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        is_bound = re.match(r"<|>|!=|~=|==.*\*$", part)
        if is_bound and parts and re.search(r"[<>!~]|\*$", parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def resolve(specs: Iterable[str]) -> Resolution:
    """Return the choices for specifications.

    A specification is `default` (the installed Triton, else the newest release), `installed`,
    `triton==3.2.0`, `3.2.0`, `>=3.2,<3.9`, a path, `torch==2.9.*`
    for the Triton releases that those of torch require, or `nvcc==13.1` or `nvcc==installed` for a
    CUDA toolkit.

    Raises UsageError for an unknown compiler or release, ToolchainError for one that cannot be
    looked up or installed. A release without a wheel is a choice with a reason if named by its
    exact version, else a warning.
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
    """Return the specifications in a text; a path may hold commas and is one."""
    if is_path(text):
        return [text]
    return split_specs(text)


def is_path(text: str) -> bool:
    """Return True for a wheel file, or a path with a slash.

    `NAME==VERSION` never is one: a store may hold it. A bare name is not a path either: a folder
    `3.2.0` in the current folder, which may be a stranger's, must not replace a release.
    """
    return not _IDENTITY.match(text) and (text.endswith(".whl") or "/" in text)


def _resolve(spec: str) -> Resolution:
    if spec == DEFAULT_SPEC:
        return _default()
    if spec == "installed":
        return Resolution((FAMILIES[_DEFAULT].find_installed(),))
    if is_path(spec):
        return Resolution((_family_at(spec).at(spec),))
    name, rest = _DEFAULT, spec
    match = _NAME_AND_SPEC.fullmatch(spec)
    if match:
        name, rest = match[1].lower(), match[2]
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
            f"{spec!r} is not a toolchain: give `installed`, a version (3.2.0), a PEP 440 specifier"
            " (>=3.2,<3.9) or a path"
        ) from error


def _default() -> Resolution:
    """Return the installed Triton, else its newest release with a warning that names it."""
    try:
        return Resolution((FAMILIES[_DEFAULT].find_installed(),))
    except NotInstalled:
        return triton_releases.newest()


def family_of(toolchain: str) -> Family:
    """Return the family of a compiler by its identity, `nvcc==13.0.88`."""
    return FAMILIES.get(toolchain.partition("==")[0], FAMILIES[_DEFAULT])


def language_of(specs: Iterable[str]) -> str:
    """Return the language of the specified compilers.

    Raises UsageError if they differ.
    """
    languages: dict[str, None] = {}
    for text in specs:
        for spec in _single_specs(text):
            languages[_family_of_spec(spec).language] = None
    if len(languages) > 1:
        raise UsageError(
            f"{' and '.join(languages)} are different languages: ask for the compilers of one"
        )
    return next(iter(languages), FAMILIES[_DEFAULT].language)


def _family_of_spec(spec: str) -> Family:
    if is_path(spec):
        return _family_at(spec)
    match = _NAME_AND_SPEC.fullmatch(spec)
    if match is None:
        return FAMILIES[_DEFAULT]
    return FAMILIES.get(match[1].lower(), FAMILIES[_DEFAULT])


def _family_at(path: str) -> Family:
    for family in FAMILIES.values():
        if family.holds(path):
            return family
    return FAMILIES[_DEFAULT]


def stages() -> tuple[str, ...]:
    """Return the stages of all families, each once."""
    names: dict[str, None] = {}
    for family in FAMILIES.values():
        names.update(dict.fromkeys(family.stages))
    return tuple(names)


class Resolver:
    """A function from toolchain specifications to names that resolves each only once.

    The resolver caches the compilers of each name.
    """

    def __init__(self) -> None:
        self.choices: dict[str, Choice] = {}
        self.warnings: list[str] = []
        self._names: dict[str, tuple[str, ...]] = {}

    def __call__(self, spec: str) -> tuple[str, ...]:
        if spec not in self._names:
            resolution = resolve([spec])
            self.warnings += resolution.warnings
            choices = {choice.identity: choice for choice in resolution.choices}
            self.choices |= choices
            self._names[spec] = tuple(choices)
        return self._names[spec]


def provide(choice: Choice) -> Toolchain:
    """Return a choice ready to run, installed if necessary.

    Raises ToolchainError if that fails.
    """
    return FAMILIES[choice.family].provide(choice)


def installed_toolchains() -> Iterator[cache.Shelf]:
    """Return the complete toolchains in the cache.

    Manifests hold name, version, identity, size_mb and installer.
    """
    return cache.shelves("toolchains")


def remove(identities: Sequence[str]) -> list[cache.Shelf]:
    """Remove releases (`triton==3.2.0` or `3.2.0`) from the cache and return them.

    Raises UsageError for a release that is not installed.
    """
    shelves_by_path: dict[Path, cache.Shelf] = {}
    shelves = list(installed_toolchains())
    for name in identities:
        matching = {}
        for shelf in shelves:
            manifest = shelf.manifest
            if name in (manifest.get("identity"), manifest.get("version"), shelf.path.name):
                matching[shelf.path] = shelf
        if not matching:
            there = ", ".join(each.manifest.get("identity", each.path.name) for each in shelves)
            raise UsageError(f"{name} is not in {cache.root()}; there is {there or 'nothing'}")
        shelves_by_path |= matching
    filling.discard(shelves_by_path)
    return list(shelves_by_path.values())
