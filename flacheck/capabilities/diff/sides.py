"""The sides of a comparison: a release of a compiler, or stored results.

A release of Triton may also be named by a release of torch.
"""

import contextlib
import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from flacheck import files, toolchains
from flacheck.errors import FlacheckError, UsageError
from flacheck.evidence.analysis.order import toolchain_label
from flacheck.evidence.analysis.standings import standings
from flacheck.model import Record
from flacheck.model.launch import LAUNCHES_SCHEMA, FormError, check_plain
from flacheck.model.record import RecordDocument
from flacheck.source.packages import package as packages
from flacheck.store import Store, questions
from flacheck.subjects.inputs import launches
from flacheck.toolchains import by_torch
from flacheck.toolchains.base import Choice

RUN_SCHEMA = "flacheck.run/1"
# A run of a hundred thousand records has so many bytes as JSON.
_MOST_BYTES = 256 << 20
_RUN = "run:"
# A package at an exact version: the kernels change, and both sides have one compiler.
_PACKAGE = re.compile(r"[\w.-]*\w\s*==\s*[\w.!+]+")
_BARE = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.\*)?")
# `==2.9`: a version of two numbers, read as every 2.9.*.
_MINOR = re.compile(r"={2,3}\s*(\d+\.\d+)")
_FORMS = (
    "torch==2.9.*, triton==3.5.1, installed, newest, PACKAGE==VERSION, run:ID, or a file that "
    "`flacheck capture` or `flacheck scan --format json` wrote"
)


@dataclass(frozen=True)
class ReleaseSide:
    """A compiler to compile with.

    Attributes:
        text: The text that the user typed.
        spec: A specification that resolves to `choice`.
        choice: The compiler.
        torch: The torch release that the user named; None if the user named the compiler.
        launches: The launches file that was recorded under this compiler.
        package: The package that the user named, `name==version`; the other side has another.
        notes: Notes on how the text was read.
    """

    text: str
    spec: str
    choice: Choice
    torch: str | None = None
    launches: str | None = None
    notes: tuple[str, ...] = ()
    package: str | None = None


@dataclass(frozen=True)
class StoredSide:
    """Stored records of the run or file `name`.

    `partial` is the share of cells with a record (`147/394`), if some have none.
    """

    text: str
    name: str
    records: tuple[Record, ...]
    partial: str | None = None
    # Only the text of a release can be read in several ways.
    notes: tuple[str, ...] = ()

    @property
    def toolchains(self) -> tuple[str, ...]:
        """The compilers of the records, in order of appearance."""
        return tuple(dict.fromkeys(record.toolchain for record in self.records))


Side = ReleaseSide | StoredSide


def read(text: str, directory: Path, compilers: Sequence[str] = ()) -> Side:
    """Return the side that FROM or TO names.

    Args:
        text: FROM or TO.
        directory: The folder of the store.
        compilers: The specifications of the compiler of a side that is a package.

    Raises:
        UsageError: If the text is invalid; for a bare version the message has both readings.
    """
    text = text.strip()
    names = "|".join([by_torch.NAME, *toolchains.FAMILIES])
    match = re.fullmatch(rf"({names})\s*(?=[<>=!~])(.+)", text, re.IGNORECASE)
    if text.startswith(_RUN):
        return _run(text, directory)
    if text == "installed":
        return _installed(text)
    if text == "newest":
        return _newest(text)
    if match:
        return _release(text, match[1].lower(), match[2].strip())
    if _PACKAGE.fullmatch(text) or packages.is_range(text):
        return _package(text, compilers)
    bare = _BARE.fullmatch(text)
    if bare:
        raise _ambiguous(text, bare[1])
    if "/" in text or Path(text).suffix:
        return _path(text)
    raise UsageError(f"{text!r} names nothing to compare: give {_FORMS}")


def _package(text: str, compilers: Sequence[str]) -> ReleaseSide:
    """Return a package under the one compiler that `--triton` names, by default the installed.

    Of a range it is the newest final release in the package index.
    """
    choices = toolchains.resolve(compilers or (toolchains.DEFAULT_SPEC,)).choices
    if len(choices) != 1:
        names = ", ".join(choice.identity for choice in choices) or "no release"
        raise UsageError(
            f"{text} is compiled under one release of Triton, and --triton names {names}: give one"
        )
    side_notes = []
    exact = "".join(text.split())
    if packages.is_range(text):
        releases = packages.releases(text)
        # The list may end in pre-releases, which a user of the range does not get.
        exact = max(releases, key=_by_finality)
        if len(releases) > 1:
            versions = [each.partition("==")[2] for each in releases]
            side_notes.append(f"{text} admits {_list_versions(versions)}: {exact} is compared")
    name, version = packages.parse(exact)
    (choice,) = choices
    return ReleaseSide(
        text, choice.identity, choice, notes=tuple(side_notes), package=f"{name}=={version}"
    )


def _by_finality(spec: str) -> tuple[bool, Version]:
    """Return the rank of NAME==VERSION: pre-releases first, then by version."""
    version = Version(spec.partition("==")[2])
    return not version.is_prerelease, version


