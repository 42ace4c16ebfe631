"""README and docs/: commands parse, links lead somewhere, generated pages are current."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests import reference_pages
from tests.command_lines import parse, words_of
from tests.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.M | re.S)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def shown_commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks that run flacheck."""
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if re.search(r"(^|[\s$])flacheck\s", line)]


@each_page
def test_every_shown_command_parses(page: Path) -> None:
    """The options and values of the command exist."""
    wrong = {}
    for line in shown_commands(page):
        words = words_of(line)
        message = parse(words) if words else None
        if message is not None:
            wrong[line] = message
    assert wrong == {}


def test_a_wrong_command_is_seen() -> None:
    """An unknown option, and a target that does not exist."""
    assert parse(words_of("flacheck scan --traget sm90")) is not None
    assert parse(words_of("flacheck scan --target sm91")) is not None
    assert len(shown_commands(ROOT / "README.md")) > 10


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    """Every link within the repository leads to an existing file and heading."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in _anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_generated_pages_are_current(name: str) -> None:
    """`python -m tests.reference_pages` writes them."""
    text = "".join(reference_pages.PAGES[name]())
    assert (reference_pages.FOLDER / name).read_text(encoding="utf-8") == text


def test_the_readme_is_short() -> None:
    """The README has at most 120 lines; the rest is in docs/."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_changelog_is_short() -> None:
    """The newest release has at most 25 entries, each of at most 20 words; the others 25 words."""
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = set(re.findall(r"^### (.+)$", text, re.M))
    assert headings <= {"Added", "Changed", "Fixed", "Removed"}
    newest, *others = [
        re.findall(r"^- (.+)$", section, re.M) for section in text.split("\n## ")[1:]
    ]
    assert 0 < len(newest) <= 25
    assert [entry for entry in newest if len(entry.split()) > 20] == []
    assert [entry for entries in others for entry in entries if len(entry.split()) > 25] == []


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """The extra `docs` builds the site."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("the extra `docs` is not installed")
    for name in ("docs", "zensical.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        else:
            shutil.copy(source, tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (tmp_path / "site" / "reference" / "cli" / "index.html").is_file()
