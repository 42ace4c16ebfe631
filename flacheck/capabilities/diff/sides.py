"""What FROM and TO name: a release of a compiler, Triton also by a release of torch, or results
that are stored."""

import contextlib
import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from flacheck import toolchains
from flacheck.analysis.order import toolchain_label
from flacheck.analysis.standing import standings
from flacheck.errors import FlacheckError, UsageError
from flacheck.inputs import launches
from flacheck.model import Record
from flacheck.model.launch import LAUNCHES_SCHEMA, FormError, check_plain
from flacheck.store import Store, questions
from flacheck.toolchains import by_torch
from flacheck.toolchains.base import Choice

RUN_SCHEMA = "flacheck.run/1"
_RUN = "run:"
_NAMES = "|".join([by_torch.NAME, *toolchains.FAMILIES])
_NAMED = re.compile(rf"({_NAMES})\s*(?=[<>=!~])(.+)", re.IGNORECASE)
_BARE = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.\*)?")
# `==2.9`: two numbers, which people mean as all of 2.9.
_MINOR = re.compile(r"={2,3}\s*(\d+\.\d+)")
_FORMS = (
    "torch==2.9.*, triton==3.5.1, installed, newest, run:ID, or a file that `flacheck capture` or "
    "`flacheck scan --format json` wrote"
)


@dataclass(frozen=True)
class ReleaseSide:
    """A compiler to ask. `text` is what was typed, `spec` what leads to the `choice` again; `torch`
    is the torch release that was meant, None where Triton itself was named. `launches` is the
    launches file whose own compiler this is. `notes` say how the text was read."""

    text: str
    spec: str
    choice: Choice
    torch: str | None = None
    launches: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredSide:
    """Records to compare as they are; `name` is the run or the file that they are from. `partial`
    says how much of its question is answered (`147/394`) where that is not all."""

    text: str
    name: str
    records: tuple[Record, ...]
    partial: str | None = None

    @property
    def toolchains(self) -> tuple[str, ...]:
        """The compilers that the records are of, in order of appearance."""
        return tuple(dict.fromkeys(record.toolchain for record in self.records))


Side = ReleaseSide | StoredSide


def notes(side: Side) -> tuple[str, ...]:
    """How a side's text was read, for the user."""
    if isinstance(side, ReleaseSide):
        return side.notes
    return ()


def read(text: str, directory: Path) -> Side:
    """What FROM or TO names; runs are looked up in the store of a directory.

    Raises UsageError for what names nothing, with both readings for a bare version.
    """
    text = text.strip()
    named = _NAMED.fullmatch(text)
    if text.startswith(_RUN):
        return _run(text, directory)
    if text == "installed":
        return _installed(text)
    if text == "newest":
        return _newest(text)
    if named:
        return _release(text, named[1].lower(), named[2].strip())
    bare = _BARE.fullmatch(text)
    if bare:
        raise _ambiguous(text, bare[1])
    if "/" in text or Path(text).suffix:
        return _path(text)
    raise UsageError(f"{text!r} names nothing to compare: give {_FORMS}")


def _release(text: str, name: str, specifier: str) -> ReleaseSide:
    """The newest final release that a requirement admits."""
    notes: list[str] = []
    minor = _MINOR.fullmatch(specifier)
    if minor:
        specifier = f"=={minor[1]}.*"
        read = f"{text} is read as {name}{specifier}"
        # Toolkits have no patch release 0.
        if name in (by_torch.NAME, "triton"):
            read += f"; write {name}=={minor[1]}.0 for that one"
        notes.append(read)
    if specifier.lstrip("= ") == "installed":
        (choice,) = toolchains.resolve([f"{name}{specifier}"]).choices
        return ReleaseSide(text, text, choice)
    try:
        SpecifierSet(specifier)
    except InvalidSpecifier:
        raise UsageError(f"{text!r} is no requirement: write {name}==X.Y.*") from None
    if name == by_torch.NAME:
        return _by_torch(text, specifier, notes)
    choices = toolchains.resolve([f"{name}{specifier}"]).choices
    if not choices:
        raise UsageError(f"{text}: no such release has a wheel for this Python and system")
    choice = max(choices, key=lambda each: Version(each.version))
    if len(choices) > 1:
        admitted = [each.version for each in choices]
        notes.append(
            f"{text} admits {_listed(admitted)}: {toolchain_label(choice.identity)} is compared"
        )
    return ReleaseSide(text, choice.identity, choice, notes=tuple(notes))


def _by_torch(text: str, specifier: str, notes: Sequence[str]) -> ReleaseSide:
    releases = by_torch.releases(SpecifierSet(specifier))
    torch = max(releases, key=Version)
    spec = f"triton=={releases[torch]}"
    (choice,) = toolchains.resolve([spec]).choices
    said = list(notes)
    if len(releases) > 1:
        chosen = f"torch {torch} (Triton {choice.version}) is compared"
        said.append(f"{text} admits {_listed(list(releases))}: {chosen}")
    return ReleaseSide(text, spec, choice, torch, notes=tuple(said))


def _listed(versions: Sequence[str]) -> str:
    ordered = sorted(versions, key=Version)
    return f"{', '.join(ordered[:-1])} and {ordered[-1]}"


