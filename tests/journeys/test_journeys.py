"""Journeys of new users by shipped results: the first lines, next commands and costs.

Each file in tests/golden/journeys has the commands and the answer's first lines.
`GOLDEN=write` writes the answers again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import flacheck
from tests.command_lines import parse, words_of
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "journeys"
FLA = "flash-linear-attention"
H100 = ("--target", "h100")
JOURNEYS = {
    "upgrade": ("diff", "torch==2.9.1", "torch==2.12.1", "--package", f"{FLA}==0.4.2", *H100),
    "upgrade the package": (
        *("diff", f"{FLA}==0.4.2", f"{FLA}==0.6.0", "--triton", "3.7.1", *H100),
        *("--configs", "usual"),
    ),
    "retention on a V100": ("known", f"{FLA}==0.2.2", "--op", "*retention*", "--target", "v100"),
    "which release": ("known", f"{FLA}==0.6.0", *H100),
    "not published": ("known", f"{FLA}==0.6.0", "--target", "rtx4090"),
    "several packages": (
        *("check", "--torch", "2.12", "--package", f"{FLA}==0.4.2"),
        *("--package", "liger-kernel==0.8.5", *H100),
    ),
    "pins in CI": ("gate", "--package", f"{FLA}==0.6.0", "--triton", "3.9.0", *H100),
    "a pasted log": ("explain", "FC302"),
}
# Lines of a first screen, and words that a reader meets on it.
SCREEN, MOST_WORDS = 24, 330
# CPU seconds of an answer; on a busy machine the wall time says nothing.
MOST_SECONDS = 6.0


@pytest.mark.parametrize("journey", JOURNEYS)
def test_the_first_lines_answer(journey: str, tmp_path: Path) -> None:
    """The first two lines equal the golden file; one command is typed, and little is read."""
    page = tmp_path / "page.txt"
    command = [sys.executable, "-m", "flacheck", *JOURNEYS[journey]]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    with page.open("w") as out:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=out, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    lines = page.read_text().splitlines()
    text = "\n".join([f"$ flacheck {' '.join(JOURNEYS[journey])}", *lines[:2], ""])
    file = GOLDEN / f"{journey}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
    assert max(map(len, lines)) <= 100
    assert len(" ".join(lines[:SCREEN]).split()) <= MOST_WORDS
    assert usage.ru_utime < MOST_SECONDS


@pytest.mark.parametrize("journey", [name for name in JOURNEYS if name != "a pasted log"])
def test_next_commands_can_be_typed(journey: str, tmp_path: Path) -> None:
    """Every next command and every command among the points is complete."""
    ran = flacheck(*JOURNEYS[journey], "--format", "json", cwd=tmp_path)
    answer = json.loads(ran.stdout)
    assert answer["verdict"] in ("Yes", "Yes, but", "No", "Not known")
    assert answer["recommendation"]
    for command in answer["next"]:
        words = words_of(command)
        assert words or command.startswith("pip install "), command
        assert parse(words) is None, command
