"""Pins in a pyproject.toml: PEP 621 dependencies and extras, dependency groups (PEP 735), Poetry's
tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flacheck.config import toml
from flacheck.errors import UsageError
from flacheck.gate.pinned import Pin, Scope, place
from flacheck.gate.sources import poetry, requirement
from flacheck.gate.sources.text import read_text


def read(path: Path, shown: str, warn: Callable[[str], None]) -> list[Scope]:
    """The project's own pins as one scope, each extra and each group as another."""
    text = read_text(path, shown)
    return list(Document(toml.loads(text, shown), text, shown, warn).scopes())


@dataclass(frozen=True)
class Document:
    """A parsed pyproject with the text it came from."""

    table: Mapping[str, Any]
    text: str
    shown: str
    warn: Callable[[str], None]

    @cached_property
    def lines(self) -> Mapping[toml.Path, int]:
        return toml.lines(self.text)

    def where(self, path: toml.Path) -> str:
        """File and line of a value, for a message."""
        return place(self.shown, self.line(path))

    def line(self, path: toml.Path) -> int | None:
        """The line of the first string in a value, else of its key; None where that cannot be told."""
        inside = (line for found, line in self.lines.items() if found[: len(path)] == path)
        return self.lines.get(path) or next(inside, None) or self._key_line(path)

    def _key_line(self, path: toml.Path) -> int | None:
        """The line of the last key, when no other line begins with the like."""
        key = re.escape(next((key for key in reversed(path) if isinstance(key, str)), ""))
        stands = re.finditer(
            rf"""^[ \t]*(?:\[[^\]\n]*\b)?["']?{key}["']?[ \t]*[=\]]""", self.text, re.MULTILINE
        )
        lines = [self.text.count("\n", 0, match.start()) + 1 for match in stands]
        return lines[0] if len(lines) == 1 else None

    def at(self, *keys: str, kind: type = dict) -> Any:
        """The table (or list) at a path, empty when it is absent; a UsageError when it is something
        else.
        """
        found: Any = self.table
        for depth, key in enumerate(keys):
            found = found.get(key, {} if depth < len(keys) - 1 else kind())
            wanted = kind if depth == len(keys) - 1 else dict
            if not isinstance(found, wanted):
                name = "a list" if wanted is list else "a table"
                raise UsageError(
                    f"{self.where(keys[: depth + 1])}: {'.'.join(keys[: depth + 1])} must be {name}"
                )
        return found

    def scopes(self) -> Iterator[Scope]:
        of_poetry, *scopes = poetry.scopes(self)
        yield Scope(None, (*self._listed(("project", "dependencies")), *of_poetry.pins))
        for extra in self.at("project", "optional-dependencies"):
            yield Scope(f"extra {extra}", tuple(self._extra(extra, ())))
        for group in self.at("dependency-groups"):
            yield Scope(f"group {group}", tuple(self._group(group, ())))
        yield from scopes

    def _listed(self, path: toml.Path, extras: tuple[str, ...] = ()) -> Iterator[Pin]:
        """The pins of a list of requirements; one of the project itself stands for its extras."""
        keys = tuple(map(str, path))
        for index, text in enumerate(self.at(*keys, kind=list)):
            asked = self._requirement(text, (*path, index))
            if canonicalize_name(asked.name) == self._own_name and requirement.holds(
                asked, self.where((*path, index))
            ):
                for extra in sorted(asked.extras):
                    yield from self._extra(extra, extras)
            else:
                yield from self._pin(asked, text, (*path, index))

    def _extra(self, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
        tables = self.at("project", "optional-dependencies")
        found = _same(name, tables)
        if found is not None and found not in through:
            yield from self._listed(("project", "optional-dependencies", found), (*through, found))

    def _group(self, name: str, through: tuple[str, ...]) -> Iterator[Pin]:
        for index, entry in enumerate(self.at("dependency-groups", name, kind=list)):
            path = ("dependency-groups", name, index)
            if isinstance(entry, dict):
                yield from self._group(
                    self._included(entry, path, (*through, name)), (*through, name)
                )
            else:
                yield from self._pin(self._requirement(entry, path), entry, path)

    def _included(self, entry: Mapping[str, Any], path: toml.Path, through: tuple[str, ...]) -> str:
        """The group that an entry of another includes; a UsageError for an unknown one and for a
        circle.
        """
        wanted = str(entry.get("include-group"))
        found = _same(wanted, self.at("dependency-groups"))
        if set(entry) != {"include-group"} or found is None:
            raise UsageError(
                f"{self.where(path)}: there is no dependency group {wanted!r} to include"
            )
        if found in through:
            raise UsageError(
                f"{self.where(path)}: dependency groups include each other: {' → '.join((*through, found))}"
            )
        return found

    def _requirement(self, text: Any, path: toml.Path) -> Requirement:
        if not isinstance(text, str):
            raise UsageError(
                f'{self.where(path)}: a requirement is a text such as "triton>=3.4", not {text!r}'
            )
        return requirement.parsed(text, self.where(path))

    def _pin(self, asked: Requirement, text: str, path: toml.Path) -> Iterator[Pin]:
        found = requirement.pin(asked, text, self.shown, self.line(path), self.warn, keys=path)
        yield from [found] if found else []

    @cached_property
    def _own_name(self) -> str:
        return canonicalize_name(str(self.at("project").get("name", "")))


def _same(name: str, names: Mapping[str, Any]) -> str | None:
    """The name as the file writes it: PEP 503 makes no difference between `cu_12` and `CU-12`."""
    return next(
        (known for known in names if canonicalize_name(known) == canonicalize_name(name)), None
    )
