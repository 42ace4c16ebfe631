"""Pins in a pyproject.toml: dependencies, extras (PEP 621), groups (PEP 735), Poetry's tables."""

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import poetry, requirement
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument
from flacheck.errors import UsageError
from flacheck.tables.settings import toml


def read(file: PinFile) -> list[LabelledPin]:
    """Return the project's own pins, and those of each extra and group with its label."""
    document = TomlDocument.read(file)
    poetry_pins = list(poetry.pins(document))
    pins: list[LabelledPin] = []
    for pin in _list_pins(document, ("project", "dependencies"), ()):
        pins.append((None, pin))
    for extra in document.at("project", "optional-dependencies"):
        for pin in _extra(document, extra, ()):
            pins.append((f"extra {extra}", pin))
    for group in document.at("dependency-groups"):
        for pin in _group(document, group, ()):
            pins.append((f"group {group}", pin))
    return pins + poetry_pins


def _list_pins(
    document: TomlDocument, path: tuple[str, ...], extras: tuple[str, ...]
) -> Iterator[Pin]:
    """Yield the pins of a list of requirements; `extras` are the extras that led here."""
    own_name = canonicalize_name(str(document.at("project").get("name", "")))
    for index, text in enumerate(document.at(*path, kind=list)):
        entry: toml.Path = (*path, index)
        dependency = _requirement(document, text, entry)
        is_own = canonicalize_name(dependency.name) == own_name
        if is_own and requirement.holds(dependency.marker, document.where(entry)):
            for extra in sorted(dependency.extras):
                yield from _extra(document, extra, extras)
        else:
            yield from _pin(document, dependency, text, entry)


def _extra(document: TomlDocument, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
    """Yield the pins of an extra, and of the project's own extras that it requires."""
    extra = _as_written(name, document.at("project", "optional-dependencies"))
    # Extras may require each other, so each is read once.
    if extra is not None and extra not in through:
        path = ("project", "optional-dependencies", extra)
        yield from _list_pins(document, path, (*through, extra))


def _group(document: TomlDocument, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
    """Yield the pins of a dependency group, and of the groups that it includes."""
    through = (*through, name)
    for index, entry in enumerate(document.at("dependency-groups", name, kind=list)):
        path = ("dependency-groups", name, index)
        if not isinstance(entry, dict):
            yield from _pin(document, _requirement(document, entry, path), entry, path)
            continue
        other, where = str(entry.get("include-group")), document.where(path)
        group = _as_written(other, document.at("dependency-groups"))
        if set(entry) != {"include-group"} or group is None:
            raise UsageError(f"{where}: there is no dependency group {other!r} to include")
        if group in through:
            circle = " → ".join((*through, group))
            raise UsageError(f"{where}: dependency groups include each other: {circle}")
        yield from _group(document, group, through)


def _requirement(document: TomlDocument, text: Any, path: toml.Path) -> Requirement:
    """Return the parsed requirement at a path."""
    where = document.where(path)
    if not isinstance(text, str):
        raise UsageError(f'{where}: a requirement is a text such as "triton>=3.4", not {text!r}')
    return requirement.parse(text, where)


def _pin(
    document: TomlDocument, dependency: Requirement, text: str, path: toml.Path
) -> Iterator[Pin]:
    """Yield the pin of a requirement, if it has one."""
    pin = requirement.pin(dependency, text, document.file, document.line(path), keys=path)
    if pin:
        yield pin


def _as_written(name: str, names: Iterable[str]) -> str | None:
    """Return the name as the file spells it; by PEP 503 `cu_12` and `CU-12` are one name."""
    for spelling in names:
        if canonicalize_name(spelling) == canonicalize_name(name):
            return spelling
    return None
