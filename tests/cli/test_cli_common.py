"""Reading of values and writing of output, for all commands."""

from __future__ import annotations

import math
import os
import signal
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flacheck.api import arguments
from flacheck.cli import app, common, flags
from flacheck.errors import Exit, UsageError

CONTEXT = typer.Context(typer.main.get_command(app))


def test_values_are_repeated_or_separated_by_commas() -> None:
    """Values may be repeated or separated by commas."""
    assert arguments.split(["a, b", "c", "", " ,"]) == ("a", "b", "c")
    assert arguments.split([]) == ()
    assert arguments.numbers("--num-warps", ["4,8", "16"]) == (4, 8, 16)
    with pytest.raises(UsageError, match="--num-warps takes whole numbers"):
        arguments.numbers("--num-warps", ["4.5"])


def test_packages_are_repeated_or_separated_by_commas(here: Path) -> None:
    """A bound belongs to its package, and a folder's name may contain a comma."""
    (here / "a,b").mkdir()
    names = ["one==1.0,two==2.0", "./a,b", "one==1.0", "three>=1,<2"]
    assert arguments.packages_of(names) == ("one==1.0", "two==2.0", "./a,b", "three>=1,<2")
    assert arguments.packages_of([""]) == ()


@pytest.mark.parametrize(
    ("text", "seconds"), [("auto", None), ("30", 30.0), ("0.5", 0.5), ("inf", math.inf)]
)
def test_a_timeout_is_auto_or_seconds(text: str, seconds: float | None) -> None:
    """`auto` is None, else the number of seconds."""
    assert arguments.seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "soon", ""])
def test_a_timeout_that_is_none_is_an_error(text: str) -> None:
    """The message has the valid forms."""
    with pytest.raises(UsageError, match="expected auto or a duration"):
        arguments.seconds(text)


def test_a_terminated_command_ends_like_an_interrupted_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SIGTERM runs the clean-up and restores the handler."""
    before = signal.getsignal(signal.SIGTERM)
    log = []

    @common.command(flags.EveryCommand, examples=[], exits={})
    def terminate(_: common.Call[flags.EveryCommand]) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            log.append("in order")
        return Exit.OK

    with pytest.raises(typer.Exit) as caught:
        terminate(CONTEXT)
    assert (caught.value.exit_code, log) == (Exit.INTERRUPTED, ["in order"])
    assert "interrupted. To begin again: " in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_runs_in_any_thread() -> None:
    """A command runs outside the main thread."""
    codes = []

    @common.command(flags.EveryCommand, examples=[], exits={})
    def quiet(_: common.Call[flags.EveryCommand]) -> Exit:
        return Exit.EMPTY

    def run() -> None:
        with pytest.raises(typer.Exit) as caught:
            quiet(CONTEXT)
        codes.append(caught.value.exit_code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert codes == [Exit.EMPTY]


def test_without_a_file_output_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """Output goes to stdout, messages to stderr."""
    common.write(["a", "b"], None)
    common.say("talk", "more")
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("ab", ["flacheck: talk", "flacheck: more"])


@pytest.mark.parametrize("words", ["scan", "bisect", "dtypes", "bench", "runs list", "cache prune"])
def test_a_command_accepts_the_formats_of_its_help_page(words: str) -> None:
    """Another format is a usage error before the work, and the message lists the formats."""
    outcome = CliRunner().invoke(app, [*words.split(), "--format", "pdf"])
    assert outcome.exit_code == Exit.USAGE
    assert "unknown format 'pdf': allowed are table, json" in outcome.stderr
