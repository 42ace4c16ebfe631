"""The form of stored rows, checked before any reader uses them.

A store may come from elsewhere, or a disk may have damaged it.
"""

import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, convert, field, to_builtins

from flacheck.errors import StoreError
from flacheck.model import Json, Kernel, KeySet, Launch, LaunchExtent, Question, Verdict, digest
from flacheck.model.launch import FormError, LaunchForm, check_constants, check_plain

Amount = Annotated[float, Meta(ge=0)]
Toolchain = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]+==.+$")]
# Stored launches are complete, but older files may hold text that looks like a placeholder.
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
# A cell's key is a hash, and packing keeps at least half of its characters. So the text of a key
# set is at most this many times as long as its packed form, plus a constant.
_MOST_UNPACKED, _ALWAYS_UNPACKED = 24, 1 << 16
Key = Annotated[str, Meta(min_length=8)]
# An escape that may be half a character; a number that may be long or infinite.
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_SPECIAL_NUMBER = re.compile(r"NaN|Infinity|[eE]\+?\d{3}|\d{30}")
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_SIMPLE_DEPTH = 20


class StoredFinding(Struct):
    """A named cause."""

    code: str
    title: str
    facts: dict[str, Any]


class StoredRecord(Struct):
    """The columns of a record and those of its cell."""

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
    is_widened: bool = field(name="widened")
    verdict: Verdict
    reason: str | None
    is_tolerated: bool = field(name="tolerated")
    code: str | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: str
    findings: list[StoredFinding]
    seconds: Amount
    peak_mb: Amount | None
    # Figures; for a compile of several functions also the figures of each.
    resources: dict[str, int | float | list[dict[str, Any]] | None]
    cpu_seconds: Amount | None = None
    shared_cache: str | None = None


class StoredKernel(Struct):
    """A kernel and its origin."""

    name: str
    package: str | None
    digest: str
    origin: dict[str, Any]
    operator: str | None = None
    form: str | None = None


class StoredKeySet(Struct, omit_defaults=True):
    """The keys of a question on one toolchain and target."""

    kernels: Mapping[Key, str]
    made_up: list[Key]
    alternatives: Mapping[Key, Sequence[Key]] = {}
    extent: LaunchExtent | None = None


class StoredMiss(Struct):
    """A kernel that a capture did not record."""

    kernel: str
    reason: str


class StoredCoverage(Struct):
    """The captured part of a package."""

    package: str
    toolchain: Toolchain
    launchable: int
    recorded_count: int = field(name="recorded")
    missed_kernels: list[StoredMiss] = field(name="missed")


class StoredContext(Struct):
    """Data of a run for reports that records do not hold."""

    forms: list[tuple[str | None, str, str, str]] = []
    kernels: list[str] = []
    coverage: list[StoredCoverage] = []
    of: str | None = None
    fallbacks: list[tuple[str | None, dict[str, Any]]] = []


def record(body: str) -> Json:
    """Return a record's JSON.

    Raises ValueError or a related error for anything else.
    """
    plain: Json = json.loads(body)
    is_simple = _is_simple(body)
    if not is_simple:
        check_plain(plain)
    convert(plain, StoredRecord)
    check_constants(plain["options"])
    launch = plain["launch"] or {"args": {}}
    _LAUNCH.check_arguments(launch["args"])
    _LAUNCH.check_arguments(launch.get("heuristics", {}), "heuristics")
    # Only a launch may contain an infinity; all other numbers are counts and measurements.
    if not is_simple:
        _check_finite({name: value for name, value in plain.items() if name != "launch"})
    for config in launch.get("configs", ()):
        check_constants({name: value for name, value in config.items() if name != "kwargs"})
        check_constants(config.get("kwargs", {}))
    return plain


def key_set(body: bytes) -> KeySet:
    """Return the keys in a packed body.

    Raises ValueError or a related error for another form, before it takes more memory than a store
    of that size may.
    """
    most = _MOST_UNPACKED * len(body) + _ALWAYS_UNPACKED
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(body, most)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {most:,} bytes")
    plain = msgspec.json.decode(text, type=StoredKeySet)
    return KeySet(plain.kernels, frozenset(plain.made_up), plain.alternatives, plain.extent)


def pack_key_set(keys: KeySet) -> bytes:
    """Return a packed body: thousands of keys take a third of their size."""
    plain = StoredKeySet(keys.kernels, sorted(keys.made_up), keys.alternatives, keys.extent)
    return zlib.compress(json.dumps(to_builtins(plain)).encode())


def kernel(body: str) -> Kernel:
    """Return a stored kernel."""
    plain = json.loads(body)
    check_plain(plain)
    convert(plain, StoredKernel)
    return Kernel.from_json(plain)


def question(text: str) -> Question:
    """Return the stored question of a run."""
    plain = json.loads(text)
    check_plain(plain)
    return Question.from_json(plain)


def check_digest(name: str, value: Any) -> None:
    """Raise ValueError for a row whose name differs from its content's digest."""
    if name != digest(value):
        raise ValueError("its digest does not match its content")


def mapping(text: str) -> Json:
    """Return a JSON object."""
    plain = json.loads(text)
    check_plain(plain)
    return convert(plain, dict[str, Any])


def context(text: str) -> Json:
    """Return the stored context of a run."""
    plain = mapping(text)
    convert(plain, StoredContext)
    _check_finite(plain)
    return plain


def _is_simple(text: str) -> bool:
    """Return True for JSON whose text alone shows that its numbers, texts and depth are allowed.

    Walking a record's values costs several times as much.
    """
    without_texts = _TEXTS.sub("", text)
    if _HALF_CHARACTER.search(text) or _SPECIAL_NUMBER.search(without_texts):
        return False
    depth = 0
    for bracket in _BRACKETS.findall(without_texts):
        depth += _STEPS[bracket]
        if depth > _SIMPLE_DEPTH:
            return False
    return True


def _check_finite(value: Any) -> None:
    """Raise ValueError for a number that JSON lacks, though Python reads it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    if isinstance(value, Mapping):
        for item in value.values():
            _check_finite(item)
    elif isinstance(value, list):
        for item in value:
            _check_finite(item)


@contextmanager
def check_row(path: Path, what: str, key: Any) -> Iterator[None]:
    """Turn the errors of a damaged row's reader into one StoreError that names the row."""
    try:
        yield
    # A damaged row may hold any type in any place.
    except _DAMAGE as error:
        raise StoreError(
            f"{path}: {what} {key} is damaged ({_first_line(error)}); nothing of the file was"
            " changed: restore it from a copy, or move it away and scan again"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def columns(row: Mapping[str, Any]) -> None:
    """Raise ValueError for a column with another type than a run's."""
    for name, value in row.items():
        if not isinstance(value, str) and (name not in ("finished", "matrix") or value is not None):
            raise ValueError(f"{name} is {type(value).__name__}")
