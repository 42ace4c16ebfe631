"""Settings: the user's own file, and the nearest `[tool.flacheck]`.

They are read after flags and variables and before a command's default. The user's file may set any
option. A project's table comes with a checkout, which may be a stranger's: it may only select.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.errors import UsageError
from flacheck.tables.settings import toml
from flacheck.tables.settings.waivers import Waiver, from_toml

_TABLE = ("tool", "flacheck")
WAIVERS = "waivers"


@dataclass(frozen=True)
class SettingsFile:
    """The settings in a file, by their keys; `file` is None without one.

    `table` is the path of their table in the file.
    """

    file: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    table: tuple[str, ...] = _TABLE

    def where(self, *keys: str | int) -> str:
        """Return `pyproject.toml:12` for a value.

        `keys` are the keys and indices below the table. A project's file is relative to the current
        folder.
        """
        line = toml.line_of(self.text, (*self.table, *keys))
        if not self.table:
            return f"{self.file}:{line}"
        return f"{os.path.relpath(str(self.file))}:{line}"


def user_file() -> Path:
    """Return `$XDG_CONFIG_HOME/flacheck/config.toml` or `~/.config/flacheck/config.toml`."""
    shared = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(shared).absolute() / "flacheck" / "config.toml"


def read_user() -> SettingsFile:
    """Return the user's own settings.

    Raises UsageError for a file that is not valid TOML.
    """
    file = user_file()
    if not file.is_file():
        return SettingsFile(table=())
    # Many users keep their settings elsewhere, and link to them.
    text = files.read_text(file, links=True, errors="replace")
    return SettingsFile(file, toml.loads(text, str(file)), text, table=())


def read(folder: Path) -> SettingsFile:
    """Return the settings of a folder's project.

    Raises UsageError for a file that is not valid TOML.
    """
    file = _find_nearest(folder)
    if file is None:
        return SettingsFile()
    text = files.read_text(file, errors="replace")
    # A project's file that does not mention flacheck may be malformed.
    if "flacheck" not in text:
        return SettingsFile()
    table = toml.loads(text, str(file)).get("tool", {}).get("flacheck", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.flacheck] must be a table")
    return SettingsFile(file, table, text)


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
