"""Outputs that the README shows are those of their commands."""

from __future__ import annotations

import re

import pytest

from tests import shown_outputs
from tests.paths import ROOT

README = (ROOT / "README.md").read_text()
# A shell block of one command, and the line of its answer that is quoted below.
QUOTES = re.findall(r"^```sh\n(flacheck [^\n]+)\n```\n\n> ([^\n]+)$", README, re.M)


def test_each_quote_has_a_command() -> None:
    """No quoted line is without the command that prints it."""
    assert len(QUOTES) == len(re.findall(r"^> ", README, re.M)) > 0


@pytest.mark.parametrize(("command", "quote"), QUOTES)
def test_a_quote_is_the_answer(command: str, quote: str) -> None:
    """It is the first line on a terminal that is wide enough."""
    assert shown_outputs.output_of(command, columns=1000).splitlines()[0] == quote


def test_the_picture_is_current() -> None:
    """`python -m tests.shown_outputs` draws it; another Rich may lay it out in another way."""
    drawn, kept = shown_outputs.draw(), shown_outputs.PICTURE.read_text()
    assert shown_outputs.text_of(kept) == shown_outputs.text_of(drawn)
    assert len(shown_outputs.text_of(kept)) > 15
    assert shown_outputs.PICTURE.relative_to(ROOT).as_posix() in README
