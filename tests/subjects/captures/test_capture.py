"""Running a command with the recorder in every Python that it starts."""

from __future__ import annotations

import ast
import builtins
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.subjects.captures.capture_job import GUEST
from flacheck.subjects.captures.run import NOT_STARTED, capture, summary
from flacheck.subjects.inputs.launches import read
from tests.captured import needs_torch, recorded


def test_the_commands_own_code_is_returned(tmp_path: Path) -> None:
    """A program without torch or triton pays nothing and leaves a file without launches."""
    output = tmp_path / "l.jsonl"
    assert capture([sys.executable, "-c", "import sys; sys.exit(7)"], output) == 7
    launches = read(output)
    assert launches.launches == ()
    assert launches.header["triton"] is None
    assert launches.end is not None
    assert launches.end["exit_code"] == 7


def test_a_signal_is_the_shells_code(tmp_path: Path) -> None:
    """A command that signal 9 ends has the exit code 128 + 9."""
    command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert capture(command, tmp_path / "l.jsonl") == 137


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """A command that is not there has a code of its own."""
    assert capture([str(tmp_path / "none")], tmp_path / "l.jsonl") == NOT_STARTED


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """The program is not started when its launches could not be kept."""
    with pytest.raises(UsageError, match="cannot be written"):
        capture(["true"], tmp_path / "none" / "l.jsonl")


def test_no_command_is_a_usage_error(tmp_path: Path) -> None:
    """Nothing is captured without a program."""
    with pytest.raises(UsageError, match="nothing to capture"):
        capture([], tmp_path / "l.jsonl")


def test_the_summary_says_what_may_rest_on_a_guess(tmp_path: Path) -> None:
    """Launches count with their repetitions, and guesses with where most of them were made."""
    file = tmp_path / "l.jsonl"
    file.write_text(
        '{"schema": "flacheck.launches/1"}\n{"id": "a", "kernel": "m:k"}\n{"of": "a", "count": 2}\n'
    )
    assert summary(file) == f"Recorded launches: 3, in {file}"
    with file.open("a") as more:
        more.write('{"id": "b", "kernel": "m:k", "guessed": "m:9"}\n')
        more.write('{"guessed": "int64", "at": "m:4", "count": 1}\n')
        more.write('{"guessed": "int64", "at": "m:9", "count": 5}\n{"id": "c", "ker')
    assert summary(file) == (
        f"Recorded launches: 4, in {file}. flacheck made up 6 of the values that the program read, "
        "most of them at m:9; distinct launches that may depend on them: 1"
    )


def test_the_users_own_sitecustomize_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder's sitecustomize comes first and then runs the user's."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'ran'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-c", "import sys; sys.exit(3 if mine == 'ran' else 4)"]
    assert capture(command, tmp_path / "l.jsonl") == 3


def test_a_command_that_is_terminated_ends_its_program(tmp_path: Path) -> None:
    """The launches file has its end line if only flacheck is terminated."""
    output, marker = tmp_path / "l.jsonl", tmp_path / "started"
    program = f"import pathlib, time; pathlib.Path({str(marker)!r}).touch(); time.sleep(600)"
    command = [sys.executable, "-m", "flacheck", "capture", "-o", str(output)]
    with subprocess.Popen([*command, "--", sys.executable, "-c", program]) as process:
        while not marker.exists():
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    end = read(output).end
    assert end is not None
    assert end["exit_code"] == 128 + signal.SIGTERM


@needs_torch
def test_a_killed_program_leaves_its_launches(tmp_path: Path) -> None:
    """Each line is written before the launch goes on."""
    program = """
    import os
    launch(torch.empty(64, device='cuda'))
    os.kill(os.getpid(), 9)
    """
    assert len(recorded(tmp_path, program, code=137).launches) == 1


@needs_torch
def test_child_processes_are_recorded_too(tmp_path: Path) -> None:
    """Processes that the program starts or forks share its file."""
    program = """
    import multiprocessing, subprocess
    n = int(sys.argv[1])
    x = torch.empty(64, device='cuda')
    launch(x, n)
    if n == 1:
        subprocess.run([sys.executable, __file__, "2"], check=True)
        child = multiprocessing.get_context("fork").Process(target=launch, args=(x, 3))
        child.start(); child.join()
    """
    launches = recorded(tmp_path, program, "1").launches
    assert sorted(one.launch.args["n"]["int"] for one in launches) == [1, 2, 3]


@pytest.mark.parametrize("room", ["engine", "workers", "recorder"])
def test_a_captured_program_may_run_under_an_older_python(room: str) -> None:
    """A program captured under Python 3.9 may use `|` in annotations, which are never evaluated."""
    unions = []
    for file in (GUEST / room).rglob("*.py"):
        for statement in ast.parse(file.read_text(), feature_version=(3, 9)).body:
            if isinstance(statement, ast.Assign):
                unions += [f"{file.name}:{n.lineno}" for n in ast.walk(statement) if _is_union(n)]
    assert unions == []


def _is_union(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.BitOr):
        return False
    return any(getattr(side, "id", "") in dir(builtins) for side in (node.left, node.right))
