"""The reader of launches files: recorded launches as data, checked line by line.

A file is not trusted: `admission` checks its sources, the types of `entries` and the forms of a
launch check its values. `choosing` turns launches into the sources that a scan expands.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, structs

from flacheck import files
from flacheck.errors import MatrixError, UsageError
from flacheck.model import Json
from flacheck.model.launch import LAUNCHES_SCHEMA as SCHEMA
from flacheck.model.launch import (
    FormError,
    LaunchForm,
    check_options,
    check_plain,
    with_known_dtypes,
)
from flacheck.subjects.inputs.launches.admission import check_source
from flacheck.subjects.inputs.launches.choosing import (
    common,
    group_launches,
    one_each,
    shared,
    sources,
    without_refused,
)
from flacheck.subjects.inputs.launches.entries import (
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
from flacheck.subjects.inputs.matrix import unreadable

__all__ = [
    "CallPath",
    "DefinedAt",
    "Guess",
    "Launches",
    "Memory",
    "RecordedLaunch",
    "TensorPlacement",
    "at",
    "common",
    "group_launches",
    "one_each",
    "read",
    "shared",
    "sources",
    "stream",
    "without_refused",
]

# Without placeholders: a recorded launch has all its values.
_FORM = LaunchForm()
# Hex digits of a source's digest. Somebody could construct collisions of fewer digits.
_SHORTEST_DIGEST = 16

# The words for numbers that JSON does not have, and the fields that contain constants.
_WORDS = ("inf", "-inf", "nan")
_OF_CONSTANTS = ("constexpr", "configs", "options")


def read(path: Path, ours: bool = False, trust: bool = False) -> Launches:
    """Read every distinct launch once, with its count; raise MatrixError with file and line.

    A kernel whose source is refused has no source. The reason is recorded, but not for a file of
    `ours`, which was just captured. In a file that the user trusts, every source is accepted.
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
    complete = []
    for key, launch in launches.items():
        launch_paths = tuple(paths[key]) if key in paths else None
        complete.append(structs.replace(launch, count=counts[key], paths=launch_paths))
    end = notes[-1] if "end" in notes[-1] else None
    return Launches(notes[0], tuple(complete), end)


def at(path: Path, line: int, trust: bool = False) -> RecordedLaunch:
    """Return the launch on a line of the file (from 1), or the launch that the line counts.

    Raises UsageError if the line has none.
    """
    launches: dict[str, RecordedLaunch] = {}
    for number, entry in enumerate(stream(path, trust=trust), 1):
        identity = None
        if isinstance(entry, RecordedLaunch):
            identity = entry.id
            launches.setdefault(identity, entry)
        elif isinstance(entry, Repetition):
            identity = entry.of
        if number == line and identity in launches:
            return launches[identity]
    raise UsageError(
        f"{path}:{line}: no launch is on that line; a launch's line has a kernel and a launch"
    )


