"""Reading launches files: recorded launches as data, checked line by line, and as what a scan
expands.

Nothing in a file is believed: its source is admitted by `admission`, its values by the forms below.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.errors import MatrixError, UsageError
from flacheck.inputs.expand import Source
from flacheck.inputs.launches.admission import admitted
from flacheck.inputs.launches.memory import Memory, grids, memory
from flacheck.model import Cut, Json, Kernel, Launch, canonical, digest
from flacheck.model.launch import LAUNCHES_SCHEMA as SCHEMA
from flacheck.model.launch import FormError, LaunchForm, check_options

__all__ = [
    "Launches",
    "Memory",
    "RecordedLaunch",
    "admitted",
    "at",
    "one_each",
    "read",
    "sources",
    "stream",
]

# A recorded launch leaves nothing open.
_FORM = LaunchForm()


@dataclass(frozen=True)
class RecordedLaunch:
    """One distinct launch of a program. `kernel` is `module:qualname`, `source` the digest of its
    cut-out `text`, in which it is called `qualname`; `uncut` says why there is no text.
    `heuristics` are the values that @triton.heuristics gave; `count` how often it was launched;
    `by` what the recorder was told was running; `made_up` marks arguments that a driver guessed for
    one of a package's inner functions; `guessed` says where the program read a value made up for
    it, on which this launch may rest. `memory` says where its tensors lie and `grids` what each
    configuration's grid is (None where it raised); files of earlier recorders have neither."""

    id: str
    kernel: str
    package: str | None
    launch: Launch
    options: Mapping[str, Any]
    grid: tuple[int, ...] | None
    source: str | None
    text: str | None
    qualname: str
    heuristics: Mapping[str, Any] = field(default_factory=dict)
    uncut: str | None = None
    by: str | None = None
    made_up: bool = False
    guessed: str | None = None
    count: int = 1
    memory: Memory | None = None
    grids: tuple[tuple[int, ...] | None, ...] | None = None

    def undecorated(self) -> Launch:
        """The launch as the cut-out kernel takes it: without decorators, so with what heuristics
        gave; its options are configurations."""
        launch = self.launch
        configs = [{**self.options, **config} for config in launch.configs]
        omitted = [name for name in launch.omitted if name not in self.heuristics]
        return Launch(
            {**launch.args, **self.heuristics},
            tuple(omitted),
            tuple(configs or [{"kwargs": {}, **self.options}]),
            launch.keys,
        )


@dataclass(frozen=True)
class Launches:
    """A whole file. `header` is its first line; `end` its last, None when the program was killed."""

    header: Mapping[str, Any]
    launches: tuple[RecordedLaunch, ...]
    end: Mapping[str, Any] | None


@dataclass(frozen=True)
class Counted:
    """`count` more of the launch `of`."""

    of: str
    count: int


@dataclass(frozen=True)
class Guess:
    """`count` values of a kind that were made up for the program at a place."""

    at: str
    kind: str
    count: int


@dataclass(frozen=True)
class Note:
    """A header or end line: what the recorder says of the run."""

    said: Mapping[str, Any]


Entry = RecordedLaunch | Counted | Guess | Note


def read(path: Path, ours: bool = False, trust: bool = False) -> Launches:
    """Every distinct launch once, with its count. Raises MatrixError with file and line.

    In a file of `ours`, just captured, a source that is refused only leaves its kernel without one;
    in one that the user trusts it is kept.
    """
    found: dict[str, RecordedLaunch] = {}
    counts: dict[str, int] = {}
    notes: list[Mapping[str, Any]] = []
    for entry in stream(path, ours, trust):
        if isinstance(entry, RecordedLaunch):
            found.setdefault(entry.id, entry)
            counts[entry.id] = counts.get(entry.id, 0) + entry.count
        elif isinstance(entry, Counted):
            counts[entry.of] = counts.get(entry.of, 0) + entry.count
        elif isinstance(entry, Note):
            notes.append(entry.said)
    end = notes[-1] if notes and "end" in notes[-1] else None
    return Launches(
        notes[0], tuple(replace(launch, count=counts[key]) for key, launch in found.items()), end
    )


def at(path: Path, line: int, trust: bool = False) -> RecordedLaunch:
    """The launch on a line of the file (from 1), or the one that the line counts. UsageError when
    there is none."""
    found: dict[str, RecordedLaunch] = {}
    for number, entry in enumerate(stream(path, trust=trust), 1):
        if isinstance(entry, RecordedLaunch):
            found.setdefault(entry.id, entry)
        if number == line and isinstance(entry, RecordedLaunch | Counted):
            named = entry.id if isinstance(entry, RecordedLaunch) else entry.of
            if named in found:
                return found[named]
    raise UsageError(
        f"{path}:{line}: no launch is on that line; a launch's line has a kernel and a launch in it"
    )


def stream(path: Path, ours: bool = False, trust: bool = False) -> Iterator[Entry]:
    """The file's entries as they stand, a header first."""
    reader = _Reader(str(path), ours, trust)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n") or line.strip():
                    yield from reader.entry(number, line)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); check the name and its permissions"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}: is not a text file; a launches file is JSON lines in UTF-8"
        ) from None
    reader.finish()


