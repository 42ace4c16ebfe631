"""Reading launches files: recorded launches as data, checked line by line, and as what a scan
expands.

Nothing in a file is believed: its source is admitted by `admission`, its values by the types below
and by the forms of a launch.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, structs, to_builtins

from flacheck.errors import MatrixError, UsageError
from flacheck.inputs.expand import Source
from flacheck.inputs.launches.admission import admitted
from flacheck.inputs.matrix import unreadable
from flacheck.model import Cut, Json, Kernel, Launch, canonical, digest
from flacheck.model.launch import LAUNCHES_SCHEMA as SCHEMA
from flacheck.model.launch import (
    FormError,
    LaunchForm,
    check_options,
    check_plain,
    is_int,
    with_known_dtypes,
)

# A recorded launch leaves nothing open.
_FORM = LaunchForm()
# Hex digits of a source's digest: fewer could be made to collide.
_SHORTEST_DIGEST = 16

# How a launches file writes numbers that JSON does not have, and the fields that hold constants.
_WORDS = ("inf", "-inf", "nan")
_OF_CONSTANTS = ("constexpr", "configs", "options")

Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(gt=0)]
Grid = Annotated[tuple[int, ...], Meta(max_length=3)]


# Dotted names, outermost first.
CallPath = tuple[str, ...]


class Placed(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor in the storage at the place `storage`: shape, strides and offset in elements; the
    `values` of integers in the order of their indices, None where they are floats, too many, or
    known to nobody."""

    storage: Natural
    shape: tuple[Natural, ...]
    strides: tuple[Natural, ...]
    offset: Natural
    values: tuple[int, ...] | None = None


class Memory(Struct, frozen=True):
    """The bytes of each storage of a launch, and its tensors by argument; `name[0]` is an item of a
    tuple, and a tensor descriptor's tensor has the argument's name."""

    storages: tuple[Natural, ...]
    tensors: dict[str, Placed]

    def __post_init__(self) -> None:
        for name, placed in self.tensors.items():
            if placed.storage >= len(self.storages):
                raise ValueError(f"tensor {name}: there is no storage {placed.storage}")
            if len(placed.shape) != len(placed.strides):
                raise ValueError(f"tensor {name}: shape and strides differ in length")

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return plain


class DefinedAt(Struct, frozen=True):
    """Where a function stood and what it said: its qualified name, its `file` as seen from the
    launches file, or from where its `package` was installed, and the digests of its definition and
    of the whole file."""

    name: str
    file: Annotated[str, Meta(pattern=r"^[^/\0][^\0]*\.py\Z")]
    digest: str
    whole: str
    package: str | None = None


class RecordedLaunch(Struct, frozen=True, kw_only=True):
    """One distinct launch of a program. `kernel` is `module:qualname`, `source` the digest of its
    cut-out `text`, in which it is called `qualname`; `uncut` says why there is no text.
    `heuristics` are the values that @triton.heuristics gave; `count` how often it was launched;
    `by` what the recorder was told was running; `made_up` marks arguments that a driver guessed for
    one of a package's inner functions; `guessed` says where the program read a value made up for
    it, on which this launch may rest; `refused` says where and why its source was not admitted,
    and is never read from a file. `memory` says where its tensors lie and `grids` what each
    configuration's grid is (None where it raised); `paths` are the dotted names of the functions
    through which it came, outermost first, once for each way; `defined` says where the kernel and
    its helpers stood. Files of earlier recorders have none of the four."""

    id: str
    kernel: str
    qualname: str
    launch: Launch
    package: str | None = None
    options: dict[str, Any] = {}
    grid: Grid | None = None
    source: str | None = None
    text: str | None = None
    heuristics: dict[str, Any] = {}
    uncut: str | None = None
    by: str | None = None
    made_up: bool = False
    guessed: str | None = None
    count: Count = 1
    memory: Memory | None = None
    grids: tuple[Grid | None, ...] | None = None
    refused: str | None = None
    paths: tuple[CallPath, ...] | None = None
    defined: tuple[DefinedAt, ...] = ()

    def __post_init__(self) -> None:
        if not self.qualname.isidentifier():
            raise ValueError(f"qualname {self.qualname!r} is no name")
        if self.grids is not None and len(self.grids) != len(self.launch.configs):
            raise ValueError("grids is a list with a grid for each configuration")

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
    """A whole file. `header` is its first line, `end` its last: None for a killed program."""

    header: Mapping[str, Any]
    launches: tuple[RecordedLaunch, ...]
    end: Mapping[str, Any] | None


class Counted(Struct, frozen=True):
    """`count` more of the launch `of`, and the `paths` by which it came for the first time."""

    of: str
    count: Count
    paths: tuple[CallPath, ...] = ()


class NamedPath(Struct, frozen=True):
    """A call path, which later lines refer to by its digest."""

    path: str
    through: CallPath


class Guess(Struct, frozen=True):
    """`count` values of a kind that were made up for the program at a place."""

    at: str
    kind: str
    count: Count


