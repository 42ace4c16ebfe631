"""The form of what is stored. A store may come from elsewhere, or a disk may have damaged it, so a
row is held to the types that its readers count on before any of them sees it."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, convert

from flacheck.errors import StoreError
from flacheck.model import Json, Kernel, KeySet, Launch, Question, Verdict, digest
from flacheck.model.launch import FormError, LaunchForm, check_constants, check_plain

Amount = Annotated[float, Meta(ge=0)]
Toolchain = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]+==.+$")]
# A stored launch leaves nothing open, but older files may hold what is no placeholder today.
_LAUNCH = LaunchForm(placeholders=None)
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
    OverflowError,
    FormError,
    zlib.error,
)
# A cell's key is a hash, of which half the characters at least remain when it is packed. So the
# text of a key set is at most so many times as long as its packed form, and a little.
_MOST_UNPACKED, _ALWAYS_UNPACKED = 24, 1 << 16
Key = Annotated[str, Meta(min_length=8)]


class StoredFinding(Struct):
    """A named cause."""

    code: str
    title: str
    facts: dict[str, Any]


class StoredRecord(Struct):
    """A record's own columns and those of its cell."""

    key: str
    kernel: str
    package: str | None
    how: str
    toolchain: Toolchain
    target: str
    dtype: str | None
    shape: dict[str, int]
    launch: Launch | None
    options: dict[str, Any]
    widened: bool
    verdict: Verdict
    reason: str | None
    tolerated: bool
    code: str | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: str
    findings: list[StoredFinding]
    seconds: Amount
    peak_mb: Amount | None
    # Figures, and of a compile of several functions the figures of each.
    resources: dict[str, int | float | list[dict[str, Any]] | None]


class StoredKernel(Struct):
    """A kernel and where it comes from."""

    name: str
    package: str | None
    digest: str
    origin: dict[str, Any]
    operator: str | None = None
    form: str | None = None


class StoredKeySet(Struct):
    """The keys that a question asks of one toolchain on one target."""

    kernels: dict[Key, str]
    made_up: list[Key]
    alternatives: dict[Key, list[Key]] = {}


class StoredMiss(Struct):
    """A kernel that a capture did not record."""

    kernel: str
    reason: str


class StoredCoverage(Struct):
    """What of a package was captured."""

    package: str
    toolchain: Toolchain
    launchable: int
    recorded: int
    missed: list[StoredMiss]


class StoredContext(Struct):
    """What a report needs to know of a run and no record holds."""

    forms: list[tuple[str | None, str, str, str]] = []
    kernels: list[str] = []
    coverage: list[StoredCoverage] = []
    of: str | None = None
    fallbacks: list[tuple[str | None, dict[str, Any]]] = []


def record(body: str) -> Json:
    """A record's JSON; ValueError and its kind for what is none."""
    plain: Json = json.loads(body)
    check_plain(plain)
    convert(plain, StoredRecord)
    check_constants(plain["options"])
    launch = plain["launch"] or {"args": {}}
    _LAUNCH.check_arguments(launch["args"])
    _LAUNCH.check_arguments(launch.get("heuristics", {}), "heuristics")
    # Only a launch may be called with an infinity; the rest is counted and measured.
    _check_finite({name: held for name, held in plain.items() if name != "launch"})
    for config in launch.get("configs", ()):
        check_constants({name: held for name, held in config.items() if name != "kwargs"})
        check_constants(config.get("kwargs", {}))
    return plain


def key_set(body: bytes) -> KeySet:
    """Return the keys in a packed body. Raises ValueError and its kind for another form, before it
    takes more memory than a store of that size may."""
    most = _MOST_UNPACKED * len(body) + _ALWAYS_UNPACKED
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(body, most)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {most:,} bytes")
    plain = msgspec.json.decode(text, type=StoredKeySet)
    return KeySet(plain.kernels, frozenset(plain.made_up), plain.alternatives)


def kernel(body: str) -> Kernel:
    """A stored kernel."""
    plain = json.loads(body)
    check_plain(plain)
    convert(plain, StoredKernel)
    return Kernel.from_json(plain)


def question(text: str) -> Question:
    """What a run asks."""
    plain = json.loads(text)
    check_plain(plain)
    return Question.from_json(plain)


def check_digest(name: str, value: Any) -> None:
    """Raise ValueError for a row under another name than its content's digest."""
    if name != digest(value):
        raise ValueError("its digest is that of another content")


def mapping(text: str) -> Json:
    """A JSON object."""
    plain = json.loads(text)
    check_plain(plain)
    return convert(plain, dict[str, Any])


def context(text: str) -> Json:
    """What is noted of a run."""
    plain = mapping(text)
    convert(plain, StoredContext)
    _check_finite(plain)
    return plain


def _check_finite(value: Any) -> None:
    """ValueError for a number that JSON does not have, though Python reads it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    if isinstance(value, Mapping):
        for held in value.values():
            _check_finite(held)
    elif isinstance(value, list):
        for held in value:
            _check_finite(held)


@contextmanager
def check_row(path: Path, what: str, key: Any) -> Iterator[None]:
    """Turn whatever a damaged row makes its reader raise into one StoreError that names it."""
    try:
        yield
    # A row may hold any type in any place.
    except _DAMAGE as error:
        raise StoreError(
            f"{path}: {what} {key} is damaged ({_first_line(error)}); nothing of the file was"
            " changed: restore it from a copy, or move it away and scan again"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def columns(row: Mapping[str, Any]) -> None:
    """ValueError for a column of another type than a run's."""
    for name, value in row.items():
        if not isinstance(value, str) and (name not in ("finished", "matrix") or value is not None):
            raise ValueError(f"{name} is {type(value).__name__}")
