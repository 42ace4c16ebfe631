"""Files of a checkout that are pipes, devices, endless, or links to a file of the user."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_cli import flacheck

SECRET = "the PRIVATE key"
# Each command with the file in it that is replaced.
READERS = {
    "requirements.txt": ["gate", "requirements.txt"],
    "uv.lock": ["gate", "uv.lock"],
    "pylock.toml": ["gate", "pylock.toml"],
    "other.toml": ["gate", "other.toml"],
    "matrix.yaml": ["scan", "matrix.yaml", "--dry-run"],
    "l.jsonl": ["scan", "l.jsonl", "--triton", "3.2.0", "--dry-run"],
    "baseline.json": ["gate", "pins.txt", "--baseline", "baseline.json"],
    "run.json": ["diff", "./run.json", "triton==3.2.0"],
    "results/manifest.json": ["known", "fla", "--results", "results"],
    "log.txt": ["explain", "log.txt"],
}


def _make(kind: str, file: Path, outside: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "huge":
        with file.open("wb") as sparse_file:
            sparse_file.truncate(80 << 30)
    else:
        file.symlink_to(outside)


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "link"])
@pytest.mark.parametrize("name", READERS)
def test_such_a_file_is_a_usage_error_at_once(tmp_path: Path, name: str, kind: str) -> None:
    """No command hangs, fills the memory or prints another file."""
    (tmp_path / "id_rsa").write_text(SECRET)
    (tmp_path / "here").mkdir()
    _make(kind, tmp_path / "here" / name, tmp_path / "id_rsa")
    if (name, kind) == ("log.txt", "link"):
        pytest.skip("explain prints the log that its user names")
    # The first command of a session waits for the process that all are forked from.
    flacheck("--version", cwd=tmp_path)
    start = time.monotonic()
    outcome = flacheck(*READERS[name], cwd=tmp_path / "here")
    assert time.monotonic() - start < 10
    assert outcome.returncode == 2, outcome.stderr
    assert name in outcome.stderr
    assert SECRET not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("kind", ["device", "huge", "link"])
def test_a_projects_settings_are_read_likewise(tmp_path: Path, kind: str) -> None:
    """A device counts as a missing file."""
    (tmp_path / "id_rsa").write_text(SECRET)
    (tmp_path / "here").mkdir()
    _make(kind, tmp_path / "here" / "pyproject.toml", tmp_path / "id_rsa")
    outcome = flacheck("list", "targets", cwd=tmp_path / "here")
    assert outcome.returncode == (0 if kind == "device" else 2), outcome.stderr
    assert SECRET not in outcome.stdout + outcome.stderr


def test_a_file_outside_is_included_and_not_quoted(tmp_path: Path) -> None:
    """An included file outside the project is not quoted."""
    (tmp_path / "id_rsa").write_text(f"torch==2.9.0\n{SECRET}\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "requirements.txt").write_text("-r ../id_rsa\n")
    outcome = flacheck("gate", "requirements.txt", cwd=tmp_path / "here")
    assert outcome.returncode == 2
    assert "../id_rsa:2: is not a requirement" in outcome.stderr
    assert "PRIVATE" not in outcome.stdout + outcome.stderr


def test_a_shells_pipe_may_hold_requirements(tmp_path: Path) -> None:
    """A process substitution is read to its end."""
    script = f"{sys.executable} -m flacheck gate <(echo torch==none)"
    outcome = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert outcome.returncode == 2
    assert "'torch==none' is not a requirement" in outcome.stderr
