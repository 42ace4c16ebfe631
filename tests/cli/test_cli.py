"""Transcripts of the command line: codes, messages and streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck.model import Record
from flacheck.store import Store
from tests.made_records import PACKAGE, record, records_in, scanned
from tests.paths import TESTS
from tests.tables.settings.test_settings import write_user_settings
from tests.warm import WarmCommand

WARM = WarmCommand()


def flacheck(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return WARM.run(args, cwd, {**os.environ, "NO_COLOR": "1", **environment})


@pytest.fixture
def folder_with_run(tmp_path: Path) -> Path:
    """A folder with a store that holds one run of a few records."""
    failing = record(
        "fails",
        options={"num_warps": 8},
        code="FC302",
        signature="FC302:llir:f:0",
        message="Assertion failed",
    )
    records: list[Record] = [record(), failing]
    with Store.open(tmp_path / ".flacheck") as store:
        store.add_many(
            store.begin_run({"flacheck": "0", "python": "3", "platform": "x"}, "made", {}), records
        )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["scan", "nope"], 2, "no matrix 'nope'"),
        (["scan", "-k", "chunk_fwd_q", "--triton", "3.2.0"], 2, "did you mean"),
        (["scan", "--target", "sm42"], 2, "sm42"),
        (["scan", "--dtype", "fp12"], 2, "unknown dtype 'fp12'"),
        (["scan", "--shard", "3/2", "--triton", "3.2.0"], 2, "I/N with 1 ≤ I ≤ N"),
        (["scan", "--timeout", "soon"], 2, "--timeout soon"),
        (["scan", "--until", "tttir"], 2, "--until tttir: there is no such stage"),
        (["scan", "--num-warps", "many"], 2, "--num-warps takes whole numbers"),
        (["scan", "--format", "xml"], 2, "unknown format 'xml'"),
        (["scan", "--toolchain", "gcc==12"], 2, "unknown toolchain"),
        (["scan", "--memory", "1"], 2, "memory"),
        (["scan", "--frobnicate"], 2, "--frobnicate"),
        (["explain", "FC999"], 2, "no failure code FC999"),
        (["explain", "missing.log"], 2, "cannot be read"),
        (["report"], 2, "flacheck scan"),
        (["list", "moods"], 2, "cannot list"),
        (["frob"], 2, "frob"),
    ],
)
def test_bad_input_is_one_message_and_its_code(
    tmp_path: Path, command: list[str], code: int, message: str
) -> None:
    """The message is on stderr alone, without a traceback."""
    outcome = flacheck(*command, cwd=tmp_path)
    assert (outcome.returncode, outcome.stdout) == (code, "")
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not list(tmp_path.iterdir())


def test_explain_names_the_failure_in_a_log(tmp_path: Path) -> None:
    """A log is explained as text and as JSON."""
    log = TESTS / "logs" / "FC302" / "golden-reshape-outs-3.2.0.log"
    outcome = flacheck("explain", str(log), cwd=tmp_path)
    assert outcome.returncode == 0
    assert outcome.stdout.startswith("FC302")
    as_json = json.loads(flacheck("explain", str(log), "--format", "json", cwd=tmp_path).stdout)
    assert as_json["findings"][0]["code"] == "FC302"
    assert as_json["findings"][0]["line"]


def test_explain_of_a_text_without_a_known_failure_exits_1(tmp_path: Path) -> None:
    """A text without a failure exits with 1."""
    (tmp_path / "fine.log").write_text("all is well\n")
    assert flacheck("explain", "fine.log", cwd=tmp_path).returncode == 1


def test_report_finds_the_last_scan_about_something(tmp_path: Path) -> None:
    """The last scan of a matrix, package or operator is found, else the exit code is 2."""
    with Store.open(tmp_path / ".flacheck") as store:
        of_operator = {"ops": ["retention"]}
        first = scanned(store, [record("compiles", toolchain="triton==3.4.0")], PACKAGE)
        through = scanned(
            store, [record(toolchain="triton==3.5.0")], PACKAGE, selection=of_operator
        )
        last = scanned(store, [record(toolchain="triton==3.6.0")], "seeds")

    def run(*args: str) -> str:
        outcome = flacheck("report", *args, "--format", "json", cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
        run_id: str = json.loads(outcome.stdout)["run"]["id"]
        return run_id

    assert run("--package", PACKAGE) == run("--op", "retention") == through
    assert run("--matrix", "seeds") == run() == last
    assert first not in (through, last)
    nothing = flacheck("report", "--package", PACKAGE, "--op", "gla", cwd=tmp_path)
    assert nothing.returncode == 2
    assert f"no scan was about {PACKAGE} --op gla" in nothing.stderr
    both = flacheck("report", last, "--matrix", "seeds", cwd=tmp_path)
    assert (both.returncode, "RUN and --matrix were given" in both.stderr) == (2, True)


def test_report_renders_the_last_run_in_every_format(folder_with_run: Path) -> None:
    """Every format has exit code 0."""
    for name in ("table", "json", "jsonl", "markdown", "github"):
        outcome = flacheck("report", "--format", name, cwd=folder_with_run)
        assert outcome.returncode == 0, name
        assert "FC302" in outcome.stdout, name


def test_output_goes_to_a_file_whole_or_not_at_all(folder_with_run: Path) -> None:
    """A file that cannot be written is one message."""
    assert flacheck("report", "-o", "out.txt", cwd=folder_with_run).returncode == 0
    assert "FC302" in (folder_with_run / "out.txt").read_text()
    outcome = flacheck("report", "-o", "no/such/folder/out.txt", cwd=folder_with_run)
    assert outcome.returncode == 2
    assert "cannot be written" in outcome.stderr


def test_a_closed_pipe_is_no_error(folder_with_run: Path) -> None:
    """A reader that closes the pipe is not an error."""
    command = (
        f"{sys.executable} -m flacheck report -q --format json | head -1; echo ${{PIPESTATUS[0]}}"
    )
    outcome = subprocess.run(
        ["bash", "-c", command], cwd=folder_with_run, capture_output=True, text=True
    )
    assert outcome.stdout.splitlines()[-1] == "0"
    assert outcome.stderr == ""


def test_settings_come_from_flag_then_variable_then_file(
    folder_with_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag comes before a variable, and a variable before the settings; -v names the source."""
    (folder_with_run / "pyproject.toml").write_text('[tool.flacheck]\ntarget = "sm90"\n')
    file = write_user_settings(folder_with_run, 'format = "markdown"\n', monkeypatch)
    outcome = flacheck("report", "-v", cwd=folder_with_run)
    assert outcome.stdout.startswith("#")
    for line in ("target = ['sm90'] ([tool.flacheck])", f"format = markdown ({file})"):
        assert line in outcome.stderr
    assert flacheck("report", cwd=folder_with_run, FLACHECK_FORMAT="json").stdout.startswith("{")
    assert flacheck(
        "report", "--format", "jsonl", cwd=folder_with_run, FLACHECK_FORMAT="json"
    ).stdout.startswith('{"schema"')
    (folder_with_run / "pyproject.toml").write_text("[tool.flacheck\n")
    outcome = flacheck("report", cwd=folder_with_run)
    assert outcome.returncode == 2
    assert "not valid TOML" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_merge_takes_over_another_stores_runs(
    folder_with_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Merged stores become one report."""
    other = tmp_path_factory.mktemp("other")
    with Store.open(other) as store:
        store.add_many(store.begin_run({}, "other", {}), [record(options={"num_warps": 2})])
    outcome = flacheck("report", "--merge", str(other), cwd=folder_with_run)
    assert outcome.returncode == 0
    assert "1 new records" in outcome.stderr
    assert len(flacheck("report", "--list", cwd=folder_with_run).stdout.splitlines()) == 2


def test_lists(tmp_path: Path) -> None:
    """Every list is printed as text and as JSON."""
    for what, word in (
        ("kernels", "retention.chunk_fwd_o"),
        ("matrices", "seeds"),
        ("targets", "sm90"),
        ("rules", "FC302"),
    ):
        assert word in flacheck("list", what, cwd=tmp_path).stdout
        assert json.loads(flacheck("list", what, "--format", "json", cwd=tmp_path).stdout)


def test_a_fault_of_our_own_exits_70(tmp_path: Path) -> None:
    """An internal error exits with 70 and its traceback."""
    code = (
        "import sys, flacheck.cli, flacheck.rules.explanation as e\n"
        "e.of_code = lambda code: 1 / 0\n"
        "sys.argv = ['flacheck', 'explain', 'FC302']; flacheck.cli.main()"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert outcome.returncode == 70
    assert "a fault in flacheck" in outcome.stderr
    assert "ZeroDivisionError" in outcome.stderr


@pytest.mark.network
def test_a_dry_run_lists_and_compiles_nothing(tmp_path: Path) -> None:
    """A dry run makes no store."""
    outcome = flacheck("scan", "--dry-run", "--triton", "3.5.1", "-k", "solve_tril", cwd=tmp_path)
    assert outcome.returncode == 0
    cells = outcome.stdout.splitlines()
    assert f"{len(cells)} cells; nothing was compiled" in outcome.stderr
    assert cells
    assert all("solve_tril" in line for line in cells)
    assert not list(tmp_path.iterdir())


@pytest.mark.network
def test_shards_are_disjoint_and_complete(tmp_path: Path) -> None:
    """Every cell is in exactly one shard."""
    whole, *parts = (
        set(
            flacheck(
                "scan", "--dry-run", "--triton", "3.5.1", *shard, cwd=tmp_path
            ).stdout.splitlines()
        )
        for shard in ([], ["--shard", "1/3"], ["--shard", "2/3"], ["--shard", "3/3"])
    )
    assert whole == set.union(*parts)
    assert len(whole) == sum(map(len, parts)) > 60


@pytest.mark.network
def test_ctrl_c_stores_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    """The finished records are stored, and the exit code is 130."""
    command = [
        sys.executable,
        "-m",
        "flacheck",
        "scan",
        "-k",
        "chunk_fwd_h",
        "--triton",
        "3.5.1",
        "-j",
        "1",
    ]
    scanning = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    file = tmp_path / ".flacheck" / "flacheck.sqlite"
    end = time.monotonic() + 120
    while records_in(file) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    scanning.send_signal(signal.SIGINT)
    _, errors = scanning.communicate(timeout=300)
    assert scanning.returncode == 130
    assert "To go on: flacheck scan -k chunk_fwd_h" in errors
    assert "Traceback" not in errors
    assert records_in(file) >= 3


def test_a_dtype_of_launches_files_can_be_selected(tmp_path: Path) -> None:
    """A selection accepts AMD's fp8."""
    outcome = flacheck(
        "scan", "quick", "--dtype", "fp8e4b8", "--triton", "3.6.0", "--dry-run", cwd=tmp_path
    )
    assert outcome.returncode == 0, outcome.stderr
    assert " fp8e4b8 " in outcome.stdout
