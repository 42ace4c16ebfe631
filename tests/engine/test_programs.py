"""Programs beside the workers: their environment, their limits, and their end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck.engine import policies, programs
from flacheck.engine.programs import ProgramEnd
from tests.engine.test_executors import has_gone, running
from tests.paths import ROOT


def run(folder: Path, script: str, seconds: float = 30, memory_mb: int = 2000) -> ProgramEnd:
    return programs.run(
        ["-c", script],
        programs.environment(folder, {"MARK": "x"}),
        folder,
        folder / "log",
        seconds=seconds,
        memory_mb=memory_mb,
        policy=policies.of_package([], str(folder)),
    )


def test_a_program_has_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program gets none of the user's variables or secrets, and its output is in its log."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("LD_PRELOAD", "")
    end = run(tmp_path, "import os; print(sorted(os.environ)); print(os.getcwd())")
    assert end.exit_code == 0
    text = (tmp_path / "log").read_text()
    assert text.startswith("['HOME', 'LC_ALL', 'MARK', 'PATH', 'TMPDIR']")
    assert str(tmp_path) in text
    warden = "import os; print(open(f'/proc/{os.getppid()}/environ').read())"
    run(tmp_path, warden)
    assert "hush" not in (tmp_path / "log").read_text()


def test_a_config_may_be_longer_than_an_argument(tmp_path: Path) -> None:
    """Linux accepts at most 128 KiB in one argument; a large package has more module names."""
    config = {"modules": [f"package.module_{number}" for number in range(20_000)]}
    arguments = programs.guest_arguments(".search", config, tmp_path)
    assert json.loads(Path(arguments[-1]).read_text()) == config
    end = programs.run(
        ["-c", "import sys; assert sys.stdin.read() == ''", *arguments],
        programs.environment(tmp_path),
        tmp_path,
        tmp_path / "log",
        seconds=30,
        memory_mb=2000,
        policy=policies.of_package([f"{tmp_path}/{name}" for name in range(8_000)], str(tmp_path)),
    )
    assert end.exit_code == 0


@pytest.mark.parametrize(
    ("script", "exit_code", "name"),
    [
        ("raise SystemExit(7)", 7, None),
        ("1/0", 1, None),
        ("import os; os.abort()", None, "SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", None, "SIGKILL"),
    ],
)
def test_how_a_program_ended_is_known(
    tmp_path: Path, script: str, exit_code: int | None, name: str | None
) -> None:
    """The end is known if the program ended by itself, or by a signal."""
    end = run(tmp_path, script)
    assert (end.exit_code, end.signal, end.over) == (exit_code, name, None)


def test_memory_is_bounded_by_what_is_held(tmp_path: Path) -> None:
    """Only used memory counts, not reserved memory; child processes are included."""
    reserve = "import mmap; m = mmap.mmap(-1, 8 << 30)"
    assert run(tmp_path, reserve, memory_mb=400).exit_code == 0
    hoard = "import time; x = b'x' * (600 << 20); time.sleep(60)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hoard!r}])"
    for script in (hoard, child):
        end = run(tmp_path, script, memory_mb=400)
        assert end.over == "memory"
        assert "MB, more than its limit" in end.how


@pytest.mark.slow
def test_time_is_bounded_and_nothing_is_left(tmp_path: Path) -> None:
    """A process that left its session and its parent is ended as well."""
    marker = f"flacheck-test-{os.getpid()}-daemon"
    script = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)', '{marker}'],"
        " start_new_session=True)\n"
        "if os.fork(): time.sleep(100)\n"
        "os.setsid()\n"
        f"if os.fork() == 0: os.execv(sys.executable, ['python', '-c', 'import time;"
        f" time.sleep(100)', '{marker}'])\n"
    )
    start = time.monotonic()
    end = run(tmp_path, script, seconds=2)
    assert end.over == "time"
    assert time.monotonic() - start < 20
    assert has_gone(marker)


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """When the program ends, all its processes end."""
    marker = f"flacheck-test-{os.getpid()}-left"
    script = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)', '{marker}'])"
    )
    assert run(tmp_path, script).exit_code == 0
    assert has_gone(marker)


@pytest.mark.parametrize("victim", ["flacheck", "warden"])
def test_a_program_dies_with_flacheck_and_with_its_warden(tmp_path: Path, victim: str) -> None:
    """However these end."""
    marker = f"flacheck-test-{os.getpid()}-{victim}"
    inner = f"import time; time.sleep(100); '{marker}'"
    script = (
        "from pathlib import Path; from tests.engine.test_programs import run\n"
        f"run(Path({str(tmp_path)!r}), {inner!r}, seconds=90)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        end = time.monotonic() + 30
        while not _program(marker) and time.monotonic() < end:
            time.sleep(0.05)
        program = _program(marker)
        assert program
        if victim == "flacheck":
            parent.send_signal(signal.SIGKILL)
        else:
            os.kill(int(_status(program, "PPid")), signal.SIGKILL)
        end = time.monotonic() + 5
        while Path(f"/proc/{program}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not Path(f"/proc/{program}").exists()
        parent.wait(20)
        assert not running(marker)
    finally:
        parent.kill()
        parent.wait()


def _program(marker: str) -> int:
    """Return the program itself, whose command begins with the script."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[2].startswith(b"import time") and marker.encode() in words[2]:
            return int(folder.name)
    return 0


def _status(pid: int, name: str) -> str:
    text = Path(f"/proc/{pid}/status").read_text()
    return text.split(f"{name}:")[1].split()[0]
