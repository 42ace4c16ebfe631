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

import jsonschema
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
from tests.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "repro-1.json").read_text())
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
    """A folder with a launches file of one launch; the fake releases fail by `TABLE`, and scripts
    are run by nobody: they show the failure on 2.0.
    """

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "run_script", shown_on("2.0"))
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily({"*": TABLE}))
    start = chain()
    recorded = {
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
    lines = [HEADER, recorded, {"end": True}]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def repro(*words: str, release: str = "2.0") -> Result:
    """The command on the launch of the file, verified on releases 1.0 to 3.0."""
    fixed = ["repro", "l.jsonl:2", "--triton", f"fake=={release}", "--target", "sm90"]
    releases = ["--releases", "fake==1.0,fake==2.0,fake==3.0"]
    arguments = [*fixed, *releases, "--memory", "512", "-o", "out", *words]
    # Messages repeat the command, which flacheck reads from the process's own arguments.
    with mock.patch.object(sys, "argv", ["flacheck", *arguments]):
        return CliRunner().invoke(app, arguments)


def test_a_failure_becomes_a_folder_of_files(folder: Path) -> None:
    """Exit 0; what is printed as JSON is what repro.json holds."""
    done = repro("--format", "json", "--runs", "2")
    about = json.loads(done.stdout)
    jsonschema.validate(about, SCHEMA)
    assert done.exit_code == 0
    assert (folder / "out/repro.json").read_text() == done.stdout
    assert about["files"] == ["repro.py", "original.py", "issue.md", "log.txt", "repro.json"]
    assert about["runs"] == {"reproduced": 2, "of": 2}
    assert [entry["exit"] for entry in about["versions"]] == [1, 0, 1]
    assert about["complete"] is True
    assert "tl.dot" in (folder / "out/repro.py").read_text()


def test_a_table_shows_the_reduced_kernel(folder: Path) -> None:
    """And where the files are; the improvements are talk and go to stderr."""
    done = repro()
    assert done.exit_code == 0
    assert "tl.dot" in done.stdout
    assert "out/repro.py" in done.stdout
    assert "flacheck: 4 lines" not in done.stdout
    assert " compiles, " in done.stderr


def test_a_script_that_never_shows_the_failure_is_a_finding(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1, and the scripts are there all the same, but no text for a tracker."""
    monkeypatch.setattr(reproduction, "run_script", shown_on("none"))
    done = repro("--format", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["runs"] == {"reproduced": 0, "of": 3}
    assert (folder / "out/repro.py").exists()
    assert not (folder / "out/issue.md").exists()


def test_a_cell_that_compiles_is_not_reproduced(folder: Path) -> None:
    """Exit 1 and a sentence."""
    done = repro(release="1.0")
    assert done.exit_code == 1
    assert "compiles under fake==1.0 in" in done.stderr
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "markdown"), "unknown format 'markdown': allowed are table, json"),
        (("--budget", "0"), "--budget 0: expected a number of compiles"),
        (("--budget", "soon"), "--budget soon: expected a number of compiles"),
    ],
)
def test_what_is_no_option_is_a_usage_error(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    """Before anything is compiled."""
    done = repro(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_budget_of_compiles_ends_the_search_and_not_the_verification(folder: Path) -> None:
    """What ran out of budget is not complete; what was found is verified with what is left."""
    done = repro("--format", "json", "--budget", "3")
    about = json.loads(done.stdout)
    assert done.exit_code == 0
    assert about["complete"] is False
    assert about["ran"] <= 3
    assert about["runs"] == {"reproduced": 3, "of": 3}


@pytest.fixture
def at_improvement(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Sends this process a signal as soon as the search has told of its n-th improvement: an event
    that comes on every machine at the same point, however fast it is.
    """
    search = Reproduction.search

    def interrupt(number: int, count: int) -> None:
        def interrupted(self: Reproduction) -> Iterator[Improvement]:
            for at, event in enumerate(search(self), 1):
                yield event
                if at == count:
                    os.kill(os.getpid(), number)

        monkeypatch.setattr(Reproduction, "search", interrupted)

    return interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_best_so_far(
    folder: Path, at_improvement: Callable[[int, int], None], number: int
) -> None:
    """Ctrl-C or SIGTERM in mid-search: exit 130, and a verified script is there."""
    at_improvement(number, 1)
    done = repro("--format", "json")
    about = json.loads((folder / "out/repro.json").read_text())
    assert done.exit_code == 130
    assert "interrupted: verifying the best so far" in done.stderr
    assert about == json.loads(done.stdout)
    assert about["complete"] is False
    assert about["runs"] == {"reproduced": 3, "of": 3}
    assert about["after"]["nodes"] < about["before"]["nodes"]


def test_a_second_interrupt_leaves_drafts(
    folder: Path,
    at_improvement: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was found is on disk before it is verified."""

    def interrupt(*_: object) -> list[ScriptRun]:
        raise KeyboardInterrupt

    at_improvement(signal.SIGINT, 1)
    monkeypatch.setattr(reproduction, "run_script", interrupt)
    done = repro()
    assert done.exit_code == 130
    assert "interrupted again: wrote out/repro.py and out/original.py" in done.stderr
    assert sorted(file.name for file in (folder / "out").iterdir()) == ["original.py", "repro.py"]


def interrupted_at_first(times: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is interrupted so many times, then does what the real one does."""
    left = [None] * times

    def interrupted(*given: Any) -> Any:
        if left:
            left.pop()
            raise KeyboardInterrupt
        return real(*given)

    return interrupted


def test_an_interrupt_before_the_original_failed_shows_it_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130, and what is there is the verified original, not searched for anything smaller."""
    monkeypatch.setattr(api_repro, "begin", interrupted_at_first(1, api_repro.begin))
    done = repro("--format", "json")
    about = json.loads(done.stdout)
    assert done.exit_code == 130
    assert "interrupted: showing that the original fails" in done.stderr
    assert about["after"] == about["before"]
    assert about["complete"] is False
    assert about["runs"] == {"reproduced": 3, "of": 3}
    assert "tl.make_block_ptr" in (folder / "out/original.py").read_text()


def test_a_second_interrupt_before_the_original_failed_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130, a sentence says so and how to begin again, and no script is written."""
    monkeypatch.setattr(api_repro, "begin", interrupted_at_first(2, api_repro.begin))
    done = repro()
    assert done.exit_code == 130
    assert "interrupted again before the original was shown to fail" in done.stderr
    assert "no file was written. To begin again: flacheck repro l.jsonl:2 " in done.stderr
    assert not (folder / "out").exists()


def test_an_interrupt_while_releases_are_made_ready_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130 with a sentence: there is no compiler yet that could show anything."""
    monkeypatch.setattr(
        api_repro, "provide_releases", interrupted_at_first(1, api_repro.provide_releases)
    )
    done = repro()
    assert done.exit_code == 130
    assert "interrupted before there was a compiler to ask: no file was written" in done.stderr
    assert not (folder / "out").exists()


def test_an_interrupt_before_the_first_improvement_leaves_the_original(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was shown to fail, so it is verified and written, with the text for a tracker."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Reproduction, "_improve", interrupted)
    done = repro("--format", "json")
    about = json.loads(done.stdout)
    assert done.exit_code == 130
    assert about["complete"] is False
    assert "tl.make_block_ptr" in (folder / "out/repro.py").read_text()
    assert about["runs"] == {"reproduced": 3, "of": 3}
    assert "issue.md" in about["files"]


def test_a_symptom_that_no_script_shows_is_reported_before_the_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole kernel's script runs first of all, and nothing else is known then."""
    monkeypatch.setattr(reproduction, "run_script", shown_on("1.0"))
    done = repro("--format", "json")
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    said = [at for at, line in enumerate(lines) if "original.py exits 1 under fake==2.0" in line]
    assert said == [0]
    assert len(lines) > 1


def test_a_lost_neighbour_is_incomplete(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3: the script shows the failure, and it may be another bug."""
    monkeypatch.setattr(Reproduction, "_lost_neighbours", lambda *_: ["fake==3.0"])
    done = repro()
    assert done.exit_code == 3
    assert "this may be another bug: it differs on 3.0" in done.stdout
    assert (folder / "out/issue.md").read_text().startswith("**Unlike the original on 3.0")


def test_the_handler_of_sigterm_is_put_back(folder: Path) -> None:
    """A command in another program leaves that program's signals as they were."""
    before = signal.getsignal(signal.SIGTERM)
    repro("--budget", "1")
    assert signal.getsignal(signal.SIGTERM) is before
