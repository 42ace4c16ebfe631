"""The file of published results: one package or matrix on one toolchain and target.

A file is two frames of Zstandard with JSON: a header, which answers most questions alone, and the
cells. It holds no paths; equal parts stand once in a table, and everything is sorted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from packaging.requirements import Requirement
from packaging.version import Version

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.analysis.compiled_sizes import CompiledSizes
from flacheck.evidence.analysis.fallbacks import ReportedFallback
from flacheck.evidence.baseline.form import BaselinePlace
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.evidence.published.extents import PackedExtent
from flacheck.model.coverage import PackageCoverage
from flacheck.model.launch import FormError, check_plain
from flacheck.model.wire import ToolchainName

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SCHEMA = "flacheck.results/1"
SUFFIX = ".zst"
# The generation of the launches that a capture of a package makes. Raise it when captures call most
# operators in another way: answers by older files then carry a note. 2 is the first with every
# common head size, packed sequences and one token.
GENERATION = 2
# The largest file, what it may unpack to, and its cells: over ten times what the largest package
# has (6,363 cells, 2 MB). To read so many cells takes 2 s and 140 MB.
MOST_BYTES = 8 << 20
_MOST_UNPACKED = 32 << 20
_MOST_HEADER = 4 << 20
_MOST_CELLS = 64_000
_LEVEL = 19

Natural = Annotated[int, Meta(ge=0)]
Index = Natural
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]{0,99}$")]
# A package at a version, or a matrix.
About = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]{0,99}(==[\w.!+-]{1,60})?$")]
PythonVersion = Annotated[str, Meta(pattern=r"^\d{1,2}\.\d{1,3}$")]
Date = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d$")]
Configs = Literal["usual", "edges", "own"]
_DAMAGE = (
    zstd.ZstdError,
    EOFError,
    msgspec.MsgspecError,
    ValueError,
    RecursionError,
    FormError,
)


class CaptureFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts of a capture that explain why a kernel lacks cells.

    `import_error` is the last line of a failed import; `cut` counts the operators that the capture
    had no time for, `is_late` marks dtypes that it had no time for; `launched` are the kernels with
    a launch, `refused` the kernels of each refused operator.
    """

    import_error: str | None = None
    cut: Natural = 0
    is_late: bool = False
    launched: tuple[str, ...] = ()
    refused: dict[str, tuple[str, ...]] = {}


