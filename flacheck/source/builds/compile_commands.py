"""`compile_commands.json`: one object a translation unit, as CMake, Bear and ninja write it."""

import json
import shlex
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError
from flacheck.source.builds.arguments import BuildUnit, BuildUnits, parse
from flacheck.source.builds.build_file import read_text

_MOST_BYTES = 64 << 20


def read(file: Path, root: Path) -> BuildUnits:
    """Return the units of the project in a compilation database of its own."""
    return read_entries(read_text(file, root, _MOST_BYTES), file, root)


def read_entries(text: str, file: Path, root: Path) -> BuildUnits:
    """Return the units of the project in the text of a compilation database."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MatrixError(str(file), None, f"cannot be read: {error}") from None
    if not isinstance(entries, list):
        raise MatrixError(str(file), None, "a compilation database is a list of objects")
    units = []
    for place, entry in enumerate(entries):
        unit = _unit(file, place, entry, root)
        if unit is not None:
            units.append(unit)
    return BuildUnits(tuple(units))


def _unit(file: Path, place: int, entry: Any, root: Path) -> BuildUnit | None:
    has_folder = isinstance(entry, dict) and isinstance(entry.get("directory"), str)
    arguments = None
    if has_folder and isinstance(entry.get("arguments"), list):
        arguments = [str(word) for word in entry["arguments"]]
    elif has_folder and isinstance(entry.get("command"), str):
        arguments = _words(entry["command"])
    if arguments is None:
        what = f"entry {place + 1} has no directory with a command or arguments"
        raise MatrixError(str(file), None, what)
    return parse(arguments, root / entry["directory"], root)


def _words(command: str) -> list[str] | None:
    try:
        return shlex.split(command)
    except ValueError:
        return None
