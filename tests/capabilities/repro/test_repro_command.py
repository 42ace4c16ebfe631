"""`flacheck repro` over the fake toolchain: exit codes, files, and interrupts at known events."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.api import repro as api_repro
from flacheck.capabilities.repro import reproduction
from flacheck.capabilities.repro.output.result import Improvement
from flacheck.capabilities.repro.reproduction import Reproduction
from flacheck.capabilities.repro.verification import ScriptRun
from flacheck.cli import app
from tests.fake.family import FakeFamily
from tests.made_specimens import chain, shown_on
from tests.schemas import validate_json

ABORT = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: "
ABORT += "Assertion `ok' failed."
TABLE = {"==2.0": {"says": "tl.dot", "then": ABORT}, "else": "compile"}
HEADER = {
    "schema": "flacheck.launches/1",
    "package": None,
    "device": "NVIDIA H100",
    "triton": "3.7.1",
    "torch": "2.13",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with a launches file; the fake releases fail by `TABLE`, scripts on 2.0."""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "run_script", shown_on("2.0"))
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily({"*": TABLE}))
    start = chain()
    launch_line = {
        "id": "a" * 16,
        "kernel": "program:kernel",
        "package": None,
        "qualname": "kernel",
        "launch": {"args": dict(start.args)},
        "options": dict(start.options),
        "grid": [4],
        "source": hashlib.sha256(start.source.encode()).hexdigest()[:16],
        "text": start.source,
    }
    lines = [HEADER, launch_line, {"end": True}]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def repro(*words: str, release: str = "2.0") -> Result:
    """The command on the launch of the file, verified on releases 1.0 to 3.0."""
    subject = ["repro", "l.jsonl:2", "--triton", f"fake=={release}", "--target", "sm90"]
    releases = ["--releases", "fake==1.0,fake==2.0,fake==3.0"]
    arguments = [*subject, *releases, "--memory", "512", "-o", "out", *words]
    # Messages repeat the command, which flacheck reads from the process's own arguments.
    with mock.patch.object(sys, "argv", ["flacheck", *arguments]):
        return CliRunner().invoke(app, arguments)


def test_a_failure_becomes_a_folder_of_files(folder: Path) -> None:
    """The printed JSON equals repro.json, and the exit code is 0."""
    outcome = repro("--format", "json", "--runs", "2")
    about = json.loads(outcome.stdout)
    validate_json("repro", about)
    assert outcome.exit_code == 0
    assert (folder / "out/repro.json").read_text() == outcome.stdout
    assert about["files"] == ["repro.py", "original.py", "issue.md", "log.txt", "repro.json"]
    assert about["runs"] == {"reproduced": 2, "of": 2}
    assert [entry["exit"] for entry in about["versions"]] == [1, 0, 1]
    assert about["complete"] is True
    assert "tl.dot" in (folder / "out/repro.py").read_text()


def test_a_table_shows_the_reduced_kernel(folder: Path) -> None:
    """The table shows the reduced kernel and the files; progress goes to stderr."""
    outcome = repro()
    assert outcome.exit_code == 0
    assert "tl.dot" in outcome.stdout
    assert "out/repro.py" in outcome.stdout
    assert "flacheck: 4 lines" not in outcome.stdout
    assert " compiles, " in outcome.stderr


