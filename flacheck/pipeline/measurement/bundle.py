"""Bundles: binaries of several releases with their launches, as a zip of data.

`manifest.json` describes the launches, each member of `binaries/` is a compressed binary by its
digest. A bundle holds no code of flacheck's, and nothing of it is unpacked or executed on the host;
a malformed one is refused as a whole.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, convert

from flacheck import files
from flacheck.errors import UsageError
from flacheck.model import Json
from flacheck.model.wire import CellKey, Natural, NotEmpty, ToolchainName, to_plain

SCHEMA = "flacheck.bundle/1"
_MANIFEST = "manifest.json"
# A bundle of FLA's 200 kernels under five releases has 25 MB, a manifest a few.
_MOST_BYTES, _MOST_MANIFEST, _MOST_BINARY = 2 << 30, 256 << 20, 256 << 20
_MOST_MEMBERS = 200_000
# Memory of a launch, elements of a tensor, and blocks of a grid, beyond what a GPU can hold or run.
_MOST_STORAGE, _MOST_GRID = 1 << 40, (1 << 31) - 1
_MOST_VALUES = 1 << 20
_Size = Annotated[int, Meta(ge=0, le=_MOST_STORAGE)]
_Blocks = Annotated[int, Meta(ge=1, le=_MOST_GRID)]
_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Text = Annotated[str, Meta(max_length=2_000)]
_Name = Annotated[str, Meta(min_length=1, max_length=500)]
_Dtype = Annotated[str, Meta(pattern=r"^(?:bf|fp|i|u)[0-9]{1,2}[a-z0-9]{0,5}\Z")]
_ClusterSize = Annotated[int, Meta(ge=1, le=16)]
_Alignment = Annotated[int, Meta(ge=1, le=1 << 20)]
_PARAMETER_TYPE = r"^(?:pointer|bf16|fp(?:16|32|64)|[iu](?:1|8|16|32|64))\Z"
# An integer, or a float in Python's hexadecimal form.
_PARAMETER_VALUE = r"^-?(?:[0-9]{1,39}|0x[01]\.?[0-9a-f]*p[-+][0-9]+|inf|nan)\Z"
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a manifest."""


class BundledTensor(_Part, frozen=True):
    """A tensor in a storage; shape, strides and offset in elements, `values` of integers."""

    storage: Natural
    dtype: _Dtype
    shape: Annotated[tuple[_Size, ...], Meta(max_length=16)]
    strides: Annotated[tuple[_Size, ...], Meta(max_length=16)]
    offset: _Size
    values: Annotated[tuple[int, ...], Meta(max_length=_MOST_VALUES)] | None = None


class Parameter(_Part, frozen=True, omit_defaults=True):
    """A parameter of a binary: the path of a tensor, or a value as text."""

    type: Annotated[str, Meta(pattern=_PARAMETER_TYPE)]
    tensor: _Name | None = None
    value: Annotated[str, Meta(pattern=_PARAMETER_VALUE)] | None = None


class Binary(_Part, frozen=True):
    """A compiled binary and what its launch takes (`guest/workers/launchable.py`)."""

    digest: _Digest
    entry: _Name
    threads: Annotated[int, Meta(ge=1, le=1024)]
    shared: Annotated[int, Meta(ge=0, le=1 << 24)]
    cluster: Annotated[tuple[_ClusterSize, ...], Meta(min_length=3, max_length=3)]
    cooperative: bool
    pdl: bool
    parameters: Annotated[tuple[Parameter, ...], Meta(max_length=1_000)]
    scratch: Annotated[tuple[tuple[_Size, _Alignment], ...], Meta(max_length=2)]


class Variant(_Part, frozen=True):
    """A launch in one configuration under one release: its binary, or why it has none."""

    toolchain: ToolchainName
    key: CellKey
    config: dict[str, Any]
    grid: Annotated[tuple[_Blocks, ...], Meta(min_length=1, max_length=3)]
    binary: Binary | None
    problem: _Text | None = None


class BundledLaunch(_Part, frozen=True):
    """A recorded launch with its memory, and a variant for each release and configuration.

    `made_up` is the reason why its arguments may not fit the kernel; None for a program's own.
    """

    kernel: NotEmpty
    package: _Text | None
    dtype: _Text | None
    by: _Text | None
    made_up: _Text | None
    operators: tuple[_Text, ...]
    storages: Annotated[tuple[_Size, ...], Meta(max_length=10_000)]
    tensors: dict[_Name, BundledTensor]
    variants: tuple[Variant, ...]

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            if tensor.storage >= len(self.storages):
                raise ValueError(f"tensor {name}: there is no storage {tensor.storage}")
            if len(tensor.shape) != len(tensor.strides):
                raise ValueError(f"tensor {name}: shape and strides differ in length")
        for variant in self.variants:
            for parameter in variant.binary.parameters if variant.binary else ():
                if parameter.type == "pointer" and parameter.tensor not in self.tensors:
                    raise ValueError(f"there is no tensor {parameter.tensor}")
                if (parameter.type == "pointer") is not (parameter.value is None):
                    raise ValueError("a parameter is a pointer to a tensor or has a value")


