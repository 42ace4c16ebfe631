"""Hyperlinks in a terminal's reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flacheck.reports.document import Display, Item, Report
from flacheck.reports.formats import table
from flacheck.reports.hyperlinks import add_links
from flacheck.rules import RULES

LINK = re.compile(r"\x1b]8;;([^\x1b]*)\x1b\\([^\x1b]*)\x1b]8;;\x1b\\")


def test_codes_and_files_are_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code links to its upstream issue, an existing file to itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pins.toml").touch()
    line = add_links("FC302 in pins.toml:3, not in gone.py or FC9999 or FC000x")
    assert LINK.findall(line) == [
        (RULES["FC302"].links[0], "FC302"),
        ((tmp_path / "pins.toml").as_uri(), "pins.toml"),
    ]
    assert LINK.sub(r"\2", line) == "FC302 in pins.toml:3, not in gone.py or FC9999 or FC000x"


def test_only_a_coloured_terminal_has_links() -> None:
    """Output without links contains no escape sequence of links."""
    report = Report([Item("FC302 · reshapeOuts")])
    with_links = "".join(table.render(report, Display(color=True, links=True)))
    without = "".join(table.render(report, Display(color=True)))
    assert "\x1b]8;;" in with_links
    assert "\x1b]8;;" not in without
