"""The nearest `[tool.flacheck]`: it comes after flags and variables, before a command's default."""

from pathlib import Path
from typing import Any

from flacheck.config import toml
from flacheck.config.waivers import Waiver, from_toml
from flacheck.errors import UsageError

# Options that may be given several times: Typer takes a list for their default.
_REPEATABLE = ("kernel", "target", "dtype", "num_warps", "num_stages", "toolchain", "triton")


def defaults(folder: Path) -> dict[str, Any]:
    """Every setting as the default of the option with that name, for all commands alike; `target =
    "sm90"` is as good as `target = ["sm90"]`. Raises UsageError for a file that is no TOML."""
    options = {}
    for key, value in _table(_nearest(folder)).items():
        name = key.replace("-", "_")
        if name in _REPEATABLE and not isinstance(value, list):
            value = [value]
        options[name] = value
    return options


def waivers(folder: Path) -> tuple[Waiver, ...]:
    """The waivers of a folder's project; a UsageError for a malformed one."""
    file = _nearest(folder)
    return from_toml(_table(file).get("waivers", []), str(file))


def _nearest(folder: Path) -> Path | None:
    """The pyproject.toml of the folder or of the closest one above it."""
    for parent in (folder, *folder.parents):
        if (parent / "pyproject.toml").is_file():
            return parent / "pyproject.toml"
    return None


def _table(file: Path | None) -> dict[str, Any]:
    """What `[tool.flacheck]` holds, empty without such a table."""
    if file is None:
        return {}
    text = file.read_text(encoding="utf-8", errors="replace")
    # A project's file that says nothing of flacheck may be as broken as it likes.
    if "flacheck" not in text:
        return {}
    table = toml.loads(text, str(file)).get("tool", {}).get("flacheck", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.flacheck] must be a table")
    return table
