"""Logs of any size: both ends are read, lines keep their numbers, and memory is bounded."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from flacheck.cli import explain
from flacheck.rules import read

FAILURE = "LLVM ERROR: Unsupported rounding mode for conversion."


@pytest.mark.parametrize("before", [0, 100, 3_000_000])
def test_the_last_line_keeps_its_number(before: int, caplog: pytest.LogCaptureFixture) -> None:
    """Also when the middle of a long log is left out, which is said."""
    text = "a line of a log\n" * before + FAILURE + "\n"
    with caplog.at_level(logging.WARNING):
        kept = explain._beginning_and_end(io.BytesIO(text.encode()), "x.log")
    (found,) = read(kept[-1_000_000:]) if before > 1_000 else read(kept)
    assert found.code == "FC301"
    assert kept.count("\n", 0, kept.index(FAILURE)) == before
    assert ("x.log is long" in caplog.text) == (before > 1_000)
    assert len(kept) < 40 << 20


def test_a_device_that_never_ends_is_read_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then it is a log without a failure."""
    monkeypatch.setattr(explain, "_MOST", 8 << 20)
    monkeypatch.setattr(explain, "_HALF", 1 << 20)
    with Path("/dev/zero").open("rb") as endless:
        assert len(explain._beginning_and_end(endless, "/dev/zero")) < 16 << 20
