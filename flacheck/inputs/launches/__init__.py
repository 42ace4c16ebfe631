"""Reading launches files: recorded launches as data, checked line by line.

Nothing in a file is believed: its source is admitted by `admission`, its values by the types of
`recorded` and by the forms of a launch. `choosing` makes of them what a scan expands.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, structs

from flacheck.errors import MatrixError, UsageError
from flacheck.inputs.launches.admission import check_source
from flacheck.inputs.launches.choosing import (
    group_launches,
    one_each,
    shared,
    sources,
    without_refused,
)
from flacheck.inputs.launches.entries import (
    CallPath,
    DefinedAt,
    Entry,
    Guess,
    Launches,
    Memory,
    NamedPath,
    Note,
    RecordedLaunch,
    Repetition,
    TensorPlacement,
)
from flacheck.inputs.matrix import unreadable
from flacheck.model import Json
from flacheck.model.launch import LAUNCHES_SCHEMA as SCHEMA
from flacheck.model.launch import (
    FormError,
    LaunchForm,
    check_options,
    check_plain,
    with_known_dtypes,
)

__all__ = [
    "CallPath",
    "DefinedAt",
    "Guess",
    "Launches",
    "Memory",
    "RecordedLaunch",
    "TensorPlacement",
    "at",
    "group_launches",
    "one_each",
    "read",
    "shared",
    "sources",
    "stream",
    "without_refused",
]

# A recorded launch leaves nothing open.
_FORM = LaunchForm()
# Hex digits of a source's digest: fewer could be made to collide.
_SHORTEST_DIGEST = 16

# How a launches file writes numbers that JSON does not have, and the fields that hold constants.
_WORDS = ("inf", "-inf", "nan")
_OF_CONSTANTS = ("constexpr", "configs", "options")


def read(path: Path, ours: bool = False, trust: bool = False) -> Launches:
    """Every distinct launch once, with its count. Raises MatrixError with file and line.

    A source that is refused leaves its kernel without one: in a file of `ours`, just captured,
    without a word, else with the reason; in a file that the user trusts it is kept.
    """
    launches: dict[str, RecordedLaunch] = {}
    counts: dict[str, int] = {}
    paths: dict[str, dict[CallPath, None]] = {}
    notes: list[Mapping[str, Any]] = []
    for entry in stream(path, ours, trust):
        if isinstance(entry, RecordedLaunch):
            launches.setdefault(entry.id, entry)
            counts[entry.id] = counts.get(entry.id, 0) + entry.count
            if entry.paths is not None:
                paths.setdefault(entry.id, {}).update(dict.fromkeys(entry.paths))
        elif isinstance(entry, Repetition):
            counts[entry.of] = counts.get(entry.of, 0) + entry.count
            if entry.paths:
                paths.setdefault(entry.of, {}).update(dict.fromkeys(entry.paths))
        elif isinstance(entry, Note):
            notes.append(entry.content)
    counted = []
    for key, each in launches.items():
        came = tuple(paths[key]) if key in paths else None
        counted.append(structs.replace(each, count=counts[key], paths=came))
    end = notes[-1] if "end" in notes[-1] else None
    return Launches(notes[0], tuple(counted), end)


def at(path: Path, line: int, trust: bool = False) -> RecordedLaunch:
    """The launch on a line of the file (from 1), or the one that the line counts. UsageError when
    there is none."""
    found: dict[str, RecordedLaunch] = {}
    for number, entry in enumerate(stream(path, trust=trust), 1):
        if isinstance(entry, RecordedLaunch):
            found.setdefault(entry.id, entry)
        if number == line and isinstance(entry, RecordedLaunch | Repetition):
            named = entry.id if isinstance(entry, RecordedLaunch) else entry.of
            if named in found:
                return found[named]
    raise UsageError(
        f"{path}:{line}: no launch is on that line; a launch's line has a kernel and a launch in it"
    )


def stream(path: Path, ours: bool = False, trust: bool = False) -> Iterator[Entry]:
    """The file's entries as they stand, a header first."""
    reader = _LaunchesReader(str(path), ours, trust)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n") or line.strip():
                    yield from reader.entry(number, line)
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: is not a text file; a launches file is JSON lines in UTF-8"
        ) from None
    reader.finish()


