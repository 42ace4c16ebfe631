"""Progress on stderr."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from flacheck.cli import app, common, loudness
from flacheck.cli.progress import follow
from flacheck.errors import EmptySelection
from flacheck.model import Record
from flacheck.pipeline.events import RecordSettled, RunFinished, RunStarted
from tests.made_records import record


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def follow_run(total: int, *records: Record) -> None:
    """Follow a run of `total` cells to its end."""
    with follow() as on_event:
        on_event(RunStarted("1", total))
        for each in records:
            on_event(RecordSettled(each))
        on_event(RunFinished("1", complete=True))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A module's logger, shown as the command line shows it."""
    ours = logging.getLogger("flacheck")
    before = ours.level, ours.propagate, ours.handlers
    common.show_log()
    yield logging.getLogger("flacheck.toolchains.wheels")
    ours.level, ours.propagate, ours.handlers = before


def test_what_takes_a_while_is_printed_on_stderr(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every info message is printed, debug messages are not."""
    log.info("installing triton 3.2.0 …")
    log.info("installing triton 3.2.0 …")
    log.debug("read the index")
    output = capsys.readouterr()
    assert output.err == "flacheck: installing triton 3.2.0 …\n" * 2
    assert output.out == ""


def test_a_warning_is_printed_once(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    """A repeated warning is printed once."""
    log.warning("r.txt:1: every release is assumed")
    log.warning("r.txt:2: every release is assumed")
    log.warning("r.txt:1: every release is assumed")
    assert capsys.readouterr().err == (
        "flacheck: r.txt:1: every release is assumed\nflacheck: r.txt:2: every release is assumed\n"
    )


def test_without_a_terminal_the_end_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line has the counts of the verdicts."""
    follow_run(2, record("compiles"))
    line = capsys.readouterr().err
    assert line.startswith("flacheck: 1/2 cells, 50 % (1 compiles), ")
    assert re.search(r" a second, \d+ s left\n$", line)


def test_more_records_than_were_announced_make_the_total(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More records than announced raise the total."""
    follow_run(1, record(), record(dtype="fp16"))
    assert "2/2 cells" in capsys.readouterr().err


def test_a_bar_does_not_swallow_what_is_told(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message beside a bar has its own line, without markup."""
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    with follow() as on_event:
        on_event(RunStarted("1", 2))
        log.info("installing [bold] triton …")
        on_event(RecordSettled(record("fails")))
    lines = terminal.getvalue().replace("\r", "\n").split("\n")
    messages = [line for line in lines if "installing" in line]
    assert len(messages) == 1
    assert messages[0].endswith("flacheck: installing [bold] triton …")


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat after a twentieth of a second of silence."""
    monkeypatch.setattr(loudness, "SILENCE", 0.05)
    monkeypatch.setattr(loudness, "TICK", 0.01)


def test_nothing_stands_still_without_a_word(
    beating: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """During silence a line repeats the command, its seconds and the last message."""
    with loudness.Heartbeat("flacheck repro"):
        loudness.say("cutting down chunk_fwd_o")
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "flacheck: cutting down chunk_fwd_o"
    without_seconds = {re.sub(r"\d+ s", "N s", line) for line in lines[1:]}
    assert without_seconds == {"flacheck: flacheck repro, N s: cutting down chunk_fwd_o"}
    assert len(lines) < 8


def test_a_silent_scan_repeats_its_counts(
    beating: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A silent scan repeats its counts."""
    with loudness.Heartbeat("flacheck scan"), follow() as on_event:
        on_event(RunStarted("1", 4))
        on_event(RecordSettled(record()))
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines and all("1/4 cells, 25 % (1 compiles)" in line for line in lines)
    assert all(line.endswith(" left") for line in lines)


def test_a_step_on_a_terminal_is_replaced_by_the_next_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step is replaced on a terminal, and is a line on a dumb one."""
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    loudness.show_step("7 lines")
    loudness.show_step("6 lines")
    loudness.say("done")
    assert terminal.getvalue() == (
        "flacheck: 7 lines\r\x1b[Kflacheck: 6 lines\r\x1b[Kflacheck: done\n"
    )
    monkeypatch.setenv("TERM", "dumb")
    loudness.show_step("7 lines")
    assert terminal.getvalue().endswith("flacheck: 7 lines\n")


def test_the_last_line_is_not_repeated_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """The end of the run does not repeat the last line."""
    with loudness.Heartbeat("flacheck scan"), follow() as on_event:
        on_event(RunStarted("1", 1))
        on_event(RecordSettled(record()))
        loudness.show_step(loudness.Heartbeat.describe() or "")
        on_event(RunFinished("1", complete=True))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "1/1 cells, 100 % (1 compiles)" in lines[0]


@pytest.mark.parametrize(("is_terminal", "budget"), [(True, "3m"), (False, None)])
def test_a_scan_on_a_terminal_has_a_budget(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, budget: str | None
) -> None:
    """Somebody watches: a first answer is due after three minutes."""
    received = {}

    def scan(**arguments: object) -> None:
        received.update(arguments)
        raise EmptySelection("nothing to scan")

    monkeypatch.setattr("flacheck.scan", scan)
    monkeypatch.setattr(loudness, "moves_cursor", lambda: is_terminal)
    CliRunner().invoke(app, ["scan", "quick"])
    assert received["budget"] == budget


def test_a_step_replaces_the_last_one_on_a_terminal(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture's steps take one line of the screen."""
    stderr = _Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    for number in (1, 2):
        log.info(f"{number} of 2 kernels", extra={"is_step": True})
    loudness.end_step()
    assert stderr.getvalue() == "flacheck: 1 of 2 kernels\r\x1b[Kflacheck: 2 of 2 kernels\n"
