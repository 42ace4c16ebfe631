"""Destinations of a report: files, links, devices and closed streams."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.reports.output import write
from tests.paths import ROOT


def flacheck(*words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell; `shell` is a redirection, for example."""
    command = " ".join([f"'{sys.executable}'", "-m", "flacheck", *words, shell])
    return subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A report that fails midway leaves the old file."""

    def failing() -> object:
        yield "new"
        raise OSError(28, "No space left on device")

    file = tmp_path / "report"
    write(["old"], file)
    with pytest.raises(UsageError, match="No space left"):
        write(failing(), file)  # type: ignore[arg-type]
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_link_keeps_standing(tmp_path: Path) -> None:
    """The target of a symbolic link is replaced, also if it is missing."""
    link, target = tmp_path / "link", tmp_path / "there" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("one", "two"):
        write([text], link)
        assert link.is_symlink()
        assert target.read_text() == text


def test_a_fifo_is_written_into(tmp_path: Path) -> None:
    """A FIFO's reader gets the report."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    texts: list[str] = []
    reader = threading.Thread(target=lambda: texts.append(fifo.read_text()))
    reader.start()
    write(["text"], fifo)
    reader.join(10)
    assert texts == ["text"]
    assert fifo.is_fifo()


def test_devices_stay_devices() -> None:
    """A device is written into, and an error is reported."""
    write(["gone"], Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UsageError, match="/dev/full: cannot be written"):
        write(["x" * 100_000], Path("/dev/full"))


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_by_its_name_is_stdout(tmp_path: Path, name: str) -> None:
    """Output to /dev/stdout is appended like stdout's."""
    file = tmp_path / "log"
    file.write_text("before\n")
    outcome = flacheck("explain", "FC302", "-o", name, shell=f">> '{file}'")
    assert outcome.returncode == 0, outcome.stderr
    text = file.read_text()
    assert text.startswith("before\n")
    assert "FC302" in text


@pytest.mark.parametrize(
    ("shell", "words"),
    [("> /dev/full", "stdout: cannot be written"), (">&-", "stdout is closed")],
)
def test_a_stdout_that_takes_nothing_is_an_error(shell: str, words: str) -> None:
    """A closed stdout is an error of one line."""
    outcome = flacheck("explain", "FC302", shell=shell)
    assert outcome.returncode == 2
    assert words in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


@pytest.mark.parametrize("shell", ["2>&-", "2> /dev/full"])
def test_a_stderr_that_takes_nothing_changes_no_code(shell: str) -> None:
    """A closed stderr changes neither the exit code nor stdout."""
    outcome = flacheck("explain", "FC999", shell=shell)
    assert outcome.returncode == 2
    assert outcome.stdout == ""


def test_an_ascii_terminal_shows_escapes() -> None:
    """Characters that the terminal lacks are escaped."""
    outcome = flacheck("list", "rules", PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0, outcome.stderr
    outcome = flacheck("explain", "FC302", PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.isascii()
