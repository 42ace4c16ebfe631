"""A plugin of pytest: which test launches what, how each ends, and when the time is over."""

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

# Of work, for one test, and its share of all: nothing is computed, so what takes longer loops over
# sizes.
_A_TEST, _A_SHARE = 10.0, 0.2
# What a test does beside its operations, as work: making it ready, and comparing.
_CALLS_IN_A_TEST = 10
# CPU seconds after which a test hangs, or this machine is very slow; for all tests, times their
# budget.
_HANGS = 60.0
_PATIENCE = 4.0
_KEPT_FAILURES = 200


class TestTooLong(BaseException):
    """A test used up its time."""


class Watcher:
    """Runs a case of each test function before any second one, so that a short time reaches all of
    them."""

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
        # Cases that were not collected, and those that were and did not run.
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
        seen: collections.Counter[str] = collections.Counter()
        rounds = {}
        for item in items:
            function = item.nodeid.partition("[")[0]
            rounds[item] = seen[function]
            seen[function] += 1
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
        """By the work that was done; a machine on which that takes far longer ends all the same."""
        is_done: bool = self.work() > self._budget
        return is_done or time.process_time() > _PATIENCE * self._budget

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
            "unrun": self._thinned + self._waiting,
            "ended": None,
        }

    def _tell(self, doing: str) -> None:
        if self._progress:
            with open(self._progress, "w", encoding="utf-8", errors="replace") as file:
                file.write(doing)


def _stop(*_: object) -> None:
    raise TestTooLong("took too long")


def _last_words(text: str) -> str:
    """The line that says what is wrong: pytest marks it with an E."""
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    lines = said or [line.strip() for line in text.splitlines() if line.strip()]
    return next(iter(lines), "")[:300]
