"""The coverage of a package's capture, in the form of flacheck.run/1 and of a run's context."""

from __future__ import annotations

from typing import TypedDict

from flacheck.model.wire import Natural, ToolchainName


class MissedKernel(TypedDict):
    """A launchable kernel that a capture did not record, with the reason."""

    kernel: str
    reason: str


class FailedTest(TypedDict):
    """A failed test of the package; `wants_data` if it read a value that nobody computed."""

    test: str
    error: str
    wants_data: bool


class KernelsBySource(TypedDict):
    """The kernels that only the tests launched, only the package driver, and both."""

    tests: list[str]
    driver: list[str]
    both: list[str]


class _UnrunTests(TypedDict, total=False):
    unrun: Natural


class TestsOutcome(_UnrunTests):
    """The outcome of the package's own tests under capture (--with-tests).

    `cut` are the test functions without time, `unrun` is the number of cases of all functions that
    were not run, `ended` the reason why pytest ran nothing or not to the end.
    """

    passed: Natural
    failed: Natural
    skipped: Natural
    failures: list[FailedTest]
    uncollected: dict[str, str]
    cut: list[str]
    ended: str | None
    kernels: KernelsBySource


class _CoverageNotes(TypedDict, total=False):
    cut: list[str]
    tests: TestsOutcome


class KernelCoverage(_CoverageNotes):
    """The numbers of launchable and recorded kernels, and each missed kernel.

    `cut` are the parts for which time was too short.
    """

    launchable: Natural
    recorded: Natural
    missed: list[MissedKernel]


class PackageCoverage(KernelCoverage):
    """The coverage of a package's capture under a toolchain."""

    package: str
    toolchain: ToolchainName
