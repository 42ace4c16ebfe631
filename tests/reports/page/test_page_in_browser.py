"""The page of a report in a browser: buttons, hostile names and narrow windows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck import reports
from flacheck.reports.document import Display
from tests.made_reports import REPORTS

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
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


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_no_width_scrolls_the_page_sideways(browser: Any, tmp_path: Path, width: int) -> None:
    """Wide tables scroll inside the page, and a click copies a pin."""
    errors: list[str] = []
    file = tmp_path / "report.html"
    report = REPORTS["scan"](tmp_path)
    report = replace(report, pins=[("pin", HOSTILE)])
    file.write_text("".join(reports.render("html", report, Display())), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".pins button").click()
    playwright.expect(page.locator(".pins button")).to_have_text("Copied")
    assert page.title() != "taken"
    assert page.locator("img").count() == 0
    assert errors == []