class _Reader:
    """Lines to entries; remembers each source so that later lines can refer to it."""

    def __init__(self, file: str, ours: bool, trust: bool) -> None:
        self._file, self._ours, self._trust = file, ours, trust
        self._texts: dict[str, str | None] = {}
        self._begun = False

    def entry(self, number: int, line: str) -> Iterator[Entry]:
        try:
            value = json.loads(line, parse_constant=_constant)
        except ValueError as error:
            if not line.endswith("\n"):
                return  # the writer was killed in the middle of its last line
            raise MatrixError(self._file, number, f"not JSON: {error}") from None
        try:
            yield self._entry(value)
        except FormError as error:
            raise MatrixError(self._file, number, str(error)) from None

    def finish(self) -> None:
        if not self._begun:
            raise MatrixError(
                self._file, None, "is empty", f"a launches file begins with a {SCHEMA} line"
            )

    def _entry(self, value: Any) -> Entry:
        if not isinstance(value, dict):
            raise FormError("a line is a mapping")
        if "schema" in value or not self._begun:
            return self._header(value)
        if "kernel" in value:
            return self._launch(value)
        if "of" in value:
            return Counted(_text(value, "of"), _count(value))
        if "guessed" in value:
            return Guess(_text(value, "at"), _text(value, "guessed"), _count(value))
        if value.get("end") is True:
            return Note(value)
        raise FormError("neither a launch, a count, a guess nor an end line")

    def _header(self, value: Json) -> Note:
        if value.get("schema") != SCHEMA:
            raise FormError(f"schema is {value.get('schema')!r}; this flacheck reads {SCHEMA}")
        self._begun = True
        return Note(value)

    def _launch(self, value: Json) -> RecordedLaunch:
        launch = _want(value, "launch", dict)
        heuristics = value.get("heuristics", {})
        _FORM.check(launch)
        _FORM.check_arguments(heuristics, "heuristics")
        options = value.get("options", {})
        check_options(options)
        source = _optional(value, "source")
        return RecordedLaunch(
            id=_text(value, "id"),
            kernel=_text(value, "kernel"),
            package=_optional(value, "package"),
            launch=Launch.from_json(launch),
            options=options,
            grid=_grid(value.get("grid")),
            source=source,
            text=self._source(source, value.get("text")) if source else None,
            qualname=_name(value, "qualname"),
            heuristics=heuristics,
            uncut=_optional(value, "uncut"),
            by=_optional(value, "by"),
            made_up=value.get("made_up") is True,
            guessed=_optional(value, "guessed"),
            count=_count(value) if "count" in value else 1,
            memory=memory(value),
            grids=grids(value),
        )

    def _source(self, source: str, text: Any) -> str | None:
        if source not in self._texts:
            if not isinstance(text, str):
                raise FormError(f"source {source} is in no line before")
            if (
                hashlib.sha256(text.encode()).hexdigest()[: len(source)] != source
                or len(source) < 16
            ):
                raise FormError(f"source {source} is not the digest of its text")
            self._texts[source] = text if self._trust else self._admitted(source, text)
        return self._texts[source]

    def _admitted(self, source: str, text: str) -> str | None:
        try:
            admitted(text)
        except UsageError as error:
            if self._ours:
                return None
            raise FormError(
                f"source {source} is refused: {error}; --trust compiles it all the same"
            ) from None
        return text


def sources(recorded: Sequence[RecordedLaunch]) -> list[Source]:
    """One source a kernel as it was cut out, with its distinct launches; those without a text are
    left out."""
    return grouped(
        (_kernel(entry, entry.text), entry.undecorated()) for entry in recorded if entry.text
    )


def grouped(launched: Iterable[tuple[Kernel, Launch]]) -> list[Source]:
    """One source a kernel, by its digest, with its distinct launches."""
    kernels: dict[str, Kernel] = {}
    launches: dict[str, dict[str, Launch]] = {}
    for kernel, launch in launched:
        kernels.setdefault(kernel.digest, kernel)
        launches.setdefault(kernel.digest, {}).setdefault(canonical(launch.to_json()), launch)
    return [Source(kernel, tuple(launches[key].values())) for key, kernel in kernels.items()]


def one_each(recorded: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """The first launch of each kernel and dtype."""
    first: dict[tuple[str, str | None], RecordedLaunch] = {}
    for entry in recorded:
        first.setdefault((entry.kernel, entry.launch.dtype), entry)
    return list(first.values())


def _kernel(entry: RecordedLaunch, text: str) -> Kernel:
    identity = digest([entry.kernel, entry.package, text, entry.qualname])
    return Kernel(entry.kernel, entry.package, identity, Cut(text, entry.qualname, entry.made_up))


def _constant(name: str) -> float:
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(name, math.nan)


def _want(value: Json, name: str, kind: type) -> Any:
    if not isinstance(value.get(name), kind):
        raise FormError(f"{name} is missing or no {kind.__name__}")
    return value[name]


def _text(value: Json, name: str) -> str:
    return str(_want(value, name, str))


def _name(value: Json, name: str) -> str:
    text = _text(value, name)
    if not text.isidentifier():
        raise FormError(f"{name} {text!r} is no name")
    return text


def _optional(value: Json, name: str) -> str | None:
    return None if value.get(name) is None else _text(value, name)


def _count(value: Json) -> int:
    return _checked(value.get("count"), lambda count: count > 0, "count is a positive number")


def _grid(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > 3:
        raise FormError("grid is a list of up to three numbers")
    return tuple(_checked(extent, lambda _: True, "grid is a list of numbers") for extent in value)


def _checked(value: Any, good: Callable[[int], bool], what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not good(value):
        raise FormError(what)
    return value
