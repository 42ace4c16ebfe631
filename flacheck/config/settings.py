"""The nearest `[tool.flacheck]`, read after flags and variables and before a command's default."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.config import toml
from flacheck.config.waivers import Waiver, from_toml
from flacheck.errors import UsageError

_TABLE = ("tool", "flacheck")
WAIVERS = "waivers"


@dataclass(frozen=True)
class ProjectSettings:
    """The `[tool.flacheck]` table of a project, by its keys; `file` is None without one."""

    file: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def where(self, *keys: str | int) -> str:
        """Return `pyproject.toml:12` for a value.

        `keys` are the keys and indices below the table; the file is relative to the current folder.
        """
        line = toml.line_of(self.text, (*_TABLE, *keys))
        return f"{os.path.relpath(str(self.file))}:{line}"


def read(folder: Path) -> ProjectSettings:
    """Return the settings of a folder's project.

    Raises UsageError for a file that is not valid TOML.
    """
    file = _find_nearest(folder)
    if file is None:
        return ProjectSettings()
    text = file.read_text(encoding="utf-8", errors="replace")
    # A project's file that does not mention flacheck may be malformed.
    if "flacheck" not in text:
        return ProjectSettings()
    table = toml.loads(text, str(file)).get("tool", {}).get("flacheck", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.flacheck] must be a table")
    return ProjectSettings(file, table, text)


def waivers(folder: Path) -> tuple[Waiver, ...]:
    """Return the waivers of a folder's project.

    Raises UsageError for a malformed one.
    """
    settings = read(folder)
    entries = settings.values.get(WAIVERS, [])
    return from_toml(entries, lambda *place: settings.where(WAIVERS, *place))


def _find_nearest(folder: Path) -> Path | None:
    """Return the pyproject.toml of the folder or of the closest one above it."""
    for parent in (folder, *folder.parents):
        if (parent / "pyproject.toml").is_file():
            return parent / "pyproject.toml"
    return None
