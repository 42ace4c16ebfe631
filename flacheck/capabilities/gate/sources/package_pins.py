"""Packages with published results that files with pins name, beside torch and Triton."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.capabilities.gate.sources import poetry, pylock, requirement, requirements
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument


@dataclass(frozen=True)
class PackagePin:
    """A requirement on a package; `version` is None if it admits several versions."""

    name: str
    version: str | None
    where: str

    @property
    def about(self) -> str:
        """`flash-linear-attention==0.6.0 (requirements.txt:3)`."""
        version = f"=={self.version}" if self.version else ""
        return f"{self.name}{version} ({self.where})"


def of_file(file: PinFile, names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of these names that a file requires on Linux.

    The file was read for its pins of torch and Triton before, and what is malformed is an error
    there.
    """
    if file.path.suffix == ".lock" or pylock.NAME.fullmatch(file.path.name):
        yield from _of_lock(TomlDocument.read(file), names)
    elif file.path.suffix == ".toml":
        document = TomlDocument.read(file)
        yield from _of_requirements(document, names)
        yield from _of_poetry(document, names)
    else:
        yield from _of_lines(file, names)


def installed(names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of these names in the live environment."""
    for name in sorted(names):
        with suppress(metadata.PackageNotFoundError):
            yield PackagePin(name, _plain(metadata.version(name)), "installed")


def _of_lock(document: TomlDocument, names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of a uv.lock or a pylock.toml."""
    for table in ("package", "packages"):
        for index, package in enumerate(document.table.get(table, ())):
            name, version = package.get("name"), package.get("version")
            if name in names and isinstance(version, str):
                where = document.where((table, index, "version"))
                if requirement.may_hold(package.get("marker"), where):
                    yield PackagePin(name, _plain(version), where)


def _of_lines(file: PinFile, names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of a requirements file and of those that it includes."""
    for included, number, text in requirements.plain_requirements(file):
        with requirements.quoting(included, number):
            parsed = requirement.parse(text, included.where(number))
        yield from _of_requirement(parsed, included.where(number), names)


def _of_requirements(document: TomlDocument, names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of a project's dependencies, extras and groups."""
    lists: list[tuple[tuple[str, ...], Iterable[Any]]] = []
    lists.append((("project", "dependencies"), document.at("project", "dependencies", kind=list)))
    for extra, entries in document.at("project", "optional-dependencies").items():
        lists.append((("project", "optional-dependencies", extra), entries))
    for group, entries in document.at("dependency-groups").items():
        lists.append((("dependency-groups", group), entries))
    for path, entries in lists:
        for index, text in enumerate(entries):
            # A group may include another, which is read on its own.
            if not isinstance(text, str):
                continue
            with suppress(InvalidRequirement):
                where = document.where((*path, index))
                yield from _of_requirement(Requirement(text), where, names)


def _of_poetry(document: TomlDocument, names: Collection[str]) -> Iterator[PackagePin]:
    """Yield the packages of Poetry's tables."""
    tables: list[tuple[str, ...]] = [("dependencies",), ("dev-dependencies",)]
    for group in document.at("tool", "poetry", "group"):
        tables.append(("group", group, "dependencies"))
    for table in tables:
        for key, entry in document.at("tool", "poetry", *table).items():
            name = canonicalize_name(key)
            if name not in names:
                continue
            where = document.where(("tool", "poetry", *table, key))
            text = entry.get("version", "") if isinstance(entry, Mapping) else entry
            specifier = poetry.pep440(text, where) if isinstance(text, str) else ""
            yield PackagePin(name, _exact(specifier), where)


def _of_requirement(
    parsed: Requirement, where: str, names: Collection[str]
) -> Iterator[PackagePin]:
    name = canonicalize_name(parsed.name)
    if name in names and requirement.holds(parsed.marker, where):
        yield PackagePin(name, _exact(str(parsed.specifier)), where)


def _exact(specifier: str) -> str | None:
    """Return the version of an exact requirement; None for another."""
    with suppress(InvalidSpecifier):
        clauses = list(SpecifierSet(specifier))
        if len(clauses) == 1 and clauses[0].operator in ("==", "==="):
            return _plain(clauses[0].version)
    return None


def _plain(version: str) -> str | None:
    """Return a version as packages write it, without a build; None for `0.6.*`."""
    with suppress(InvalidVersion):
        return Version(version).public
    return None