@dataclass(frozen=True)
class Note:
    """A header or end line: what the recorder says of the run."""

    said: Mapping[str, Any]


Entry = RecordedLaunch | Counted | NamedPath | Guess | Note


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
        elif isinstance(entry, Counted):
            counts[entry.of] = counts.get(entry.of, 0) + entry.count
            if entry.paths:
                paths.setdefault(entry.of, {}).update(dict.fromkeys(entry.paths))
        elif isinstance(entry, Note):
            notes.append(entry.said)
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
        if number == line and isinstance(entry, RecordedLaunch | Counted):
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
            return convert({**value, "paths": self._came_by(value.get("paths", []))}, Counted)
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
                    admitted(text)
                except UsageError as error:
                    self._texts[source] = None
                    if not self._ours:
                        self._refused[source] = f"{self._file}:{number}: {error}"
        return self._texts[source]


def without_refused(
    entries: Sequence[RecordedLaunch],
) -> tuple[Sequence[RecordedLaunch], tuple[str, ...]]:
    """The launches whose sources were admitted, and a word on the kernels that are left out.

    Raises UsageError when every one was refused.
    """
    kept = [entry for entry in entries if not entry.refused]
    reasons = {entry.kernel: entry.refused for entry in entries if entry.refused}
    if not reasons:
        return entries, ()
    if not kept:
        first = next(iter(reasons.values()))
        raise UsageError(f"{first}: the source is refused; --trust compiles it all the same")
    return kept, tuple(
        f"{reason}: the source of {kernel} is refused and its launches are left out; --trust "
        "compiles them all the same"
        for kernel, reason in reasons.items()
    )


def sources(recorded: Sequence[RecordedLaunch]) -> list[Source]:
    """One source a kernel as it was cut out, with its distinct launches; those without a text are
    left out."""
    return grouped(
        (_kernel(entry, entry.text), entry.undecorated()) for entry in recorded if entry.text
    )


def grouped(launched: Iterable[tuple[Kernel, Launch]]) -> list[Source]:
    """One source a kernel, by its digest, with its distinct launches; those that were made up are
    apart."""
    kernels: dict[tuple[str, bool], Kernel] = {}
    launches: dict[tuple[str, bool], dict[str, Launch]] = {}
    for kernel, launch in launched:
        key = kernel.digest, kernel.is_made_up
        kernels.setdefault(key, kernel)
        launches.setdefault(key, {}).setdefault(canonical(launch.to_json()), launch)
    return [Source(kernel, tuple(launches[key].values())) for key, kernel in kernels.items()]


def one_each(recorded: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """The first launch of each kernel and dtype; one that a program made comes before those that
    flacheck made up, and last come those with an argument that Triton has no type for."""
    first: dict[tuple[str, str | None], RecordedLaunch] = {}
    for entry in sorted(recorded, key=lambda each: (_has_unknown(each), each.made_up)):
        first.setdefault((entry.kernel, entry.launch.dtype), entry)
    return list(first.values())


def _has_unknown(entry: RecordedLaunch) -> bool:
    values = entry.launch.args.values()
    return any(isinstance(value, Mapping) and "unknown" in value for value in values)


def shared(recordings: Sequence[Sequence[RecordedLaunch]]) -> list[list[RecordedLaunch]]:
    """Of several recordings one launch of each kernel and dtype, the same one in all that have the
    kernel in the dtype where that can be. One that a program made comes before a made-up one, then
    the smallest, which compiles soonest."""
    groups: dict[tuple[str, str | None], dict[int, dict[str, RecordedLaunch]]] = {}
    for place, recorded in enumerate(recordings):
        for entry in recorded:
            group = groups.setdefault((entry.kernel, entry.launch.dtype), {})
            same = canonical([entry.launch.to_json(), entry.options])
            group.setdefault(place, {}).setdefault(same, entry)
    chosen: list[list[RecordedLaunch]] = [[] for _ in recordings]
    for group in groups.values():
        first = next(iter(group.values()))
        common = [same for same in first if all(same in entries for entries in group.values())]
        if common:
            same = min(common, key=lambda same: max(_rank(each[same]) for each in group.values()))
            for place, entries in group.items():
                chosen[place].append(entries[same])
        else:
            for place, entries in group.items():
                chosen[place].append(min(entries.values(), key=_rank))
    return chosen


def _rank(entry: RecordedLaunch) -> tuple[bool, int]:
    """Whether a launch is made up, and how large its tiles and sizes are."""
    constants = (
        value["constexpr"]
        for value in entry.launch.args.values()
        if isinstance(value, Mapping) and "constexpr" in value
    )
    sizes = (size for size in constants if is_int(size) and size > 0)
    return entry.made_up, math.prod(sizes)


def _kernel(entry: RecordedLaunch, text: str) -> Kernel:
    identity = digest([entry.kernel, entry.package, text, entry.qualname])
    return Kernel(entry.kernel, entry.package, identity, Cut(text, entry.qualname, entry.made_up))


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