def test_a_script_that_never_shows_the_failure_is_a_finding(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1, and the scripts are written without issue.md."""
    monkeypatch.setattr(reproduction, "run_script", shown_on("none"))
    outcome = repro("--format", "json")
    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout)["runs"] == {"reproduced": 0, "of": 3}
    assert (folder / "out/repro.py").exists()
    assert not (folder / "out/issue.md").exists()


def test_a_cell_that_compiles_is_not_reproduced(folder: Path) -> None:
    """A cell that compiles ends with exit code 1 and a sentence."""
    outcome = repro(release="1.0")
    assert outcome.exit_code == 1
    assert "compiles under fake==1.0 in" in outcome.stderr
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (("--format", "markdown"), "unknown format 'markdown': allowed are table, json"),
        (("--budget", "0"), "--budget 0: expected a number of compiles"),
        (("--budget", "soon"), "--budget soon: expected a number of compiles"),
    ],
)
def test_what_is_no_option_is_a_usage_error(
    folder: Path, words: tuple[str, ...], positions: str
) -> None:
    """A wrong option is refused before compiling."""
    outcome = repro(*words)
    assert outcome.exit_code == 2
    assert positions in outcome.stderr


def test_a_budget_of_compiles_ends_the_search_and_not_the_verification(folder: Path) -> None:
    """A spent budget is incomplete, and its best result is verified."""
    outcome = repro("--format", "json", "--budget", "3")
    about = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert about["complete"] is False
    assert about["ran"] <= 3
    assert about["runs"] == {"reproduced": 3, "of": 3}


@pytest.fixture
def at_improvement(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that signals this process after the n-th improvement of the search."""
    search = Reproduction.search

    def interrupt(number: int, count: int) -> None:
        def search_with_signal(self: Reproduction) -> Iterator[Improvement]:
            for at, event in enumerate(search(self), 1):
                yield event
                if at == count:
                    os.kill(os.getpid(), number)

        monkeypatch.setattr(Reproduction, "search", search_with_signal)

    return interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_best_so_far(
    folder: Path, at_improvement: Callable[[int, int], None], number: int
) -> None:
    """Ctrl-C or SIGTERM during the search leaves a verified script, with exit code 130."""
    at_improvement(number, 1)
    outcome = repro("--format", "json")
    about = json.loads((folder / "out/repro.json").read_text())
    assert outcome.exit_code == 130
    assert "interrupted: verifying the best so far" in outcome.stderr
    assert about == json.loads(outcome.stdout)
    assert about["complete"] is False
    assert about["runs"] == {"reproduced": 3, "of": 3}
    assert about["after"]["nodes"] < about["before"]["nodes"]


def test_a_second_interrupt_leaves_drafts(
    folder: Path,
    at_improvement: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The drafts are on disk before their verification."""

    def interrupt(*_: object) -> list[ScriptRun]:
        raise KeyboardInterrupt

    at_improvement(signal.SIGINT, 1)
    monkeypatch.setattr(reproduction, "run_script", interrupt)
    outcome = repro()
    assert outcome.exit_code == 130
    assert "interrupted again: wrote out/repro.py and out/original.py" in outcome.stderr
    assert sorted(file.name for file in (folder / "out").iterdir()) == ["original.py", "repro.py"]


def interrupted_at_first(times: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises KeyboardInterrupt so many times before the real call."""
    remaining = [None] * times

    def call(*arguments: Any) -> Any:
        if remaining:
            remaining.pop()
            raise KeyboardInterrupt
        return real(*arguments)

    return call


def test_an_interrupt_before_the_original_failed_shows_it_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original is verified without a search, and the exit code is 130."""
    monkeypatch.setattr(api_repro, "begin", interrupted_at_first(1, api_repro.begin))
    outcome = repro("--format", "json")
    about = json.loads(outcome.stdout)
    assert outcome.exit_code == 130
    assert "interrupted: showing that the original fails" in outcome.stderr
    assert about["after"] == about["before"]
    assert about["complete"] is False
    assert about["runs"] == {"reproduced": 3, "of": 3}
    assert "tl.program_id" in (folder / "out/original.py").read_text()


def test_a_second_interrupt_before_the_original_failed_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No script is written, and the message has the command to begin again."""
    monkeypatch.setattr(api_repro, "begin", interrupted_at_first(2, api_repro.begin))
    outcome = repro()
    assert outcome.exit_code == 130
    assert "interrupted again before the original was shown to fail" in outcome.stderr
    assert "no file was written. To begin again: flacheck repro l.jsonl:2 " in outcome.stderr
    assert not (folder / "out").exists()


def test_an_interrupt_while_releases_are_made_ready_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt before a compiler is ready writes no file."""
    monkeypatch.setattr(
        api_repro, "provide_releases", interrupted_at_first(1, api_repro.provide_releases)
    )
    outcome = repro()
    assert outcome.exit_code == 130
    assert "interrupted before there was a compiler to ask: no file was written" in outcome.stderr
    assert not (folder / "out").exists()


def test_a_symptom_that_no_script_shows_is_reported_before_the_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original's script runs first and its failure is the first message."""
    monkeypatch.setattr(reproduction, "run_script", shown_on("1.0"))
    outcome = repro("--format", "json")
    assert outcome.exit_code == 1
    lines = outcome.stderr.splitlines()
    positions = [
        at for at, line in enumerate(lines) if "original.py exits 1 under fake==2.0" in line
    ]
    assert positions == [0]
    assert len(lines) > 1


def test_a_lost_neighbour_is_incomplete(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reproduction that may be another bug exits with 3."""
    monkeypatch.setattr(Reproduction, "_lost_neighbours", lambda *_: ["fake==3.0"])
    outcome = repro()
    assert outcome.exit_code == 3
    assert "this may be another bug: it differs on 3.0" in outcome.stdout
    assert (folder / "out/issue.md").read_text().startswith("**Unlike the original on 3.0")


def test_the_handler_of_sigterm_is_put_back(folder: Path) -> None:
    """The command restores the handler of SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    repro("--budget", "1")
    assert signal.getsignal(signal.SIGTERM) is before
