"""A pytest run under the recorder: after the tests, a test for each kernel × release × GPU."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Generator, Iterator
from itertools import zip_longest
from typing import Any

import pytest

import flacheck
from flacheck.pytest_plugin import recording
from flacheck.reports import scan as scan_report
from flacheck.reports.document import Case, CaseOutcome

_NOT_JUDGED = "not judged: nothing is computed on the imitated card"
_NOTHING = (
    "nothing was launched: no test that ran launches a Triton kernel on the device `cuda`. If the "
    "tests need a real card, record them there with --flacheck-device real"
)


class KernelItem(pytest.Item):
    """A test that a kernel compiles under one release on one GPU."""

    def __init__(self, *, case: Case, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.case = case

    def runtest(self) -> None:
        """Fail or skip as the compile did."""
        text = "\n".join(dict.fromkeys(filter(None, (self.case.text, self.case.details))))
        if self.case.outcome is CaseOutcome.SKIPPED:
            pytest.skip(text or "no verdict")
        if self.case.outcome is not CaseOutcome.PASSED:
            pytest.fail(text, pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return the place of the kernel, with its line from 0."""
        title = f"{self.name} under {self.case.suite}"
        place = self.case.place
        if place is None or place.file is None or place.line is None:
            return self.path, None, title
        return self.config.rootpath / place.file, place.line - 1, title


class RecordedRun:
    """A plugin that compiles the launches of a run when its tests are over."""

    def __init__(self, config: pytest.Config) -> None:
        self._file = recording.launches_file()
        self._is_imitated = recording.has_imitated_card()
        # A worker of pytest-xdist runs tests; the launches of all workers are in one file.
        self._is_worker = hasattr(config, "workerinput")
        self._command: list[str] = []
        self._warnings: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a failure on the imitated card into an expected one.

        A test that compares results cannot pass there, and its launches count all the same.
        """
        report = yield
        if self._is_imitated and report.failed and not isinstance(item, KernelItem):
            report.outcome = "skipped"
            report.wasxfail = _NOT_JUDGED
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run the tests of the recorded kernels after all others."""
        result = yield
        if self._is_worker or session.config.option.collectonly:
            return result
        items = self._items(session)
        session.testscollected += len(items)
        for item, following in zip_longest(items, items[1:]):
            if session.shouldfail or session.shouldstop:
                break
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the scan's warnings, and the command that explains or accepts its failures."""
        for warning in self._warnings:
            terminalreporter.write_line(f"flacheck: {warning}")
        if self._command:
            terminalreporter.write_line(
                f"flacheck: {shlex.join(self._command)} explains failures, and accepts them with "
                "--write-baseline FILE"
            )

    def _items(self, session: pytest.Session) -> list[KernelItem]:
        items = []
        for case in self._cases(session.config.option):
            name = ".".join(filter(None, (case.group, case.name)))
            nodeid = "::".join(filter(None, ("flacheck", case.suite, name)))
            items.append(KernelItem.from_parent(session, name=name, nodeid=nodeid, case=case))
        return items

    def _cases(self, options: Any) -> list[Case]:
        """Compile the launches; an error of the scan is a case of its own."""
        if not self._file.stat().st_size:
            return [_error(_NOTHING)]
        command = ["flacheck", "scan", os.path.relpath(self._file)]
        command += ["--configs", "usual", "--trust"]
        for name in ("triton", "target"):
            for value in getattr(options, f"flacheck_{name}"):
                command += [f"--{name}", value]
        try:
            with recording.paused(), _collecting(self._warnings):
                run = flacheck.scan(
                    self._file,
                    configs="usual",
                    # The tests that ran a moment ago hold the kernels' source.
                    trust=True,
                    triton=options.flacheck_triton,
                    target=options.flacheck_target,
                    baseline=options.flacheck_baseline,
                )
        except flacheck.FlacheckError as error:
            return [_error(str(error))]
        self._command = command
        return list(scan_report.report(run.view, run.baseline).cases)


def _error(text: str) -> Case:
    return Case("scan", "", "launches", CaseOutcome.ERROR, text)


class _Warnings(logging.Handler):
    """A handler that adds each warning to a list, once."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in self._messages:
            self._messages.append(message)


@contextlib.contextmanager
def _collecting(messages: list[str]) -> Iterator[None]:
    """Add the warnings of flacheck in the block to a list."""
    handler = _Warnings(messages)
    logger = logging.getLogger("flacheck")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
