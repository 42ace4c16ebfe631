"""The command before its command line is there."""

from __future__ import annotations

import sys

import pytest
import typer

from flacheck import __main__
from flacheck.cli import common


def test_an_interrupt_while_the_command_line_is_imported_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 130, without a traceback: nothing was begun."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr("builtins.__import__", interrupted)
        __main__.main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_that_no_command_expects_says_how_to_begin_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 130 and a sentence, whatever the command was doing."""

    @common.command
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["flacheck", "repro", "a file.jsonl:2"])
    with pytest.raises(typer.Exit) as ended:
        interrupted()
    assert ended.value.exit_code == 130
    said = "flacheck: interrupted. To begin again: flacheck repro 'a file.jsonl:2'\n"
    assert capsys.readouterr().err == said
