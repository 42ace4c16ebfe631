"""The `-D` options by which a project's Python build would configure its CMake project."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.source.builds.build_file import is_file, read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1 << 20


def read(root: Path, script_options: Sequence[str]) -> dict[str, str]:
    """Return the options of a project by name: its script's, and scikit-build's table's."""
    options: dict[str, str] = {}
    for option in script_options:
        options |= _split(option)
    with contextlib.suppress(MatrixError):
        if is_file(root / "pyproject.toml"):
            options |= _of_project_file(root / "pyproject.toml", root)
    return options


def _of_project_file(file: Path, root: Path) -> dict[str, str]:
    try:
        tables: Any = tomllib.loads(read_text(file, root, _MOST_BYTES))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    for name in ("tool", "scikit-build", "cmake"):
        tables = tables.get(name)
        if not isinstance(tables, Mapping):
            return {}
    options: dict[str, str] = {}
    arguments = tables.get("args")
    for argument in arguments if isinstance(arguments, list) else []:
        options |= _split(str(argument))
    defines = tables.get("define")
    for name, value in defines.items() if isinstance(defines, Mapping) else ():
        if isinstance(value, bool):
            value = "ON" if value else "OFF"
        if isinstance(value, (str, int, float)):
            options[name] = str(value)
    return options


def _split(text: str) -> dict[str, str]:
    """Return the option in a text as `-DNAME=VALUE` or `-DNAME:TYPE=VALUE`, as a mapping."""
    definition, equals, value = text.strip().partition("=")
    name = definition.removeprefix("-D").partition(":")[0]
    if not definition.startswith("-D") or not equals or not name.isidentifier():
        return {}
    return {name: value}
