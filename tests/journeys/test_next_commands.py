"""Every next command of reports and explanations is complete, and works as it is printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flacheck
from flacheck.cli import app
from tests.capabilities.repro.test_repro_command import folder as folder  # a fixture
from tests.command_lines import parse, words_of
from tests.journeys.test_journeys import ANSWERS
from tests.paths import TESTS
from tests.rules.test_explain import LOG, PROGRAM_LOG

pytestmark = pytest.mark.slow
# Commands that read what is there; the others compile releases, or run a program of the user's.
QUICK = ("explain", "known", "check", "diff", "gate", "list", "report")
# Commands about a package say where its kernel fails.
COMPILES = ("scan", "bisect", "repro")
COMPLETE = ("--package", "--triton", "--target")


def _run(command: str) -> str:
    """Run a command in this process; return what it prints."""
    result = CliRunner().invoke(app, words_of(command))
    assert result.exit_code in (0, 1, 3), f"{command}: {result.output}"
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stdout


@pytest.fixture(scope="module")
def commands() -> dict[str, str]:
    """The next commands of answers by published results and of all recorded logs."""
    found: dict[str, str] = {}
    for command in (each for journey in ANSWERS.values() for each in journey.commands):
        answer = json.loads(_run(f"{command} --format json"))
        assert answer["verdict"] in ("Yes", "Yes, but", "No", "Not known")
        assert answer["recommendation"]
        found.update((each, command) for each in answer["next"])
        _, colon, advice = answer["recommendation"].partition("here: ")
        if colon:
            found[advice] = command
    for log in sorted(TESTS.glob("logs/*/golden*")):
        for finding in flacheck.explain(log).findings:
            found.update((each, f"{log.parent.name}/{log.name}") for each in finding.next)
    for text in (LOG, PROGRAM_LOG):
        for finding in flacheck.explain(text).findings:
            found.update((each, "a log") for each in finding.next)
    return found


def test_they_are_complete(commands: dict[str, str]) -> None:
    """A compile of a package has its release and its GPU; the command line accepts all."""
    assert len(commands) > 20
    for command, origin in commands.items():
        words = words_of(command)
        if command.startswith("pip "):
            continue
        assert parse(words) is None, f"{origin}: {command}"
        if words[0] in COMPILES and "--package" in words:
            assert set(COMPLETE) <= set(words), f"{origin}: {command}"


def test_those_that_read_work(commands: dict[str, str], here: Path) -> None:
    """In an empty folder, as somebody pastes them."""
    reading = [each for each in commands if words_of(each)[:1] and words_of(each)[0] in QUICK]
    assert {"explain", "check", "known"} <= {words_of(each)[0] for each in reading}
    for command in reading:
        _run(command)


def test_an_answer_leads_on_to_the_scan_of_the_failing_kernel(commands: dict[str, str]) -> None:
    """The answer explains the failure, and the scan of its kernel stores a cell with a key."""
    scans = [each for each in commands if " scan " in each and " --kernel " in each]
    about = {words_of(each)[words_of(each).index("--package") + 1] for each in scans}
    assert "flash-linear-attention==0.4.2" in about


def test_a_scan_leads_on_to_a_bisection_and_a_reduction(folder: Path) -> None:
    """Its next commands work one after the other: explain, bisect, repro, report."""
    page = _run("flacheck scan l.jsonl --toolchain fake==2.0 --target sm90")
    following = page.partition("\nNext\n")[2].splitlines()
    printed = [line.strip() for line in following if line.strip()]
    verbs = [shlex.split(each)[1] for each in printed]
    assert verbs == ["explain", "bisect", "repro", "report"]
    pages = {verb: _run(command) for verb, command in zip(verbs, printed)}
    assert "FC302" in pages["explain"]
    assert re.search(r"compiles → .*2\.0 fails", pages["bisect"])
    assert printed[2] in pages["bisect"]
    assert (folder / f"repro-{shlex.split(printed[2])[2][:8]}" / "repro.py").is_file()