def _release(text: str, name: str, specifier: str) -> ReleaseSide:
    """Return the newest final release that a requirement allows."""
    notes: list[str] = []
    minor = _MINOR.fullmatch(specifier)
    if minor:
        specifier = f"=={minor[1]}.*"
        note = f"{text} is read as {name}{specifier}"
        # CUDA toolkits do not have a patch release 0.
        if name in (by_torch.NAME, "triton"):
            note += f"; write {name}=={minor[1]}.0 for that one"
        notes.append(note)
    if specifier.lstrip("= ") == "installed":
        (choice,) = toolchains.resolve([f"{name}{specifier}"]).choices
        return ReleaseSide(text, text, choice)
    try:
        SpecifierSet(specifier)
    except InvalidSpecifier:
        raise UsageError(f"{text!r} is not a requirement: write {name}==X.Y.*") from None
    if name == by_torch.NAME:
        return _by_torch(text, specifier, notes)
    choices = toolchains.resolve([f"{name}{specifier}"]).choices
    if not choices:
        raise UsageError(f"{text}: no such release has a wheel for this Python and system")
    choice = max(choices, key=lambda each: Version(each.version))
    if len(choices) > 1:
        versions = [each.version for each in choices]
        notes.append(
            f"{text} admits {_list_versions(versions)}: "
            f"{toolchain_label(choice.identity)} is compared"
        )
    return ReleaseSide(text, choice.identity, choice, notes=tuple(notes))


def _by_torch(text: str, specifier: str, notes: Sequence[str]) -> ReleaseSide:
    releases = by_torch.releases(SpecifierSet(specifier))
    torch = max(releases, key=Version)
    spec = f"triton=={releases[torch]}"
    (choice,) = toolchains.resolve([spec]).choices
    all_notes = list(notes)
    if len(releases) > 1:
        choice_text = f"torch {torch} (Triton {choice.version}) is compared"
        all_notes.append(f"{text} admits {_list_versions(list(releases))}: {choice_text}")
    return ReleaseSide(text, spec, choice, torch, notes=tuple(all_notes))


def _list_versions(versions: Sequence[str]) -> str:
    *first, last = sorted(versions, key=Version)
    return f"{', '.join(first)} and {last}"


def _installed(text: str) -> ReleaseSide:
    (choice,) = toolchains.resolve([text]).choices
    torch = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        torch = Version(importlib.metadata.version(by_torch.NAME)).public
    return ReleaseSide(text, text, choice, torch)


def _newest(text: str) -> ReleaseSide:
    """Return the newest final release of Triton with a wheel for this Python."""
    resolution = toolchains.FAMILIES["triton"].versions()
    final = [each for each in resolution.choices if not Version(each.version).is_prerelease]
    choice = max(final, key=lambda each: Version(each.version))
    notes = (*resolution.warnings, f"newest is Triton {choice.version}")
    return ReleaseSide(text, choice.identity, choice, notes=notes)


def _ambiguous(text: str, version: str) -> UsageError:
    release = version
    # 2.9 is all of 2.9.*; 2.9.1 is one release.
    if version.count(".") < 2:
        release = f"{version}.*"
    readings = [_reading(name, release) for name in ("torch", "triton")]
    return UsageError(f"{text!r} names neither torch nor Triton: write {' or '.join(readings)}")


def _reading(name: str, release: str) -> str:
    """Return a requirement with the release that it selects."""
    requirement = f"{name}=={release}"
    try:
        side = _release(requirement, name, f"=={release}")
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
        run_standings = standings(
            questions.of_runs(store, [run]), store.current, questions.further_records(store)
        )
        partial = [each.progress_by_place.to_json() for each in run_standings if each.is_partial]
        records = tuple(store.records(run.id))
        return StoredSide(text, f"run {run.id}", records, _progress(partial))


def _path(text: str) -> Side:
    """Return the side of a launches file, a run's JSON, or a compiler's wheel or folder."""
    file = Path(text)
    if file.is_dir() or file.suffix == ".whl":
        (choice,) = toolchains.resolve([text]).choices
        return ReleaseSide(text, text, choice)
    try:
        with files.open_text(file, _MOST_BYTES) as stream:
            first = stream.readline()
            if _schema(first) == LAUNCHES_SCHEMA:
                return _launches_file(text)
            rest = stream.read()
            records = tuple(_records(text, first, rest))
            partial = _partial(first + rest)
    except OSError as error:
        raise UsageError(f"{text}: cannot be read ({error.strerror}); give {_FORMS}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{text}: is not a text file; give {_FORMS}") from None
    return StoredSide(text, file.name, records, partial)


def _partial(document: str) -> str | None:
    """Return the progress of a partial run; None for JSON lines, which lack it."""
    try:
        return _progress(json.loads(document)["summary"].get("partial", ()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _progress(partial: Sequence[Mapping[str, Any]]) -> str | None:
    """Return `147/394` for the cells of all partial places; None without such places."""
    if not partial:
        return None
    records = sum(place["answered"] for place in partial)
    totals = [place["asked"] for place in partial]
    if None in totals:
        return f"{records}/?"
    return f"{records}/{sum(totals)}"


def _schema(line: str) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value.get("schema")


def _launches_file(text: str) -> ReleaseSide:
    """Return the compiler that recorded a launches file, by default the installed one."""
    header = next(launches.stream(Path(text), trust=True))
    content = getattr(header, "content", {})
    spec = toolchains.DEFAULT_SPEC
    if isinstance(content.get("triton"), str):
        spec = f"triton=={content['triton']}"
    (choice,) = toolchains.resolve([spec]).choices
    notes = (f"{text} was recorded under {choice.identity}, which compiles it",)
    return ReleaseSide(text, spec, choice, launches=text, notes=notes)


def _records(file: str, first: str, rest: str) -> Iterator[Record]:
    """Yield the records of a run's JSON document or JSON lines."""
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
            # A newer flacheck may write further fields.
            names = RecordDocument.__struct_encode_fields__
            known = {name: field for name, field in value.items() if name in names}
            msgspec.convert(known, RecordDocument)
            yield Record.from_json(value)
    except (
        msgspec.ValidationError,
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
