"""The cases of a report as JUnit XML, for CI servers and their test views."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as xml

from flacheck.reports.document import Case, CaseOutcome, Display, Report, make_visible

# XML 1.0 forbids most control characters, and surrogates.
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTS = {
    "failures": CaseOutcome.FAILED,
    "errors": CaseOutcome.ERROR,
    "skipped": CaseOutcome.SKIPPED,
}


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield a suite for each release and GPU, with a case for each kernel."""
    suites: dict[str, list[Case]] = {}
    for case in map(make_visible, report.cases):
        suites.setdefault(case.suite, []).append(case)
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="flacheck">\n'
    for name, cases in suites.items():
        suite = _suite(name, cases)
        xml.indent(suite)
        yield xml.tostring(suite, encoding="unicode") + "\n"
    yield "</testsuites>\n"


def _suite(name: str, cases: list[Case]) -> xml.Element:
    seconds = sum(case.seconds for case in cases)
    suite = xml.Element("testsuite", name=_text(name), tests=str(len(cases)), time=f"{seconds:.3f}")
    for attribute, outcome in _COUNTS.items():
        suite.set(attribute, str(sum(case.outcome is outcome for case in cases)))
    for case in cases:
        suite.append(_case(case))
    return suite


def _case(case: Case) -> xml.Element:
    # Servers identify a case by class and name, so the release is part of the class.
    group = f"{case.suite.replace(' ', '.')}.{case.group}".rstrip(".")
    element = xml.Element("testcase", classname=_text(group), name=_text(case.name))
    element.set("time", f"{case.seconds:.3f}")
    if case.place and case.place.file:
        element.set("file", _text(case.place.file))
        element.set("line", str(case.place.line))
    if case.outcome is not CaseOutcome.PASSED:
        child = xml.SubElement(element, case.outcome.value, message=_text(case.text))
        child.text = _text(case.details)
    return element


def _text(text: str) -> str:
    return _INVALID.sub("\ufffd", text)
