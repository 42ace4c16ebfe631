"""The form of a capture's report, which the package's own process wrote."""

from collections.abc import Mapping
from typing import Any

import msgspec

from flacheck.files import GuestFileError
from flacheck.subjects.captures.capture_archive import REPORT


class _ImportFailure(msgspec.Struct):
    traceback: str


class _CalledOperator(msgspec.Struct):
    kernels: list[str]
    launches: int
    failures: dict[str, str]


class _LaunchedKernel(msgspec.Struct):
    failures: dict[str, str]


class _Warning(msgspec.Struct):
    text: str


class _KernelSources(msgspec.Struct):
    tests: list[str]
    driver: list[str]
    both: list[str]


class _TestReport(msgspec.Struct):
    kernels: _KernelSources
    tests: dict[str, int] | None = None
    failures: dict[str, str] | None = None
    wanting: list[str] = []
    uncollected: dict[str, str] | None = None
    cut: list[str] = []
    unrun: int = 0
    ended: str | None = None


class _CaptureReport(msgspec.Struct):
    import_error: _ImportFailure | None = None
    modules: dict[str, str] = {}
    operators: dict[str, _CalledOperator] = {}
    alone: dict[str, _LaunchedKernel] = {}
    refused: dict[str, str] = {}
    untaken: dict[str, str] = {}
    late: bool = False
    cut: list[str] = []
    sought: list[str] | None = None
    said: list[_Warning] = []
    like: str | None = None
    tests: _TestReport | None = None


def check_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with empty defaults; GuestFileError for a field of another form."""
    try:
        msgspec.convert(report, _CaptureReport)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise GuestFileError(REPORT, f"has an unexpected form ({error})") from None
    return {"modules": {}, "operators": {}, **report}