class _LaunchesReader:
    """Lines to entries; remembers each source so that later lines can refer to it."""

    def __init__(self, file: str, ours: bool, trust: bool) -> None:
        self._file, self._ours, self._trust = file, ours, trust
        self._texts: dict[str, str | None] = {}
        self._refused: dict[str, str] = {}
        self._paths: dict[str, CallPath] = {}
        self._defined: dict[tuple[str, str | None], tuple[DefinedAt, ...]] = {}
        self._begun = False

    def entry(self, number: int, line: str) -> Iterator[Entry]:
        try:
            value = json.loads(line, parse_constant=_constant)
        except RecursionError:
            raise MatrixError(self._file, number, "not JSON: it is nested too deeply") from None
        except ValueError as error:
            if not line.endswith("\n"):
                return  # the writer was killed in the middle of its last line
            raise MatrixError(self._file, number, f"not JSON: {error}") from None
        try:
            yield self._entry(value, number)
        except (FormError, ValidationError) as error:
            raise MatrixError(self._file, number, str(error)) from None

    def finish(self) -> None:
        if not self._begun:
            allowed = f"a launches file begins with a {SCHEMA} line"
            raise MatrixError(self._file, None, "is empty", allowed)

    def _entry(self, value: Any, number: int) -> Entry:
        if not isinstance(value, dict):
            raise FormError("a line is a mapping")
        check_plain(value)
        if "schema" in value or not self._begun:
            if value.get("schema") != SCHEMA:
                raise FormError(f"schema is {value.get('schema')!r}; this flacheck reads {SCHEMA}")
            self._begun = True
            return Note(value)
        if "kernel" in value:
            return self._launch(value, number)
        if "of" in value:
            return convert({**value, "paths": self._came_by(value.get("paths", []))}, Repetition)
        if "path" in value:
            named = convert(value, NamedPath)
            self._paths[named.path] = named.through
            return named
        if "guessed" in value:
            return convert({**value, "kind": value["guessed"]}, Guess)
        if value.get("end") is True:
            return Note(value)
        raise FormError("neither a launch, a count, a path, a guess nor an end line")

    def _launch(self, value: Json, number: int) -> RecordedLaunch:
        launch = value.get("launch")
        # Programs write the names below; people who write a launch by hand have others.
        if isinstance(launch, dict) and isinstance(launch.get("args"), dict):
            args = {name: with_known_dtypes(given) for name, given in launch["args"].items()}
            value = {**value, "launch": {**launch, "args": args}}
        value = _with_numbers(value)
        _FORM.check(value.get("launch"))
        _FORM.check_arguments(value.get("heuristics", {}), "heuristics")
        check_options(value.get("options", {}))
        if "tensors" in value:
            memory = {"storages": value.get("storages"), "tensors": value["tensors"]}
            value = {**value, "memory": memory}
        if "paths" in value:
            value = {**value, "paths": self._came_by(value["paths"])}
        entry = convert({**value, "refused": None}, RecordedLaunch)
        # Only the first line of a kernel with this source says it.
        said = self._defined.setdefault((entry.kernel, entry.source), entry.defined)
        entry = structs.replace(entry, defined=entry.defined or said)
        if entry.source is None:
            return structs.replace(entry, text=None)
        text = self._text(entry.source, entry.text, number)
        return structs.replace(entry, text=text, refused=self._refused.get(entry.source))

    def _came_by(self, digests: Any) -> list[CallPath]:
        """The paths that stand in lines before, by their digests."""
        if not isinstance(digests, list):
            raise FormError("paths is a list of digests")
        for named in digests:
            if not isinstance(named, str) or named not in self._paths:
                raise FormError(f"path {named!r} is in no line before")
        return [self._paths[named] for named in digests]

    def _text(self, source: str, text: str | None, number: int) -> str | None:
        """The text of a source, which stands in the first line that names it; None for one that is
        refused."""
        if source not in self._texts:
            if text is None:
                raise FormError(f"source {source} is in no line before")
            whole = hashlib.sha256(text.encode()).hexdigest()
            if not whole.startswith(source) or len(source) < _SHORTEST_DIGEST:
                raise FormError(f"source {source} is not the digest of its text")
            self._texts[source] = text
            if not self._trust:
                try:
                    check_source(text)
                except UsageError as error:
                    self._texts[source] = None
                    if not self._ours:
                        self._refused[source] = f"{self._file}:{number}: {error}"
        return self._texts[source]


def _with_numbers(value: Any, constant: bool = False) -> Any:
    """Words for infinities and NaN as the numbers that they stand for. A constant is one by itself,
    an argument says that it is a float."""
    if isinstance(value, dict):
        if len(value) == 1 and value.get("float") in _WORDS:
            number = float(value["float"])
            if constant:
                return number
            return {"float": number}
        return {
            name: _with_numbers(held, constant or name in _OF_CONSTANTS)
            for name, held in value.items()
        }
    if isinstance(value, list):
        return [_with_numbers(held, constant) for held in value]
    return value


def _constant(name: str) -> float:
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(name, math.nan)
