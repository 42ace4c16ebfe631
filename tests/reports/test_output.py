"""Where a report goes: what is replaced, what is written into, and what is said of neither."""

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
    """The command in a shell of its own, with a redirection behind it."""
    quoted = " ".join([f"'{sys.executable}'", "-m", "flacheck", *words, shell])
    return subprocess.run(
        ["sh", "-c", quoted],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A report that fails half way leaves the old one."""

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
    """What it points to is replaced, also when that is not there yet."""
    link, target = tmp_path / "link", tmp_path / "there" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("one", "two"):
        write([text], link)
        assert link.is_symlink()
        assert target.read_text() == text


def test_a_fifo_is_written_into(tmp_path: Path) -> None:
    """Whoever reads it gets the report, and it is still a FIFO."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(fifo.read_text()))
    reader.start()
    write(["said"], fifo)
    reader.join(10)
    assert heard == ["said"]
    assert fifo.is_fifo()


def test_devices_stay_devices() -> None:
    """`-o /dev/null` throws away, `-o /dev/full` is an error."""
    write(["gone"], Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UsageError, match="/dev/full: cannot be written"):
        write(["x" * 100_000], Path("/dev/full"))


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_by_its_name_is_stdout(tmp_path: Path, name: str) -> None:
    """What stood in the file that stdout goes to stays."""
    file = tmp_path / "log"
    file.write_text("before\n")
    done = flacheck("explain", "FC302", "-o", name, shell=f">> '{file}'")
    assert done.returncode == 0, done.stderr
    said = file.read_text()
    assert said.startswith("before\n")
    assert "FC302" in said


@pytest.mark.parametrize(
    ("shell", "words"),
    [("> /dev/full", "stdout: cannot be written"), (">&-", "stdout is closed")],
)
def test_a_stdout_that_takes_nothing_is_an_error(shell: str, words: str) -> None:
    """In one line, without a traceback."""
    done = flacheck("explain", "FC302", shell=shell)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("shell", ["2>&-", "2> /dev/full"])
def test_a_stderr_that_takes_nothing_changes_no_code(shell: str) -> None:
    """Talk is lost, and does not get among the data."""
    done = flacheck("explain", "FC999", shell=shell)
    assert done.returncode == 2
    assert done.stdout == ""


def test_an_ascii_terminal_shows_escapes() -> None:
    """No report ends because a character cannot be shown."""
    done = flacheck("list", "rules", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    done = flacheck("explain", "FC302", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
