"""The command before its command line is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from flacheck.cli import app, common, flags
from flacheck.errors import Exit

CONTEXT = typer.Context(typer.main.get_command(app))
INTERRUPT_AT = """
import os, signal, sys
from flacheck import __main__
WHERE = {where!r}

def struck(frame, event, argument):
    name = frame.f_globals.get("__name__", "") + ":" + frame.f_code.co_name
    if event == "call" and name == WHERE:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.argv = ["flacheck", "list", "targets"]
sys.setprofile(struck)
__main__.main()
"""


@pytest.mark.parametrize(
    "where",
    [
        "flacheck.cli:<module>",
        "flacheck.cli.common:run",
        "flacheck.reports.output:write",
        *(
            pytest.param(where, marks=pytest.mark.slow)
            for where in (
                "flacheck.cli:main",
                "flacheck.cli.defaults:of",
                "typer.main:get_command",
                "flacheck.cli.termination:terminable",
                "flacheck.cli.lists:show",
                "flacheck.cli.common:show",
            )
        ),
    ],
)
def test_an_interrupt_ends_the_command_line_wherever_it_is(where: str) -> None:
    """The exit code is 130 without a traceback."""
    script = INTERRUPT_AT.format(where=where)
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert outcome.returncode == 130, outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("where", ["flacheck.cli:<module>", "flacheck.reports.output:write"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_is_ignored_at_the_start_stays_ignored(where: str, name: str) -> None:
    """A signal that is ignored at the start stays ignored."""
    script = INTERRUPT_AT.format(where=where).replace("signal.SIGINT", f"signal.{name}")
    number = signal.Signals[name]
    outcome = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN),
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "sm90" in outcome.stdout


@pytest.mark.parametrize("words", [["list", "kernels"], ["gate"], ["report"], ["doctor"]])
def test_a_current_directory_that_was_removed_is_one_sentence(
    words: list[str], tmp_path: Path
) -> None:
    """A removed current directory is one sentence and exit code 2."""
    folder = tmp_path / "gone"
    folder.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); from flacheck.__main__ import main; main()"
    outcome = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=folder, capture_output=True, text=True
    )
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("flacheck: the current directory was removed; change to one")
    assert outcome.stderr.count("\n") == 1


def test_help_needs_no_current_directory(tmp_path: Path) -> None:
    """--version works without a current directory."""
    script = "import os; os.rmdir(os.getcwd()); from flacheck.__main__ import main; main()"
    outcome = subprocess.run(
        [sys.executable, "-c", script, "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_an_interrupt_that_no_command_expects_says_how_to_begin_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the command to begin again."""

    @common.command(flags.EveryCommand, examples=[], exits={})
    def interrupt(_: common.Call[flags.EveryCommand]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["flacheck", "repro", "a file.jsonl:2"])
    with pytest.raises(typer.Exit) as caught:
        interrupt(CONTEXT)
    assert caught.value.exit_code == 130
    message = "flacheck: interrupted. To begin again: flacheck repro 'a file.jsonl:2'\n"
    assert capsys.readouterr().err == message


ELSEWHERE = """
import sys
sys.platform = {system!r}
# Neither is there on Windows.
sys.modules["fcntl"] = sys.modules["resource"] = None
{script}
"""


@pytest.mark.parametrize(
    ("system", "name"), [("win32", "On Windows use it in WSL 2"), ("darwin", "On macOS use it in")]
)
def test_other_systems_get_a_message_before_an_import_fails(system: str, name: str) -> None:
    """Other systems get one sentence, from the command and the API."""
    script = "from flacheck import __main__; __main__.main()"
    program = ELSEWHERE.format(system=system, script=script)
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (outcome.returncode, outcome.stdout) == (Exit.INCOMPLETE, "")
    assert name in outcome.stderr
    assert "Traceback" not in outcome.stderr
    script = "import flacheck\ntry: flacheck.scan\nexcept flacheck.FlacheckError as e: print(e)"
    program = ELSEWHERE.format(system=system, script=script)
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert name in outcome.stdout
