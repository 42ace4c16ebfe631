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
    """A code opens its first upstream link; a missing file and an unknown code stay text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pins.toml").touch()
    line = add_links("FC302 in pins.toml:3, not in gone.py or FC9999 or FC000x")
    assert LINK.findall(line) == [
        (RULES["FC302"].links[0], "FC302"),
        ((tmp_path / "pins.toml").as_uri(), "pins.toml"),
    ]
    assert LINK.sub(r"\2", line) == "FC302 in pins.toml:3, not in gone.py or FC9999 or FC000x"


def test_only_a_coloured_terminal_has_links() -> None:
    """A file, a pipe and FORCE_COLOR in a log hold no escapes of links."""
    report = Report([Item("FC302 · reshapeOuts")])
    with_links = "".join(table.render(report, Display(color=True, links=True)))
    without = "".join(table.render(report, Display(color=True)))
    assert "\x1b]8;;" in with_links
    assert "\x1b]8;;" not in without


def test_display_takes_links_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR and TERM=dumb leave them out."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert Display.of_stdout().links
    monkeypatch.setenv("TERM", "dumb")
    assert not Display.of_stdout().links
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Display.of_stdout().links
