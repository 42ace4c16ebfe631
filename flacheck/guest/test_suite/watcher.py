"""A plugin of pytest: which test launches what, how each ends, and when the time is over."""

from __future__ import annotations

import collections
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

# CPU seconds for one test: nothing is computed, so what takes longer loops over sizes.
_A_TEST = 20.0
_KEPT_FAILURES = 200
# CPU seconds that ending takes after the last test.
_LEAVING = 2.0


class TestTooLong(BaseException):
    """A test used up its time."""


class Watcher:
    """Runs the first case of each test function before any second one, so that a short time reaches
    all of them."""

    def __init__(self, config: dict[str, Any], recorder: Any) -> None:
        self._progress: str | None = config.get("progress")
        self._end = config["seconds"] - _LEAVING
        self._recorder = recorder
        self._counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
        self._failures: dict[str, str] = {}
        self._wanting: list[str] = []
        self._uncollected: dict[str, str] = {}
        self._functions: dict[str, bool] = {}
        self._guesses_before = 0

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._uncollected[report.nodeid] = _last_words(report.longreprtext)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        seen: collections.Counter[str] = collections.Counter()
        rounds = {}
        for item in items:
            function = item.nodeid.partition("[")[0]
            rounds[item] = seen[function]
            seen[function] += 1
            self._functions[function] = False
        items.sort(key=lambda item: rounds[item])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        if time.process_time() > self._end:
            item.session.shouldstop = "the time for the tests is over"
            return (yield)
        self._functions[item.nodeid.partition("[")[0]] = True
        self._tell(f"running {item.nodeid}")
        before = signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, _A_TEST)
        self._recorder.during = item.nodeid
        self._guesses_before = self._recorder.journal.guesses
        try:
            return (yield)
        finally:
            self._recorder.during = None
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            self._counts[report.outcome] += 1
            if report.failed and len(self._failures) < _KEPT_FAILURES:
                self._failures[report.nodeid] = _last_words(report.longreprtext)
                if self._recorder.journal.guesses > self._guesses_before:
                    self._wanting.append(report.nodeid)

    def report(self) -> dict[str, Any]:
        return {
            "tests": self._counts,
            "failures": self._failures,
            "wanting": self._wanting,
            "uncollected": self._uncollected,
            "cut": [name for name, ran in self._functions.items() if not ran],
            "ended": None,
        }

    def _tell(self, doing: str) -> None:
        if self._progress:
            with open(self._progress, "w", encoding="utf-8", errors="replace") as file:
                file.write(doing)


def _stop(*_: object) -> None:
    raise TestTooLong(f"took more than {_A_TEST:g} s")


def _last_words(text: str) -> str:
    """The line that says what is wrong: pytest marks it with an E."""
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    lines = said or [line.strip() for line in text.splitlines() if line.strip()]
    return next(iter(lines), "")[:300]