class BundleManifest(_Part, frozen=True):
    """The launches of a bundle. `left_out` are kernels without a launch that can be repeated."""

    schema: str
    flacheck: str
    about: _Text
    target: _Text
    toolchains: tuple[ToolchainName, ...]
    launches: tuple[BundledLaunch, ...]
    left_out: dict[str, _Text] = {}

    @property
    def digest(self) -> str:
        """The identity of the bundle: that of its manifest, which names its binaries' digests."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """An open bundle: its manifest, and a folder with its binaries, compressed, by digest."""

    manifest: BundleManifest
    folder: Path


def write(file: Path, bundle: Bundle) -> None:
    """Write a bundle in one step.

    Raises:
        UsageError: If the file cannot be written.
    """
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_MANIFEST, msgspec.json.encode(bundle.manifest))
            for digest in _digests(bundle.manifest):
                name = f"binaries/{digest}"
                archive.write(bundle.folder / digest, name, zipfile.ZIP_STORED)
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None


def read(file: Path, folder: Path) -> Bundle:
    """Read a bundle; its checked binaries are laid into a folder.

    Raises:
        UsageError: If the file is not a bundle, or any part of it is malformed.
    """
    try:
        with files.open_bytes(file, _MOST_BYTES) as handle, zipfile.ZipFile(handle) as archive:
            members = archive.namelist()
            if members.count(_MANIFEST) != 1 or len(members) > _MOST_MEMBERS:
                raise _refuse(file, "it has no manifest.json, or too many members")
            manifest = _manifest(_member(archive, _MANIFEST, _MOST_MANIFEST))
            for digest in _digests(manifest):
                content = _member(archive, f"binaries/{digest}", _MOST_BINARY)
                if hashlib.sha256(_decompress(content)).hexdigest() != digest:
                    raise _refuse(file, f"binary {digest[:12]} is not the one of its digest")
                _lay(folder / digest, content)
    except (files.UnusableFile, UsageError):
        raise
    except FileNotFoundError:
        raise UsageError(f"{file}: there is no such file") from None
    except KeyError as error:
        raise _refuse(file, str(error.args[0])) from None
    except (msgspec.MsgspecError, ValueError, *_DAMAGE) as error:
        raise _refuse(file, str(error)) from None
    return Bundle(manifest, folder)


def _lay(file: Path, content: bytes) -> None:
    """Write a binary; UsageError if the disk is full, which is no fault of the bundle."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})") from None


def _refuse(file: Path, reason: str) -> UsageError:
    return UsageError(
        f"{file}: not a bundle of flacheck's: {reason}; `flacheck measure … --bundle FILE` writes "
        "one"
    )


def _member(archive: zipfile.ZipFile, name: str, most_bytes: int) -> bytes:
    """Return a member of at most so many bytes, whatever size it declares."""
    with archive.open(name) as member:
        content = member.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{name} is larger than {most_bytes:,} bytes")
    return content


def _decompress(content: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    code = decompressor.decompress(content, _MOST_BINARY)
    if not decompressor.eof:
        raise ValueError(f"a binary is incomplete, or larger than {_MOST_BINARY:,} bytes")
    return code


def _manifest(content: bytes) -> BundleManifest:
    value: Json = msgspec.json.decode(content)
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}, which this flacheck reads")
    return convert(value, BundleManifest)


def _digests(manifest: BundleManifest) -> list[str]:
    digests: dict[str, None] = {}
    for launch in manifest.launches:
        for variant in launch.variants:
            if variant.binary is not None:
                digests[variant.binary.digest] = None
    return list(digests)


def request_of(launch: BundledLaunch, folder: Path, tolerance: float, wobble: float) -> Json:
    """Return a launch as the runner takes it; a variant without a binary is left to be skipped.

    Args:
        launch: The launch.
        folder: The folder of the binaries.
        tolerance: The largest relative difference that rounding explains.
        wobble: The relative difference of inputs that shows how far rounding is amplified.
    """
    variants = []
    for variant in launch.variants:
        plain: Json = {"grid": list(variant.grid)}
        if variant.binary is not None:
            plain |= to_plain(variant.binary)
            plain["file"] = str(folder / variant.binary.digest)
        variants.append(plain)
    return {
        "storages": list(launch.storages),
        "tensors": to_plain(launch.tensors),
        "variants": variants,
        "tolerance": tolerance,
        "wobble": wobble,
        "has_judge": launch.made_up is None,
    }
