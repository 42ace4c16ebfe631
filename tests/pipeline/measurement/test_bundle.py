"""Bundles as files: what is written is read, and what is malformed is refused."""

from __future__ import annotations

import errno
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.errors import UsageError
from flacheck.pipeline.measurement import bundle as bundles
from flacheck.pipeline.measurement.bundle import Bundle
from flacheck.pipeline.measurement.collecting import variants_of
from flacheck.store.binaries import Binaries
from tests.made_records import record
from tests.pipeline.measurement.bundles import bundle, launch


def _written(folder: Path) -> tuple[Path, Bundle]:
    made = bundle(folder, launch(folder, "double", "wrong"))
    file = folder / "test.bundle"
    bundles.write(file, made)
    return file, made


def test_a_bundle_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The manifest is equal, and every binary lies in the folder by its digest."""
    file, made = _written(tmp_path)
    into = tmp_path / "read"
    into.mkdir()
    read = bundles.read(file, into)
    assert read.manifest == made.manifest
    names = {each.name for each in into.iterdir()}
    assert names == {
        variant.binary.digest for variant in made.manifest.launches[0].variants if variant.binary
    }


def _change(path: tuple[Any, ...], value: Any) -> Callable[[Any], None]:
    def change(manifest: Any) -> None:
        place = manifest
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


BINARY = ("launches", 0, "variants", 0, "binary")


@pytest.mark.parametrize(
    "change",
    [
        _change(("schema",), "flacheck.bundle/2"),
        _change(("surprise",), 1),
        _change((*BINARY, "digest"), "../../etc/passwd"),
        _change((*BINARY, "digest"), "0" * 64),
        _change((*BINARY, "threads"), 100_000),
        _change((*BINARY, "cluster"), [1]),
        _change((*BINARY, "parameters", 0, "tensor"), "absent"),
        _change((*BINARY, "parameters", 0, "value"), "1"),
        _change((*BINARY, "parameters", 2, "value"), "__import__('os')"),
        _change(("launches", 0, "variants", 0, "grid"), [0]),
        _change(("launches", 0, "variants", 0, "grid"), [1, 1, 1, 1]),
        _change(("launches", 0, "storages"), [-1, 4]),
        _change(("launches", 0, "storages"), [1 << 60, 4]),
        _change(("launches", 0, "tensors", "x", "storage"), 7),
        _change(("launches", 0, "tensors", "x", "strides"), [1, 1]),
        _change(("launches", 0, "tensors", "x", "dtype"), "fp32; rm"),
    ],
)
def test_a_malformed_bundle_is_refused(tmp_path: Path, change: Callable[[Any], None]) -> None:
    """Its content is not run, and the message names the file."""
    file, _ = _written(tmp_path)
    damaged = tmp_path / "damaged.bundle"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(damaged, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
            copy.writestr(name, content)
    with pytest.raises(UsageError, match=r"damaged\.bundle: not a bundle"):
        bundles.read(damaged, tmp_path)


def test_a_changed_binary_is_refused(tmp_path: Path) -> None:
    """Each binary must match its digest."""
    file, _ = _written(tmp_path)
    damaged = tmp_path / "damaged.bundle"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(damaged, "w") as copy:
        codes = [archive.read(name) for name in archive.namelist() if name != "manifest.json"]
        for name in archive.namelist():
            is_manifest = name == "manifest.json"
            copy.writestr(name, archive.read(name) if is_manifest else codes[0])
    with pytest.raises(UsageError, match="is not the one of its digest"):
        bundles.read(damaged, tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a zip", b"{}"])
def test_another_file_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    """The message names the command that writes one."""
    file = tmp_path / "other.bundle"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="flacheck measure … --bundle"):
        bundles.read(file, tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message for a missing file differs from that for a malformed bundle."""
    with pytest.raises(UsageError, match=r"none\.bundle: there is no such file$"):
        bundles.read(tmp_path / "none.bundle", tmp_path)


def test_a_full_disk_is_no_fault_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the disk, not the bundle."""
    file, folder = tmp_path / "k.bundle", tmp_path / "read"
    folder.mkdir()
    bundles.write(file, bundle(tmp_path, launch(tmp_path, "double")))

    def fill(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        bundles.read(file, folder)


def test_a_binary_that_no_gpu_can_load_is_left_out(tmp_path: Path) -> None:
    """A compile that asks for 64 warps returns a binary, and its record fails at the load."""
    failed = record("fails", code="FC502", options={"num_warps": 64})
    Binaries().add(failed.key, {"threads": 2_048, "unlaunchable": None})
    cell: Any = SimpleNamespace(key=failed.key, toolchain=failed.toolchain)
    measured: Any = SimpleNamespace(cells=[(cell, {}, (1,))])
    (variant,) = variants_of(measured, {failed.key: failed}, tmp_path)
    assert variant.binary is None
    assert variant.problem == "it does not compile: FC502"