class Highlight(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of a kernel that compiles and is still worth a look; the worst of its cells.

    `kind` is spills (bytes), shared (bytes of shared memory, nine tenths of the limit `of` or more)
    or slow (seconds, ten or more). `cells` is the number of cells to which it applies.
    """

    kernel: str
    kind: Literal["spills", "shared", "slow"]
    value: Annotated[float, Meta(ge=0)]
    of: Natural | None = None
    cells: Natural = 1


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The question and its answer in numbers.

    `about` is `name==version` or a matrix, `package_digest` the hash of the files in the package's
    wheels, or of the matrix and flacheck's own kernels; `keys` is the hash of the cells' keys.
    `place` holds the counts and failures, `kernels` are those of the question. A package that
    `reads_python_version` may launch other kernels under another Python; one that only compares it
    may do so on another side of a version in `python_bounds`. `requires` are its requirements on
    torch and Triton with their owners, `warnings` what it prints on import. `fallbacks` are as in
    flacheck.run/1, `highlights` the resources that matter. `sizes` are those of the compiled
    launches, `generation` is the GENERATION of the capture that recorded them. `measured` has the
    release beside another one on each GPU where both were measured.
    """

    about: About
    configs: Configs
    toolchain: ToolchainName
    target: Name
    flacheck: str
    date: Date
    python: PythonVersion
    keys: str
    cells: Natural
    place: BaselinePlace
    kernels: tuple[str, ...]
    package_digest: str | None = None
    reads_python_version: bool = False
    python_bounds: tuple[PythonVersion, ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    fallbacks: tuple[ReportedFallback, ...] = ()
    highlights: tuple[Highlight, ...] = ()
    sizes: CompiledSizes | None = None
    generation: Natural = 1
    measured: tuple[CardComparison, ...] = ()

    def __post_init__(self) -> None:
        for text in (self.flacheck, self.toolchain.partition("==")[2], self.version):
            if text is not None:
                Version(text)
        for _, requirement in self.requires:
            Requirement(requirement)
        counted = (self.place.toolchain, self.place.target, self.place.version)
        if counted != (self.toolchain, self.target, self.version):
            raise ValueError("its counts are of another release, GPU or version")
        if any(each.after != self.toolchain for each in self.measured):
            raise ValueError("a measurement is of another release")

    @property
    def has_older_launches(self) -> bool:
        """True for a package whose capture made other launches than a capture of today would.

        Each verdict holds for its own launch; only launches are missing.
        """
        return self.version is not None and self.generation < GENERATION

    @property
    def name(self) -> str:
        """The package's or matrix's name."""
        return self.about.partition("==")[0]

    @property
    def package(self) -> str | None:
        """The package as `name==version`; None for a matrix."""
        return self.about if self.version else None

    @property
    def version(self) -> str | None:
        """The package's version; None for a matrix."""
        return self.about.partition("==")[2] or None


class PackedKernel(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A kernel without its source."""

    name: str
    package: str | None
    digest: str
    how: str
    operator: str | None
    form: str | None


class PackedOutcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The outcome of cells: the fields of a record."""

    verdict: Literal["compiles", "fails", "unknown", "skipped"]
    reason: str | None
    is_tolerated: bool
    code: str | None
    signature: str | None
    stage: str | None
    signal: str | None
    message: str
    findings: tuple[dict[str, Any], ...]


class PackedCell(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A cell as indices into the tables of its file.

    `alternatives` are cells of the launch's other configurations; a cell that is only an
    alternative is not `is_requested`. `is_usual` marks the requested cells that `--configs usual`
    compiles.
    """

    kernel: Index
    launch: Index | None
    options: Index
    outcome: Index
    resources: Index
    dtype: str | None
    shape: Index
    stage: str
    seconds: Annotated[float, Meta(ge=0, le=1e7)]
    is_widened: bool = False
    is_made_up: bool = False
    is_requested: bool = True
    alternatives: tuple[Index, ...] = ()
    is_usual: bool = True


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cells of a file with their tables."""

    kernels: tuple[PackedKernel, ...]
    launches: tuple[dict[str, Any], ...]
    options: tuple[dict[str, Any], ...]
    shapes: tuple[dict[str, int], ...]
    outcomes: tuple[PackedOutcome, ...]
    resources: tuple[dict[str, Any], ...]
    cells: tuple[PackedCell, ...]
    extent: PackedExtent | None = None
    coverage: tuple[PackageCoverage, ...] = ()
    # Package, kernel, operator and form.
    forms: tuple[tuple[str | None, str, str, str], ...] = ()
    capture: CaptureFacts | None = None

    def __post_init__(self) -> None:
        if len(self.cells) > _MOST_CELLS:
            raise ValueError(
                f"{len(self.cells):,} cells are too many; {_MOST_CELLS:,} are the most"
            )
        tables = (
            ("kernel", self.kernels),
            ("launch", self.launches),
            ("options", self.options),
            ("shape", self.shapes),
            ("outcome", self.outcomes),
            ("resources", self.resources),
        )
        for cell in self.cells:
            for name, table in tables:
                index = getattr(cell, name)
                if index is not None and index >= len(table):
                    raise ValueError(f"a cell names {name} {index}, and there are {len(table)}")
            for other in cell.alternatives:
                if other >= len(self.cells):
                    raise ValueError(f"a cell names cell {other}, and there are {len(self.cells)}")


class FileEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file in the manifest of a folder."""

    file: str
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    about: About
    configs: Configs
    toolchain: ToolchainName
    target: Name

    def __post_init__(self) -> None:
        if not _FILE.fullmatch(self.file):
            raise ValueError(f"{self.file!r} is not the name of a file of results")


# One folder deep, without a way out of it.
_FILE = re.compile(r"[A-Za-z0-9][\w.+-]*/[A-Za-z0-9][\w.+-]*\.zst")


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of a folder with their hashes."""

    schema: Literal["flacheck.results/1"]
    flacheck: str
    date: Date
    files: tuple[FileEntry, ...]

    def __post_init__(self) -> None:
        names: set[object] = set()
        for entry in self.files:
            place = (entry.about, entry.configs, entry.toolchain, entry.target)
            if entry.file in names or place in names:
                raise ValueError(f"it lists {entry.file}, or its question, twice")
            names.update((entry.file, place))


def file_name(header: Header) -> str:
    """Return the name of a place's file."""
    return place_file(header.about, header.configs, header.toolchain, header.target)


def place_file(about: str, configs: str, toolchain: str, target: str) -> str:
    """Return the name of a place's file: `fla-0.4.2/usual-triton-3.5.1-sm90.zst`."""
    folder = about.replace("==", "-")
    compiler = toolchain.replace("==", "-")
    return f"{folder}/{configs}-{compiler}-{target}{SUFFIX}"


def encode(header: Header, body: Body) -> bytes:
    """Return the bytes of a file."""
    frames = []
    for part in ({"schema": SCHEMA, **msgspec.to_builtins(header)}, body):
        frames.append(zstd.compress(msgspec.json.encode(part, order="sorted"), _LEVEL))
    return b"".join(frames)


def decode_header(content: bytes, name: str) -> Header:
    """Return the header of a file's content.

    Raises:
        UsageError: If the content is damaged, too large or of another schema.
    """
    try:
        text, _ = _unpack(content, _MOST_HEADER)
        plain = msgspec.json.decode(text)
        schema = plain.pop("schema", None) if isinstance(plain, dict) else None
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema!r}, and this flacheck reads {SCHEMA}")
        check_plain(plain)
        return msgspec.convert(plain, Header)
    except _DAMAGE as error:
        raise _damaged(name, error) from None


def decode_body(content: bytes, name: str) -> Body:
    """Return the cells of a file's content.

    Raises:
        UsageError: If the content is damaged or too large.
    """
    try:
        _, rest = _unpack(content, _MOST_HEADER)
        text, rest = _unpack(rest, _MOST_UNPACKED)
        if rest:
            raise ValueError("something follows the cells")
        body = msgspec.json.decode(text, type=Body)
        for table in (body.launches, body.options, body.resources, body.coverage):
            check_plain(list(table))
        return body
    except _DAMAGE as error:
        raise _damaged(name, error) from None


def _unpack(content: bytes, most: int) -> tuple[bytes, bytes]:
    """Return the first frame's text, and the bytes behind it."""
    unpacker = zstd.ZstdDecompressor()
    text = unpacker.decompress(content, most)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {most:,} bytes")
    return text, unpacker.unused_data


def _damaged(name: str, error: Exception) -> UsageError:
    why = (str(error) or type(error).__name__).splitlines()[0][:200]
    return UsageError(
        f"{name}: not a file of published results ({why}); fetch it again with `flacheck results "
        "update`, or leave published results out with --no-published"
    )


def read_manifest(file: Path) -> Manifest:
    """Return the manifest of a folder of results.

    Raises:
        UsageError: If the file is missing, damaged or of another schema.
    """
    try:
        content = files.read_bytes(file, MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); a folder of published results holds the "
            "manifest that `flacheck results build` writes"
        ) from None
    return decode_manifest(content, str(file))


def decode_manifest(content: bytes, name: str) -> Manifest:
    """Return the manifest in a file's content.

    Raises:
        UsageError: If the content is damaged or of another schema.
    """
    try:
        return msgspec.json.decode(content, type=Manifest)
    except _DAMAGE as error:
        raise UsageError(
            f"{name}: not a manifest of published results ({str(error)[:200]}); "
            f"this flacheck reads {SCHEMA}"
        ) from None


def manifest_text(flacheck: str, date: str, entries: Iterable[FileEntry]) -> str:
    """Return the text of a manifest, one file a line."""
    files = sorted(entries, key=lambda entry: entry.file)
    manifest = Manifest(
        schema="flacheck.results/1", flacheck=flacheck, date=date, files=tuple(files)
    )
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode() + "\n"
