"""The command line as a person uses it: codes, messages, streams."""

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
def stored(tmp_path: Path) -> Path:
    """A folder with a store that holds one run of a few records."""
    failing = record(
        "fails",
        options={"num_warps": 8},
        code="FC302",
        signature="FC302:llir:f:0",
        message="Assertion failed",
    )
    made: list[Record] = [record(), failing]
    with Store.open(tmp_path / ".flacheck") as store:
        store.add_many(
            store.begin_run({"flacheck": "0", "python": "3", "platform": "x"}, "made", {}), made
        )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "said"),
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
    tmp_path: Path, command: list[str], code: int, said: str
) -> None:
    """What, where, what to do; never a traceback, nothing on stdout."""
    found = flacheck(*command, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (code, "")
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_malformed_matrix_names_file_and_line(tmp_path: Path) -> None:
    """As compilers do."""
    (tmp_path / "mine.yaml").write_text("version: 1\naxes:\n  tarket: sm90\n")
    found = flacheck("scan", "mine.yaml", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.startswith("flacheck: mine.yaml:3: unknown key 'tarket'; allowed are")


def test_explain_names_the_failure_in_a_log(tmp_path: Path) -> None:
    """From a file or from stdin, for people and for programs."""
    log = TESTS / "logs" / "FC302" / "golden-reshape-outs-3.2.0.log"
    found = flacheck("explain", str(log), cwd=tmp_path)
    assert found.returncode == 0
    assert found.stdout.startswith("FC302")
    as_json = json.loads(flacheck("explain", str(log), "--format", "json", cwd=tmp_path).stdout)
    assert as_json["findings"][0]["code"] == "FC302"
    assert as_json["findings"][0]["line"]


def test_explain_of_a_text_without_a_known_failure_exits_1(tmp_path: Path) -> None:
    """No rule matches."""
    (tmp_path / "fine.log").write_text("all is well\n")
    assert flacheck("explain", "fine.log", cwd=tmp_path).returncode == 1


def test_report_finds_the_last_scan_about_something(tmp_path: Path) -> None:
    """A matrix, a package, or what came through an operator; exit code 2 where there is none."""
    with Store.open(tmp_path / ".flacheck") as store:
        asked = {"ops": ["retention"]}
        first = scanned(store, [record("compiles", toolchain="triton==3.4.0")], PACKAGE)
        through = scanned(store, [record(toolchain="triton==3.5.0")], PACKAGE, selection=asked)
        last = scanned(store, [record(toolchain="triton==3.6.0")], "seeds")

    def run(*args: str) -> str:
        found = flacheck("report", *args, "--format", "json", cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        said: str = json.loads(found.stdout)["run"]["id"]
        return said

    assert run("--package", PACKAGE) == run("--op", "retention") == through
    assert run("--matrix", "seeds") == run() == last
    assert first not in (through, last)
    nothing = flacheck("report", "--package", PACKAGE, "--op", "gla", cwd=tmp_path)
    assert nothing.returncode == 2
    assert f"no scan was about {PACKAGE} --op gla" in nothing.stderr
    both = flacheck("report", last, "--matrix", "seeds", cwd=tmp_path)
    assert (both.returncode, "RUN and --matrix were given" in both.stderr) == (2, True)


def test_report_renders_the_last_run_in_every_format(stored: Path) -> None:
    """The format never changes the code."""
    for name in ("table", "json", "jsonl", "markdown", "github"):
        found = flacheck("report", "--format", name, cwd=stored)
        assert found.returncode == 0, name
        assert "FC302" in found.stdout, name


def test_output_goes_to_a_file_whole_or_not_at_all(stored: Path) -> None:
    """An unwritable file is one message."""
    assert flacheck("report", "-o", "out.txt", cwd=stored).returncode == 0
    assert "FC302" in (stored / "out.txt").read_text()
    found = flacheck("report", "-o", "no/such/folder/out.txt", cwd=stored)
    assert found.returncode == 2
    assert "cannot be written" in found.stderr


def test_a_closed_pipe_is_no_error(stored: Path) -> None:
    """`flacheck report | head -1`."""
    command = (
        f"{sys.executable} -m flacheck report -q --format json | head -1; echo ${{PIPESTATUS[0]}}"
    )
    said = subprocess.run(["bash", "-c", command], cwd=stored, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "0"
    assert said.stderr == ""


def test_settings_come_from_flag_then_variable_then_file(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-v names the place of each value."""
    (stored / "pyproject.toml").write_text('[tool.flacheck]\ntarget = "sm90"\n')
    file = write_user_settings(stored, 'format = "markdown"\n', monkeypatch)
    found = flacheck("report", "-v", cwd=stored)
    assert found.stdout.startswith("#")
    for line in ("target = ['sm90'] ([tool.flacheck])", f"format = markdown ({file})"):
        assert line in found.stderr
    assert flacheck("report", cwd=stored, FLACHECK_FORMAT="json").stdout.startswith("{")
    assert flacheck(
        "report", "--format", "jsonl", cwd=stored, FLACHECK_FORMAT="json"
    ).stdout.startswith('{"schema"')
    (stored / "pyproject.toml").write_text("[tool.flacheck\n")
    found = flacheck("report", cwd=stored)
    assert found.returncode == 2
    assert "not valid TOML" in found.stderr
    assert "Traceback" not in found.stderr


def test_merge_takes_over_another_stores_runs(
    stored: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Shards of several machines become one report."""
    other = tmp_path_factory.mktemp("other")
    with Store.open(other) as store:
        store.add_many(store.begin_run({}, "other", {}), [record(options={"num_warps": 2})])
    found = flacheck("report", "--merge", str(other), cwd=stored)
    assert found.returncode == 0
    assert "1 new records" in found.stderr
    assert len(flacheck("report", "--list", cwd=stored).stdout.splitlines()) == 2


def test_lists(tmp_path: Path) -> None:
    """What there is, for people and for programs."""
    for what, word in (
        ("kernels", "retention.chunk_fwd_o"),
        ("matrices", "seeds"),
        ("targets", "sm90"),
        ("rules", "FC302"),
    ):
        assert word in flacheck("list", what, cwd=tmp_path).stdout
        assert json.loads(flacheck("list", what, "--format", "json", cwd=tmp_path).stdout)


def test_a_fault_of_our_own_exits_70(tmp_path: Path) -> None:
    """With what a report needs."""
    code = (
        "import sys, flacheck.cli, flacheck.rules.explanation as e\n"
        "e.of_code = lambda code: 1 / 0\n"
        "sys.argv = ['flacheck', 'explain', 'FC302']; flacheck.cli.main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 70
    assert "a fault in flacheck" in found.stderr
    assert "ZeroDivisionError" in found.stderr


@pytest.mark.network
def test_a_dry_run_lists_and_compiles_nothing(tmp_path: Path) -> None:
    """No store is made."""
    found = flacheck("scan", "--dry-run", "--triton", "3.5.1", "-k", "solve_tril", cwd=tmp_path)
    assert found.returncode == 0
    cells = found.stdout.splitlines()
    assert f"{len(cells)} cells; nothing was compiled" in found.stderr
    assert cells
    assert all("solve_tril" in line for line in cells)
    assert not list(tmp_path.iterdir())


@pytest.mark.network
def test_an_exact_release_that_does_not_exist_or_has_no_wheel(tmp_path: Path) -> None:
    """The first is a usage error; the second leaves its cells unknown and exits 3."""
    found = flacheck("scan", "--triton", "3.2.7", cwd=tmp_path)
    assert found.returncode == 2
    assert "3.2.7" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.network
def test_shards_are_disjoint_and_complete(tmp_path: Path) -> None:
    """Every cell is in exactly one."""
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
    """130, and no worker is left."""
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
    _, said = scanning.communicate(timeout=300)
    assert scanning.returncode == 130
    assert "To go on: flacheck scan -k chunk_fwd_h" in said
    assert "Traceback" not in said
    assert records_in(file) >= 3


def test_a_dtype_of_launches_files_can_be_selected(tmp_path: Path) -> None:
    """The selection knows the one list of dtypes: AMD's fp8 among them."""
    found = flacheck(
        "scan", "quick", "--dtype", "fp8e4b8", "--triton", "3.6.0", "--dry-run", cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    assert " fp8e4b8 " in found.stdout
