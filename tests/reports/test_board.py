"""The board of published results: pages that lead to each other, and badges."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import flacheck
from flacheck import UsageError
from flacheck.evidence.analysis.judgement import PackageFailure
from flacheck.evidence.published.compiled_kernels import CompiledKernels
from flacheck.reports import board
from flacheck.reports.site.grid import Shown
from tests.evidence.published.test_published import folder as folder
from tests.reports.page.test_page_in_browser import BROWSERS

HOSTILE = "<img src=x onerror=document.title='taken'>"


@pytest.fixture
def site(folder: Path, tmp_path: Path) -> Path:
    """The board of the hand-made results."""
    output = tmp_path / "site"
    flacheck.results_site(output, results=folder)
    return output


def test_each_cell_leads_to_its_failures(site: Path) -> None:
    """A cell's link leads to cause, line, kernels and commands."""
    index = (site / "index.html").read_text()
    links = re.findall(r'<td class="(\w+)"><a href="([^#"]+)#([^"]+)"[^>]*>([^<]+)</a>', index)
    assert [(tone, text) for tone, _, _, text in links] == [
        ("all", "all 1"),
        ("few", "0 of 1"),
    ]
    page = (site / links[1][1]).read_text()
    section = page.partition(f'id="{links[1][2]}"')[2].partition("</section>")[0]
    assert "FC302" in section
    assert "LinearLayout.cpp:1: f: Assertion" in section
    assert "Fallbacks:" not in section
    assert "chunk_gated_delta_rule_fwd_kernel_h" in section
    assert "flacheck explain FC302" in section
    assert "flacheck scan --package flash-linear-attention==0.1.1 --triton 3.2.0" in section
    assert "flash-linear-attention==0.3.2" in page.partition("Not built")[2]


def test_no_page_needs_a_server(site: Path) -> None:
    """Pages refer only to files of the folder and to links of causes."""
    for page in site.glob("*.html"):
        text = page.read_text()
        for name in re.findall(r'(?:src|href)="([^"#]+)', text):
            assert name.startswith("https://") or (site / name).is_file()
        assert not re.findall(r"\bfetch\(|XMLHttpRequest|@import|url\(", text)


def test_a_badge_is_an_image_with_its_text(site: Path) -> None:
    """The badge has release, version and number of kernels as text."""
    (badge,) = site.glob("*.svg")
    image = ElementTree.parse(badge).getroot()
    assert image.attrib["aria-label"] == "Triton 3.4.0: 0.1.1 all 1 kernels"


def test_a_name_that_no_release_has_counts_under_each(folder: Path) -> None:
    """It makes no release bad, and its kernels fail all the same."""
    answer = flacheck.known("flash-linear-attention", results=folder)
    place = next(each for each in answer.places if not each.failing_kernels)
    lost = PackageFailure("m:lost", place.about, "FC101", "", (place.toolchain,), (place.target,))
    made_up = replace(lost, kernel="m:other", code="FC106")
    answer = replace(answer, places=(place,), package_failures=(lost, made_up))
    index = dict(board.render([answer], {}))["index.html"]
    assert re.findall(r'<td class="(\w+)"><a [^>]*>([^<]+)', index) == [("few", "0 of 1")]


def test_a_release_page_names_what_changes_since_the_release_before(site: Path) -> None:
    """The newer release mends the kernel that fails under the older one."""
    page = (site / "triton-3.4.0.html").read_text()
    assert "1 since 3.2.0" in page
    assert "chunk_gated_delta_rule_fwd_kernel_h" in page.partition("1 since 3.2.0")[2]
    assert "no older release" in (site / "triton-3.2.0.html").read_text()


def test_the_feed_links_to_the_places_of_each_release(site: Path) -> None:
    """Each entry has a title with numbers, a date and a link to a section of a page."""
    feed = ElementTree.parse(site / "feed.xml").getroot()
    atom = "{http://www.w3.org/2005/Atom}"
    entries = feed.findall(f"{atom}entry")
    titles = [entry.findtext(f"{atom}title") for entry in entries]
    assert titles == [
        "flash-linear-attention 0.1.1 under Triton 3.4.0: all 1 kernels on H100",
        "flash-linear-attention 0.1.1 under Triton 3.2.0: 0 of 1 kernels on H100",
    ]
    for entry in entries:
        link = entry.find(f"{atom}link")
        assert link is not None
        page, _, anchor = link.attrib["href"].partition("#")
        assert f'id="{anchor}"' in (site / page).read_text()


def test_text_and_colour_follow_the_kernels_that_models_meet(folder: Path) -> None:
    """Other failures are a note; a call that is refused darkens a cell and is no kernel."""
    answer = flacheck.known("flash-linear-attention", results=folder)
    place = next(each for each in answer.places if each.failing_kernels)
    (kernel,) = place.deciding_kernels
    rare = replace(place, deciding_kernels=())
    refused = replace(place, failing_kernels=("m:Op",), deciding_kernels=("m:Op",))
    compiled = CompiledKernels({f"k{number}" for number in range(9)}, {kernel})
    cells = [Shown.of(each, compiled) for each in (place, rare, refused)]
    assert [(each.share, each.note, each.tone) for each in cells] == [
        ("9 of 10", "", "most"),
        ("all 9", "1 other fails", "nearly"),
        ("all 9", "1 other fails", "most"),
    ]


def test_names_from_a_file_of_results_are_text_only(folder: Path) -> None:
    """Hostile names stay in the folder and do not become markup."""
    answer = flacheck.known("flash-linear-attention", results=folder)
    place = answer.places[0]
    causes = (replace(place.causes[0], line=HOSTILE, kernels={HOSTILE: 1}),)
    place = replace(place, causes=causes, failing_kernels=(HOSTILE,), about=f"../{HOSTILE}==1")
    hostile = replace(answer, package=f"../../{HOSTILE}", places=(place,), answer=HOSTILE)
    for name, text in board.render([hostile], {}):
        assert re.fullmatch(r"[a-z0-9-]+(\.[0-9]+)*\.(html|svg|xml)", name)
        assert "<img src=x" not in text


def test_packages_do_not_share_a_page(folder: Path) -> None:
    """Names that differ only in signs have different pages."""
    answer = flacheck.known("flash-linear-attention", results=folder)
    like = ("flash-linear-attention", "flash.linear_attention", "flash_linear.attention")
    answers = [replace(answer, package=name) for name in like]
    names = [name for name, _ in board.render(answers, {})]
    assert len(names) == len(set(names)) == 10


def test_a_folder_that_cannot_be_written_is_one_error(folder: Path) -> None:
    """The error names the folder."""
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be written"):
        flacheck.results_site(folder / "manifest.json", results=folder)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.slow
def test_the_board_works_from_a_folder_at_every_width(browser: Any, site: Path) -> None:
    """Search and links work at every width."""
    errors: list[str] = []
    for width in (375, 820, 1400):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.fill("#search", "fc302 sm90")
        assert page.inner_text("#count") == "1 of 1 rows"
        page.fill("#search", "sm70")
        assert page.inner_text("#count") == "0 of 1 rows"
        assert not page.is_visible("tr.package")
        page.fill("#search", "")
        page.click("td.few a")
        page.wait_for_selector("section.place:target")
        assert "FC302" in page.inner_text("section.place:target")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
    assert errors == []
