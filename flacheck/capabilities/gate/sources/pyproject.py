"""Pins in a pyproject.toml: dependencies, extras (PEP 621), groups (PEP 735), Poetry's tables."""

from collections.abc import Iterable, Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flacheck.capabilities.gate.pins import LabelledPin, Pin
from flacheck.capabilities.gate.sources import poetry, requirement
from flacheck.capabilities.gate.sources.pin_files import PinFile, TomlDocument
from flacheck.config import toml
from flacheck.errors import UsageError


def read(file: PinFile) -> list[LabelledPin]:
    """The project's own pins, and those of each extra and group under its label."""
    document = TomlDocument.read(file)
    of_poetry = list(poetry.pins(document))
    pins: list[LabelledPin] = []
    pins += ((None, pin) for pin in _listed(document, ("project", "dependencies"), ()))
    for extra in document.at("project", "optional-dependencies"):
        pins += ((f"extra {extra}", pin) for pin in _extra(document, extra, ()))
    for group in document.at("dependency-groups"):
        pins += ((f"group {group}", pin) for pin in _group(document, group, ()))
    return pins + of_poetry


def _listed(
    document: TomlDocument, path: tuple[str, ...], extras: tuple[str, ...]
) -> Iterator[Pin]:
    """The pins in a list of requirements; `extras` are those that led here."""
    own_name = canonicalize_name(str(document.at("project").get("name", "")))
    for index, text in enumerate(document.at(*path, kind=list)):
        entry: toml.Path = (*path, index)
        asked = _requirement(document, text, entry)
        is_own = canonicalize_name(asked.name) == own_name
        if is_own and requirement.holds(asked.marker, document.where(entry)):
            for extra in sorted(asked.extras):
                yield from _extra(document, extra, extras)
        else:
            yield from _pin(document, asked, text, entry)


def _extra(document: TomlDocument, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
    """The pins of an extra, and of extras that it asks of the project itself."""
    extra = _as_written(name, document.at("project", "optional-dependencies"))
    # Extras may ask for each other: pip takes each once.
    if extra is not None and extra not in through:
        path = ("project", "optional-dependencies", extra)
        yield from _listed(document, path, (*through, extra))


def _group(document: TomlDocument, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
    """The pins of a dependency group, and of those that it includes."""
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
    where = document.where(path)
    if not isinstance(text, str):
        raise UsageError(f'{where}: a requirement is a text such as "triton>=3.4", not {text!r}')
    return requirement.parsed(text, where)


def _pin(document: TomlDocument, asked: Requirement, text: str, path: toml.Path) -> Iterator[Pin]:
    pin = requirement.pin(asked, text, document.file, document.line(path), keys=path)
    if pin:
        yield pin


def _as_written(name: str, names: Iterable[str]) -> str | None:
    """The name as the file writes it: PEP 503 makes no difference between `cu_12` and `CU-12`."""
    original_text = {canonicalize_name(known): known for known in reversed(list(names))}
    return original_text.get(canonicalize_name(name))