def stream(path: Path, ours: bool = False, trust: bool = False) -> Iterator[Entry]:
    """Yield the file's entries in their order, a header first."""
    reader = _LaunchesReader(str(path), ours, trust)
    try:
        with files.open_text(path, files.MOST_LAUNCHES) as file:
            for number, line in enumerate(files.lines(path, file), 1):
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
    """Converter of lines to entries; it stores each source for references in later lines."""

    def __init__(self, file: str, ours: bool, trust: bool) -> None:
        self._file, self._ours, self._trust = file, ours, trust
        self._texts: dict[str, str | None] = {}
        self._refusals: dict[str, str] = {}
        self._paths: dict[str, CallPath] = {}
        self._definitions: dict[tuple[str, str | None], tuple[DefinedAt, ...]] = {}
        self._has_header = False

    def entry(self, number: int, line: str) -> Iterator[Entry]:
        try:
            value = json.loads(line, parse_constant=_constant)
        except RecursionError:
            raise MatrixError(self._file, number, "not JSON: it is nested too deeply") from None
        except ValueError as error:
            if not line.endswith("\n"):
                # The writer was killed in the middle of its last line.
                return
            raise MatrixError(self._file, number, f"not JSON: {error}") from None
        try:
            yield self._entry(value, number, _may_have_words(line))
        except (FormError, ValidationError) as error:
            raise MatrixError(self._file, number, str(error)) from None

    def finish(self) -> None:
        if not self._has_header:
            allowed = f"a launches file begins with a {SCHEMA} line"
            raise MatrixError(self._file, None, "is empty", allowed)

    def _entry(self, value: Any, number: int, has_words: bool) -> Entry:
        if not isinstance(value, dict):
            raise FormError("a line is a mapping")
        check_plain(value)
        if "schema" in value or not self._has_header:
            if value.get("schema") != SCHEMA:
                raise FormError(f"schema is {value.get('schema')!r}; this flacheck reads {SCHEMA}")
            self._has_header = True
            return Note(value)
        if "kernel" in value:
            return self._launch(value, number, has_words)
        if "of" in value:
            paths = self._call_paths(value.get("paths", []))
            return convert({**value, "paths": paths}, Repetition)
        if "path" in value:
            entry = convert(value, NamedPath)
            self._paths[entry.path] = entry.through
            return entry
        if "guessed" in value:
            return convert({**value, "kind": value["guessed"]}, Guess)
        if value.get("end") is True:
            return Note(value)
        raise FormError("neither a launch, a count, a path, a guess nor an end line")

    def _launch(self, value: Json, number: int, has_words: bool) -> RecordedLaunch:
        launch = value.get("launch")
        # A launch that was written by hand may have other names of dtypes.
        if isinstance(launch, dict) and isinstance(launch.get("args"), dict):
            args = {}
            for name, argument in launch["args"].items():
                args[name] = with_known_dtypes(argument)
            value = {**value, "launch": {**launch, "args": args}}
        if has_words:
            value = _with_numbers(value)
        _FORM.check(value.get("launch"))
        _FORM.check_arguments(value.get("heuristics", {}), "heuristics")
        check_options(value.get("options", {}))
        if "tensors" in value:
            memory = {"storages": value.get("storages"), "tensors": value["tensors"]}
            value = {**value, "memory": memory}
        if "paths" in value:
            value = {**value, "paths": self._call_paths(value["paths"])}
        entry = convert({**value, "refused": None}, RecordedLaunch)
        # Only the first line of a kernel with this source has its definitions.
        first = self._definitions.setdefault((entry.kernel, entry.source), entry.defined)
        entry = structs.replace(entry, defined=entry.defined or first)
        if entry.source is None:
            return structs.replace(entry, text=None)
        text = self._text(entry.source, entry.text, number)
        return structs.replace(entry, text=text, refused=self._refusals.get(entry.source))

    def _call_paths(self, digests: Any) -> list[CallPath]:
        """Return the call paths of earlier lines by their digests."""
        if not isinstance(digests, list):
            raise FormError("paths is a list of digests")
        paths = []
        for path in digests:
            if not isinstance(path, str) or path not in self._paths:
                raise FormError(f"path {path!r} is in no line before")
            paths.append(self._paths[path])
        return paths

    def _text(self, source: str, text: str | None, number: int) -> str | None:
        """Return the text of a source, from its first line; None for a refused source."""
        if source in self._texts:
            return self._texts[source]
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
                    self._refusals[source] = f"{self._file}:{number}: {error}"
        return self._texts[source]


def _may_have_words(line: str) -> bool:
    """Return True if a line may contain a word for a number, perhaps written with escapes."""
    return "\\u" in line or any(f'"{word}"' in line for word in _WORDS)


def _with_numbers(value: Any, constant: bool = False) -> Any:
    """Replace the words for infinities and NaN by numbers.

    A constant becomes a plain number, an argument a float argument.
    """
    if isinstance(value, dict):
        if len(value) == 1 and value.get("float") in _WORDS:
            number = float(value["float"])
            if constant:
                return number
            return {"float": number}
        result = {}
        for name, part in value.items():
            result[name] = _with_numbers(part, constant or name in _OF_CONSTANTS)
        return result
    if isinstance(value, list):
        return [_with_numbers(part, constant) for part in value]
    return value


def _constant(name: str) -> float:
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(name, math.nan)
