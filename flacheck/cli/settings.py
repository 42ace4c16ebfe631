"""Where a setting comes from: the flag, then FLACHECK_*, then the nearest [tool.flacheck], then the default."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from flacheck.errors import UsageError


def defaults(app: typer.Typer) -> dict[str, Any]:
    """The nearest pyproject's [tool.flacheck] as defaults of every command; wrong ones end the program here."""
    try:
        table = nearest(Path.cwd())
    except UsageError as error:
        print(f"flacheck: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    own = {key.replace("-", "_"): value for key, value in table.items()}
    return {str(command.name): own for command in app.registered_commands} if own else {}


def nearest(folder: Path) -> dict[str, Any]:
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        if file.is_file():
            return _table(file)
    return {}


def _table(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    if "flacheck" not in text:
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(text).get("tool", {}).get("flacheck", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.flacheck] must be a table")
    return table
