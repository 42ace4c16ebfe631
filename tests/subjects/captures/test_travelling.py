"""Captures that travel: the other shards use the cells that the first shard wrote."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.subjects.captures import capture_archive

NAME = "made-1.0-0123abcd"


def entries(file: Path) -> None:
    """A file with one capture, as the first shard writes it."""
    with capture_archive.open_archive(file) as captures:
        assert captures is not None
        assert captures.file is None
        folder = captures.folder / NAME
        folder.mkdir()
        (folder / "launches.jsonl").write_text("{}\n")
        (folder / "report.json").write_text("[]")


def test_what_one_shard_writes_the_next_reads(tmp_path: Path) -> None:
    """The bytes are the same, in a folder of the reader's own."""
    file = tmp_path / "captures.zip"
    entries(file)
    with capture_archive.open_archive(file) as captures:
        assert captures is not None
        assert captures.file == file
        assert (captures.folder / NAME / "launches.jsonl").read_text() == "{}\n"
        assert (captures.folder / NAME / "report.json").read_text() == "[]"
        folder = captures.folder
    assert not folder.exists()


def test_without_a_file_nothing_travels() -> None:
    """Captures stay in the cache."""
    with capture_archive.open_archive(None) as captures:
        assert captures is None


def test_a_scan_that_failed_writes_nothing(tmp_path: Path) -> None:
    """A later shard would take half of the captures for all."""
    file = tmp_path / "captures.zip"
    with pytest.raises(RuntimeError), capture_archive.open_archive(file):
        raise RuntimeError
    assert not file.exists()


@pytest.mark.parametrize("member", ["../outside/report.json", "/tmp/report.json", "a/other.py"])
def test_nothing_else_is_unpacked(tmp_path: Path, member: str) -> None:
    """A file from elsewhere may name any path."""
    file = tmp_path / "captures.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, "x")
    with pytest.raises(UsageError, match="was not written by --captured"):
        capture_archive.open_archive(file).__enter__()


def test_what_is_no_such_file_is_said(tmp_path: Path) -> None:
    """By its name."""
    file = tmp_path / "captures.zip"
    file.write_text("not a zip")
    with pytest.raises(UsageError, match=r"captures\.zip: cannot be read as captures"):
        capture_archive.open_archive(file).__enter__()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UsageError, match=r"captures\.zip: is not a regular file"):
        capture_archive.open_archive(file).__enter__()


def test_a_missing_folder_is_said_before_the_captures(tmp_path: Path) -> None:
    """A file that cannot be written later is refused at once."""
    with pytest.raises(UsageError, match=r"no/folder\.zip: the folder .* is not there"):
        capture_archive.open_archive(tmp_path / "no" / "folder.zip").__enter__()
