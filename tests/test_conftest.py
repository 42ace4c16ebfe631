"""Network tests without a package index."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

# A network test that cannot reach the index in its first run, or never.
TESTS = """
import pytest
from flacheck.toolchains.wheels import Offline

runs = []

@pytest.mark.network
def test_reaches_the_index_late():
    runs.append(1)
    if len(runs) == 1:
        raise Offline("no route")

@pytest.mark.network
def test_never_reaches_the_index():
    raise Offline("no route")

@pytest.mark.network
def test_skips():
    pytest.skip("no wheel")

@pytest.mark.network
@pytest.mark.skipif(True, reason="needs torch")
def test_is_skipped_by_a_mark():
    pass

def test_needs_no_index():
    raise Offline("a defect")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with these tests and our conftest.py, without the delay before a second run."""
    pytester.makepyfile(TESTS)
    pytester.makeconftest(
        "from tests import conftest\nfrom tests.conftest import *\nconftest.RERUN_DELAY = 0\n"
    )
    pytester.makeini("[pytest]\nmarkers = network: needs the package index")
    return pytester


def test_a_network_test_without_its_index_is_skipped(project: pytest.Pytester) -> None:
    """The skip names the reason; a test that needs no index fails."""
    outcome = project.runpytest_subprocess("-rs")
    outcome.assert_outcomes(skipped=4, failed=1)


def test_ci_tries_again_and_then_fails_by_name(project: pytest.Pytester) -> None:
    """With --require-index no test is skipped."""
    outcome = project.runpytest_subprocess("--require-index")
    outcome.assert_outcomes(passed=1, failed=3, errors=1)
    outcome.stdout.fnmatch_lines(["FAILED *::test_never_reaches_the_index*"])
