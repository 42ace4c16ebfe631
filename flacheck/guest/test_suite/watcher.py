"""A pytest plugin: it records which test launches what, its result, and the end of time."""

from __future__ import annotations

import collections
import math
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ..fake_cuda.known_values import KnownValues
from ..search.work import Work, operations_in
from . import cases

# The limits of work for one test, absolute and as a share of the budget. Nothing is computed, so a
# test that takes longer loops over sizes.
_A_TEST, _A_SHARE = 10.0, 0.2
# The overhead of a test beside its operations, in calls: set-up and comparison.
_CALLS_IN_A_TEST = 10
# CPU seconds after which a test counts as hung, or the machine as very slow. For all tests together
# it is a factor of their budget.
_HANGS = 60.0
_PATIENCE = 4.0
_KEPT_FAILURES = 200


class TestTooLong(BaseException):
    """A test exceeded its limit of work."""


class Watcher:
    """A plugin that runs a case of each test function before any second case.

    So even a short time limit reaches all functions.
    """

    def __init__(self, config: dict[str, Any], recorder: Any) -> None:
        self._progress: str | None = config.get("progress")
        self._budget: float = config["seconds"]
        self._recorder = recorder
        self.work = Work(recorder)
        self._counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
        self._failures: dict[str, str] = {}
        self._wanting: list[str] = []
        self._uncollected: dict[str, str] = {}
        self._functions: dict[str, bool] = {}
        # The number of cases that were not collected, and of those that were collected and have not
        # run.
        self._thinned = 0
        self._waiting = 0
        self._guesses_before = 0

    def pytest_collectstart(self, collector: Any) -> None:
        self._tell(f"collecting {collector.nodeid or 'the tests'}")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._uncollected[report.nodeid] = _last_words(report.longreprtext)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_generate_tests(self, metafunc: Any) -> Iterator[None]:
        result = yield
        self._thinned += cases.thin(metafunc)
        return result

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        counts_by_function: collections.Counter[str] = collections.Counter()
        rounds = {}
        for item in items:
            function = item.nodeid.partition("[")[0]
            rounds[item] = counts_by_function[function]
            counts_by_function[function] += 1
            self._functions[function] = False
        items.sort(key=lambda item: rounds[item])
        self._waiting = len(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        if self._is_over():
            item.session.shouldstop = "the time for the tests is over"
            return (yield)
        self._functions[item.nodeid.partition("[")[0]] = True
        self._waiting -= 1
        self.work.calls += _CALLS_IN_A_TEST
        self._tell(f"running {item.nodeid}")
        before = signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, _HANGS)
        most = operations_in(min(_A_TEST, _A_SHARE * self._budget))
        KnownValues.limit(most, _stop)
        self._recorder.during = item.nodeid
        self._guesses_before = self._recorder.journal.guesses
        try:
            return (yield)
        finally:
            self._recorder.during = None
            KnownValues.limit(math.inf, _stop)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _is_over(self) -> bool:
        """Return True if the budget of work is used up, or far too much CPU time."""
        is_done: bool = self.work() > self._budget
        return is_done or time.process_time() > _PATIENCE * self._budget

    def pytest_runtest_logreport(self, report: Any) -> None:
        is_end = report.when == "call"
        if report.when == "setup":
            is_end = not report.passed
        if not is_end:
            return
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
            "unrun": self._thinned + self._waiting,
            "ended": None,
        }

    def _tell(self, doing: str) -> None:
        if self._progress:
            text = doing.encode("utf-8", "replace")
            with open(self._progress, "wb") as file:
                file.write(text)


def _stop(*_: object) -> None:
    raise TestTooLong("took too long")


def _last_words(text: str) -> str:
    """Return the line with the error: pytest marks it with an E."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("E "):
            return line[1:].strip()[:300]
    if not lines:
        return ""
    return lines[0].strip()[:300]