def _installed(text: str) -> ReleaseSide:
    (choice,) = toolchains.resolve([text]).choices
    torch = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        torch = Version(importlib.metadata.version(by_torch.NAME)).public
    return ReleaseSide(text, text, choice, torch)


def _newest(text: str) -> ReleaseSide:
    """The newest final release of Triton that has a wheel for this Python."""
    known = toolchains.FAMILIES["triton"].versions()
    final = [each for each in known.choices if not Version(each.version).is_prerelease]
    choice = max(final, key=lambda each: Version(each.version))
    notes = (*known.warnings, f"newest is Triton {choice.version}")
    return ReleaseSide(text, choice.identity, choice, notes=notes)


def _ambiguous(text: str, version: str) -> UsageError:
    wanted = version
    # 2.9 is all of 2.9.*; 2.9.1 is one release.
    if version.count(".") < 2:
        wanted = f"{version}.*"
    readings = [_reading(name, wanted) for name in ("torch", "triton")]
    return UsageError(f"{text!r} names neither torch nor Triton: write {' or '.join(readings)}")


def _reading(name: str, wanted: str) -> str:
    """A requirement with the release that it stands for."""
    requirement = f"{name}=={wanted}"
    try:
        side = _release(requirement, name, f"=={wanted}")
    except FlacheckError:
        return f"{requirement} (no such release)"
    if side.torch:
        return f"{requirement} (torch {side.torch}, Triton {side.choice.version})"
    return f"{requirement} (Triton {side.choice.version})"


def _run(text: str, directory: Path) -> StoredSide:
    name = text.removeprefix(_RUN)
    if not name:
        raise UsageError(f"{text!r} names no run: give run:ID, or run:last")
    with Store.open(directory, create=False) as store:
        run = store.run(name)
        answered = standings(questions.of_runs(store, [run]), store.current)
        partial = [each.to_json() for each in answered if each.is_partial]
        records = tuple(store.records(run.id))
        return StoredSide(text, f"run {run.id}", records, _progress(partial))


def _path(text: str) -> Side:
    """A launches file, or a run's JSON; a wheel or a folder with a compiler, as --toolchain takes
    them."""
    file = Path(text)
    if file.is_dir() or file.suffix == ".whl":
        (choice,) = toolchains.resolve([text]).choices
        return ReleaseSide(text, text, choice)
    try:
        with file.open(encoding="utf-8") as opened:
            first = opened.readline()
            if _schema(first) == LAUNCHES_SCHEMA:
                return _launches_file(text)
            rest = opened.read()
            records = tuple(_records(text, first, rest))
            partial = _partial(first + rest)
    except OSError as error:
        raise UsageError(f"{text}: cannot be read ({error.strerror}); give {_FORMS}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{text}: is not a text file; give {_FORMS}") from None
    return StoredSide(text, file.name, records, partial)


def _partial(document: str) -> str | None:
    """How much of a run's JSON document is answered, where it says so: its lines alone do not."""
    try:
        summary = json.loads(document)["summary"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return _progress(summary.get("partial", ()))


def _progress(partial: Sequence[Mapping[str, Any]]) -> str | None:
    """`147/394` over all places that are not answered as a whole; None where there is none."""
    if not partial:
        return None
    answered = sum(place["answered"] for place in partial)
    asked = [place["asked"] for place in partial]
    if None in asked:
        return f"{answered}/?"
    return f"{answered}/{sum(asked)}"


def _schema(line: str) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value.get("schema")


def _launches_file(text: str) -> ReleaseSide:
    """The compiler that a launches file was recorded under; the installed one where it does not
    say."""
    header = next(launches.stream(Path(text), trust=True))
    said = getattr(header, "said", {})
    spec = "installed"
    if isinstance(said.get("triton"), str):
        spec = f"triton=={said['triton']}"
    (choice,) = toolchains.resolve([spec]).choices
    notes = (f"{text} was recorded under {choice.identity}, which compiles it",)
    return ReleaseSide(text, spec, choice, launches=text, notes=notes)


def _records(file: str, first: str, rest: str) -> Iterator[Record]:
    """The records of a run's JSON, or of its JSON lines."""
    try:
        if _schema(first) == RUN_SCHEMA and rest.strip():
            values: Sequence[Mapping[str, Any]]
            lines = [json.loads(line) for line in rest.splitlines() if line.strip()]
            check_plain(lines)
            values = [line for line in lines if "key" in line]
        else:
            whole = json.loads(first + rest)
            check_plain(whole)
            values = _of_run(whole)
        for value in values:
            yield Record.from_json(value)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        FormError,
    ) as error:
        raise UsageError(
            f"{file}: neither a launches file nor a {RUN_SCHEMA} document ({_cause(error)}); write "
            f"one with `flacheck scan --format json -o {file}`"
        ) from None


def _of_run(whole: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(whole, dict) or whole.get("schema") != RUN_SCHEMA:
        raise ValueError(f"it has no schema {RUN_SCHEMA}")
    records: Sequence[Mapping[str, Any]] = whole["records"]
    return records


def _cause(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"a record lacks {error}"
    return str(error)
