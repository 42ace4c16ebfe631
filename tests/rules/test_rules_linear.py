"""Logs that are built to slow the rules down."""

from __future__ import annotations

import time

import pytest

from flacheck.rules import read

# Each would take a careless pattern the square of its length, or worse.
TIRING = ("error: ", " ", 'File "')
MORE_TIRING = (
    *("a.", "CompilationError: at ", "\x1b[", "Error", "A", "/", "a/", "1x", "(", "<", "@:1"),
    *("loc(", "tmp.", "a-", "Error('", "a.cpp:1: ", "Assertion `", "ptxas ", "0x", "[rank0]: "),
    *("(a pid=1) ", "×╰─▶ ", " %a = ", "ERROR 01-01 ", "2026-01-01T", "E   "),
)


def _seconds(text: str) -> float:
    start = time.process_time()
    read(text)
    return time.process_time() - start


@pytest.mark.parametrize(
    "piece", [*TIRING, *(pytest.param(piece, marks=pytest.mark.slow) for piece in MORE_TIRING)]
)
def test_a_log_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """Five times the lines take at most ten times as long."""
    line = "RuntimeError: " + (piece * 4_000)[:3_900]
    few, many = ("\n".join(f"{line}{n}" for n in range(count)) for count in (5, 25))
    # A busy machine may slow one reading down, not three.
    assert any(_seconds(many) < max(10 * _seconds(few), 0.5) for _ in range(3))
    assert _seconds(piece * (100_000 // len(piece))) < 5
