"""Temporary folders, of processes that end and of those that are killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flacheck.toolchains import scratch

HOLDS = """
import sys
from flacheck.toolchains.scratch import make_folder
print(make_folder().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for temporary files in which nothing was looked up yet."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch.remove_stale.cache_clear()
    yield tmp_path
    scratch.remove_stale.cache_clear()


def start() -> tuple[subprocess.Popen[str], Path]:
    """A process with a temporary folder, and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


@pytest.mark.slow
def test_the_folder_of_a_killed_process_is_removed_by_the_next(where: Path) -> None:
    """Folders of living processes and of other programs stay."""
    dead, stale = start()
    (stale / "half").write_text("done")
    dead.kill()
    dead.communicate()
    living, used = start()
    assert not stale.parent.exists()
    other = where / "flacheck-notes"
    other.mkdir()
    (where / "flacheck-link").symlink_to(other)
    with scratch.temporary_folder() as mine:
        assert used.is_dir()
        assert Path(mine).is_dir()
    living.communicate()
    assert other.is_dir()
    assert not Path(mine).parent.exists()


def test_the_folder_holds_nothing_at_first(where: Path) -> None:
    """The lock lies beside the folder, which contains only its owner's files."""
    with scratch.temporary_folder() as mine:
        assert list(Path(mine).iterdir()) == []


def test_a_folder_that_another_process_took_for_stale_is_made_anew(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock."""
    lock = scratch.fcntl.flock
    times: list[int] = []

    def late(handle: int, how: int) -> None:
        if not times:
            times.append(handle)
            for folder in where.iterdir():
                scratch.shutil.rmtree(folder)
        lock(handle, how)

    monkeypatch.setattr(scratch.fcntl, "flock", late)
    with scratch.temporary_folder() as mine:
        assert Path(mine).is_dir()
