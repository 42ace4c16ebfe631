"""Where a setting comes from: the flag, then FLACHECK_*, then the nearest [tool.flacheck], then the
default.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flacheck.errors import UsageError

if TYPE_CHECKING:
    from flacheck.config.waivers import Waiver

_REPEATABLE = ("kernel", "target", "dtype", "num_warps", "num_stages", "toolchain", "triton")


def defaults(app: typer.Typer) -> dict[str, Any]:
    """The nearest pyproject's [tool.flacheck] as defaults of every command; wrong ones end the
    program here.
    """
    try:
        table = nearest(Path.cwd())
    except UsageError as error:
        print(f"flacheck: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    own = {
        key: _listed(key, value)
        for key, value in ((key.replace("-", "_"), table[key]) for key in table)
    }
    return {str(command.name): own for command in app.registered_commands} if own else {}


def _listed(name: str, value: Any) -> Any:
    """`target = "sm90"` is as good as `target = ["sm90"]`."""
    return [value] if name in _REPEATABLE and not isinstance(value, list) else value


def waivers() -> tuple[Waiver, ...]:
    """The waivers of the nearest [tool.flacheck]; a UsageError for a malformed one."""
    from flacheck.config.waivers import read

    file = _file(Path.cwd())
    return read(_table(file).get("waivers", []), str(file)) if file else ()


def nearest(folder: Path) -> dict[str, Any]:
    file = _file(folder)
    return _table(file) if file else {}


def _file(folder: Path) -> Path | None:
    files = (parent / "pyproject.toml" for parent in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def _table(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    if "flacheck" not in text:
        return {}
    from flacheck.config import toml

    table = toml.loads(text, str(file)).get("tool", {}).get("flacheck", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.flacheck] must be a table")
    return table
