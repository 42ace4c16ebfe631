"""Outputs that the README and the documentation show are those of their commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck import toolchains
from tests import shown_outputs
from tests.captured import needs_torch
from tests.paths import ROOT

README = (ROOT / "README.md").read_text()
# A shell block of one command, and the line of its answer that is quoted below.
QUOTES = re.findall(r"^```sh\n(flacheck [^\n]+)\n```\n\n> ([^\n]+)$", README, re.M)
# A block without a language is a terminal: a command and its output, with `…` for omitted lines.
BLOCKS = [
    pytest.param(block, id=f"{page.stem}:{block.split()[2]}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)
    if not language
]


FINDINGS = sorted((ROOT / "docs" / "findings").glob("*.py"))


def test_each_quote_has_a_command() -> None:
    """Every quoted line of the README stands below the command that prints it."""
    assert len(QUOTES) == len(re.findall(r"^> ", README, re.M)) > 0


@pytest.mark.parametrize(("command", "quote"), QUOTES)
def test_a_quote_is_the_answer(command: str, quote: str) -> None:
    """It is the first line on a terminal that is wide enough."""
    assert shown_outputs.output_of(command, columns=1000).splitlines()[0] == quote


@needs_torch
@pytest.mark.network
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_the_answer(block: str) -> None:
    """Its lines are parts of the output, in this order."""
    command, _, shown = block.partition("\n")
    assert command.startswith("$ flacheck ")
    printed = " ".join(shown_outputs.output_of(command.removeprefix("$ ")).split())
    for part in shown.split("\n…\n"):
        words = " ".join(part.removeprefix("…\n").split())
        assert words in printed
        printed = printed.partition(words)[2]


def test_the_picture_is_current() -> None:
    """`python -m tests.shown_outputs` draws it; another Rich may lay it out in another way."""
    drawn, kept = shown_outputs.draw(), shown_outputs.PICTURE.read_text()
    assert shown_outputs.text_of(kept) == shown_outputs.text_of(drawn)
    assert len(shown_outputs.text_of(kept)) > 15
    assert shown_outputs.PICTURE.relative_to(ROOT).as_posix() in README


@pytest.mark.network
@pytest.mark.parametrize("script", FINDINGS, ids=lambda script: script.stem)
def test_a_finding_fails_as_its_page_shows(script: Path, tmp_path: Path) -> None:
    """The script's first line has the releases under which it fails and compiles."""
    page = (ROOT / "docs" / "findings.md").read_text().partition(f"(findings/{script.name})")[2]
    message = page.partition("```text\n")[2].partition("\n```")[0]
    head, _, _ = script.read_text().partition("\n")
    outcomes = {}
    for release in re.findall(r"\d+\.\d+\.\d+", head):
        (choice,) = toolchains.resolve([release]).choices
        paths = os.pathsep.join(map(str, toolchains.provide(choice).paths))
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "TRITON_CACHE_DIR": str(tmp_path / release),
        }
        outcome = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True
        )
        outcomes[release] = (outcome.returncode != 0, message in outcome.stderr)
    failing = re.findall(r"\d+\.\d+\.\d+", head.partition("compiles")[0])
    assert message
    assert outcomes == {release: (release in failing,) * 2 for release in outcomes}
