"""Every command's report in every format, compared with the files in tests/golden/reports.

After a change that is meant, `FLACHECK_GOLDEN=write` lets the test write the files; read the
difference before it is committed.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck import reports
from flacheck.reports.document import Display
from flacheck.reports.explanation import report as explain_report
from flacheck.rules import explanation
from tests.made_reports import REPORTS
from tests.paths import TESTS

GOLDEN = TESTS / "golden" / "reports"
FOR_PEOPLE = ("table", "markdown")
# Commands whose findings have a line in a file, or fail a job.
WITH_ANNOTATIONS = ("scan", "gate", "diff", "dtypes")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide installed packages, which would give files and lines to their kernels."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))


def render_command(command: str, format: str, folder: Path) -> str:
    return "".join(reports.render(format, REPORTS[command](folder), Display(width=80)))


@pytest.mark.parametrize("command", REPORTS)
@pytest.mark.parametrize("format", FOR_PEOPLE)
def test_what_people_read(command: str, format: str, tmp_path: Path) -> None:
    """The table and the Markdown equal the golden files."""
    text = render_command(command, format, tmp_path)
    file = GOLDEN / f"{command}.{format}.txt"
    if os.environ.get("FLACHECK_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("command", WITH_ANNOTATIONS)
def test_what_a_workflow_reads(command: str, tmp_path: Path) -> None:
    """The annotations equal the golden file, one a line."""
    text = render_command(command, "github", tmp_path)
    file = GOLDEN / f"{command}.github.txt"
    if os.environ.get("FLACHECK_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()
    assert all(line.startswith("::") for line in text.splitlines())


@pytest.mark.parametrize("command", sorted(set(REPORTS) - {"scan"}))
def test_json_lines_of_a_short_answer_are_its_json_on_one_line(
    command: str, tmp_path: Path
) -> None:
    """JSON and JSON lines hold the report's value."""
    value: Any = REPORTS[command](tmp_path).value
    whole = render_command(command, "json", tmp_path)
    line = render_command(command, "jsonl", tmp_path)
    assert json.loads(whole) == json.loads(json.dumps(value))
    assert json.loads(line) == json.loads(whole)
    assert len(line.splitlines()) == 1


def test_a_format_is_a_file_in_the_folder() -> None:
    """Each format is a file of the folder."""
    files = Path(reports.__file__).parent.joinpath("formats").glob("*.py")
    assert sorted(reports.FORMATS) == sorted(file.stem for file in files if file.stem[0] != "_")


def test_links_and_commands_of_an_explanation_are_whole_lines() -> None:
    """Links and commands are not wrapped."""
    log = "triton 3.5.0, fla-core==0.5.0\nRuntimeError: " + "unheard of " * 9 + "\n"
    (unknown,) = explanation.of_log(log)
    text = "".join(reports.render("table", explain_report([unknown]), Display(width=40)))
    assert all(link in text.splitlines()[-1] for link in unknown.links)
    (failure,) = explanation.of_code("FC302")
    commands = ("flacheck scan --package flash-linear-attention==0.2.2 --target sm90",)
    with_commands = replace(failure, next=commands)
    text = "".join(reports.render("table", explain_report([with_commands]), Display(width=40)))
    assert f"  next   {commands[0]}\n" in text
