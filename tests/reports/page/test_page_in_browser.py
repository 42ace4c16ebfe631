"""The page of a report in a browser: keyboard, hostile names, links and large charts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flacheck import reports
from flacheck.reports import chart
from flacheck.reports import diff as diff_report
from flacheck.reports.document import Display, Overview, Report
from tests import made_diff
from tests.made_diff import NEW, OLD
from tests.made_records import failure, record, unknown

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
# The chart shows its number of kernels when it is drawn.
CHART_IS_READY = "document.getElementById('count').textContent !== ''"
HOSTILE = "m:<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Chromium of the system, else that of playwright; CI fails without one."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as tools:
        if program is None and not Path(tools.chromium.executable_path).exists():
            missing = (
                "no Chromium is installed: apt install chromium, or playwright install chromium"
            )
            if request.config.getoption("--require-index"):
                pytest.fail(missing)
            pytest.skip(missing)
        browser = tools.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def page_of(browser: Any, folder: Path, cells: list[Any], width: int = 1280) -> Any:
    blocking = {each.key for each in cells if each.code}
    value = chart.to_json(chart.of_records(cells, blocking, ()))
    report = Report([], overview=lambda: Overview((("pin", "triton==3.4.0"),), value))
    file = folder / "report.html"
    file.write_text("".join(reports.render("html", report, Display())), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    page.wait_for_function(CHART_IS_READY)
    return page


def few() -> list[Any]:
    cells = []
    for release in ("3.1.0", "3.2.0"):
        cells.append(record(kernel="m:f", toolchain=f"triton=={release}"))
        cells.append(record(kernel=HOSTILE, toolchain=f"triton=={release}"))
    return [*cells, failure(kernel="m:g", toolchain="triton==3.2.0", line="it <b>fails</b>")]


def test_the_keyboard_reaches_every_cell(browser: Any, tmp_path: Path) -> None:
    """A cell can be found, opened and closed by keyboard, and its link leads back."""
    errors = []
    page = page_of(browser, tmp_path, few())
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.reload()
    page.wait_for_function(CHART_IS_READY)
    page.keyboard.press("/")
    page.keyboard.type("g")
    playwright.expect(page.locator("#rows tr[data-row]")).to_have_count(2)
    page.locator("#rows td[data-column='0']").last.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.className") == "f"
    page.keyboard.press("Enter")
    assert "it <b>fails</b>" in page.inner_text("#detail")
    assert "flacheck bisect" in page.inner_text("#detail")
    address = page.url
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('detail').open")
    again = browser.new_page()
    again.goto(address)
    again.wait_for_function(CHART_IS_READY)
    assert again.evaluate("document.getElementById('detail').open")
    assert errors == []


def test_a_module_has_no_check_mark_beside_an_unknown_kernel(browser: Any, tmp_path: Path) -> None:
    """A module's row counts failing and unknown kernels."""
    cells = [
        record(kernel="good:f", toolchain="triton==3.2.0"),
        record(kernel="open:f", toolchain="triton==3.2.0"),
        unknown(code="", kernel="open:g", toolchain="triton==3.2.0"),
        failure(kernel="bad:f", toolchain="triton==3.2.0"),
    ]
    page = page_of(browser, tmp_path, cells)
    counts = page.locator("#rows tr.group td").all_inner_texts()
    assert sorted(counts) == ["1 fail", "1 unknown", "✓"]
    assert page.inner_text("#tabs").split() == ["sm90", "1", "fail"]


def test_a_hostile_name_runs_nothing(browser: Any, tmp_path: Path) -> None:
    """Names are text, and only the page's script runs."""
    page = page_of(browser, tmp_path, few())
    assert page.title() != "taken"
    assert page.locator("img").count() == 0
    assert "<img" in page.inner_text("#grid")


def test_a_diff_shows_both_sides_and_what_changed(browser: Any, tmp_path: Path) -> None:
    """Each side is a column, and each changed figure has two bars."""
    small = {"shared": 49_152, "registers": 96, "spills": 0}
    large = {"shared": 98_304, "registers": 255, "spills": 88}
    before = [record(kernel="m:one", toolchain=OLD, resources=small, seconds=2.0)]
    after = [record(kernel="m:one", toolchain=NEW, resources=large, seconds=40.0)]
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    file = tmp_path / "diff.html"
    report = diff_report.report(made_diff.result(before, after))
    file.write_text("".join(reports.render("html", report, Display())), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_function(CHART_IS_READY)
    columns = page.locator("#grid thead th").all_inner_texts()
    assert [name.strip() for name in columns[1:]] == ["from: torch 2.9.1", "to: torch 2.12.1"]
    rows = page.locator("table.growth tbody tr")
    texts = [" ".join(text.split()) for text in rows.all_inner_texts()]
    for name, old, new in (
        ("spills", "0 bytes", "88 bytes"),
        ("shared", "49152 bytes", "98304 bytes"),
        ("registers", "96", "255"),
        ("compile time", "2.0 s", "40.0 s"),
    ):
        assert any(name in text and old in text and new in text for text in texts), (name, texts)
    lengths = rows.locator(".bar").evaluate_all("bars => bars.map(bar => bar.offsetWidth)")
    assert len(lengths) == 2 * len(texts)
    assert all(before <= after for before, after in zip(lengths[::2], lengths[1::2]))


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_no_width_scrolls_the_page_sideways(browser: Any, tmp_path: Path, width: int) -> None:
    """Wide tables scroll inside the page."""
    page = page_of(browser, tmp_path, few(), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_five_thousand_kernels_open_quickly(browser: Any, tmp_path: Path) -> None:
    """5,000 kernels open within seconds."""
    cells = [
        record(kernel=f"m{number // 50}.ops:kernel_{number}", toolchain=f"triton=={release}")
        for number in range(5000)
        for release in ("3.1.0", "3.2.0", "3.4.0", "3.5.0")
    ]
    start = time.process_time()
    page = page_of(browser, tmp_path, cells)
    spent = page.evaluate("performance.now()")
    print(f"{spent:.0f} ms in the browser, {time.process_time() - start:.1f} s to render")
    assert "5000 of 5000" in page.inner_text("#count")
    # Two seconds on an idle machine; a shared one may be slower.
    assert spent < 6000
