"""Transcripts of `flacheck gate`: exit codes, formats and files."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flacheck.store import Store
from tests.cli.test_cli import flacheck
from tests.made_records import PACKAGE, failure, record, scanned
from tests.paths import ROOT, TESTS
from tests.schemas import validate_json

GOLDEN = TESTS / "golden"
GOOD = ("3.4.0", "3.5.0", "3.5.1", "3.6.0", "3.7.0", "3.7.1", "3.8.0")
WAIVER = """
[[tool.flacheck.waivers]]
kernel = "chunk_gated_*"
reason = "issue 7"
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a cache without an index."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a store: 3.2.0 fails on sm90 with 8 warps, the releases of GOOD compile."""
    records = [failure(options={"num_warps": 8}), record()]
    records += [
        record(toolchain=f"triton=={version}", target=target)
        for version in GOOD
        for target in ("sm80", "sm90")
    ]
    with Store.open(tmp_path / ".flacheck") as store:
        scanned(store, records)
    return tmp_path


def run_gate(project: Path, text: str, *args: str, file: str = "r.txt") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a gate on a file with this text."""
    (project / file).write_text(text)
    outcome = flacheck("gate", file, *args, cwd=project)
    assert "Traceback" not in outcome.stderr
    return outcome.returncode, outcome.stdout, outcome.stderr


def document(project: Path, text: str, *args: str, **more: Any) -> dict[str, Any]:
    """Return the JSON of a gate after validation against its schema."""
    content: dict[str, Any] = json.loads(
        run_gate(project, text, *args, "--format", "json", **more)[1]
    )
    validate_json("gate", content)
    return content


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("triton==3.2.0\n", 1, "FC302: chunk_gated_delta_rule_fwd_kernel_h"),
        ("triton>=3.4,<3.9\n", 0, "7 good"),
        (
            "torch==2.7.1\ntriton==3.2.0\n",
            1,
            "torch 2.7.1 requires triton==3.3.1, but r.txt:2 pins triton==3.2.0",
        ),
        ("torch==2.6.0\n", 1, "FC302"),
        ("triton==3.1.0\n", 3, "no record"),
        ("triton>=3.8\n", 0, "newer than every known release\n    bound the pin"),
    ],
)
def test_codes(project: Path, text: str, code: int, message: str) -> None:
    """The exit code is 1 with kernels and cause, 0, or 3 without a record."""
    exit_code, out, _ = run_gate(project, text)
    assert exit_code == code
    assert message in out
    assert run_gate(project, text, "--format", "github")[0] == code


def test_json_lines_are_one_line(project: Path) -> None:
    """A gate has one answer."""
    code, out, _ = run_gate(project, "triton==3.2.0\n", "--format", "jsonl")
    assert (code, json.loads(out)["schema"]) == (1, "flacheck.gate/1")


@pytest.mark.parametrize(
    ("file", "text", "code", "message"),
    [
        ("r.txt", "numpy\ntriton==\n", 2, "r.txt:2: 'triton==' is not a requirement"),
        ("pyproject.toml", "[project]\nname = \n", 2, "pyproject.toml:2: not valid TOML"),
        ("uv.lock", "[[package]\n", 2, "uv.lock:1: not valid TOML"),
        ("setup.py", "", 2, "cannot be read by gate"),
        ("r.txt", "numpy\n", 4, "neither torch nor triton is pinned there"),
        ("pyproject.toml", "[tool.flacheck]\nwaivers = 3\n", 2, "waivers must be tables"),
    ],
)
def test_what_cannot_be_judged_is_one_message(
    project: Path, file: str, text: str, code: int, message: str
) -> None:
    """The message has file and line, and stdout is empty."""
    exit_code, out, error = run_gate(project, text, file=file)
    assert (exit_code, out) == (code, "")
    assert message in error


def test_a_missing_store_is_an_answer_and_is_not_made(tmp_path: Path) -> None:
    """Contradictions are found without a store."""
    assert run_gate(tmp_path, "triton==3.4.0\n")[0] == 3
    assert run_gate(tmp_path, "torch==2.7.1\ntriton==3.2.0\n")[0] == 1
    assert not (tmp_path / ".flacheck").exists()


def test_the_table(project: Path) -> None:
    """The table has pins, releases, causes, waivers and suggestions."""
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = ["torch>=2.6,<2.10"]\n'
        '[dependency-groups]\ngpu = ["triton==3.7.0"]\n'
        '[[tool.flacheck.waivers]]\nsignature = "FC401:ptx:-:0"\nreason = "issue 9"\n'
        "expires = 2026-01-31\n"
    )
    outcome = flacheck("gate", "--suggest", cwd=project, COLUMNS="100")
    assert outcome.stdout == (GOLDEN / "gate-table.txt").read_text()
    assert outcome.returncode == 1


def test_github_annotates_the_lines(project: Path) -> None:
    """Errors are at the failing pin and at both contradicting pins."""
    failing = run_gate(project, "numpy\ntriton>=3.2,<3.3\n", "--format", "github")[1].splitlines()
    assert failing[0].startswith("::error file=r.txt,line=2,title=FC302 ")
    assert "Assertion `reshapeOuts'" in failing[0]
    both = run_gate(project, "torch==2.7.1\ntriton==3.2.0\n", "--format", "github")[1].splitlines()
    assert [line.partition("::torch")[0] for line in both[:2]] == [
        f"::error file=r.txt,line={line},title=pins contradict each other" for line in (1, 2)
    ]
    assert all(re.match(r"::(error|warning|notice) [^\n]*::", line) for line in failing + both)


def test_annotations_are_the_same_on_a_terminal(project: Path) -> None:
    """A terminal gets annotations without colours or line breaks."""
    plain = run_gate(project, "triton>=3.2,<3.5\n", "--format", "github")[1]
    inner, outer = pty.openpty()
    command = [sys.executable, "-m", "flacheck", "gate", "r.txt", "--format", "github"]
    place = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "40", "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, cwd=project, stdout=outer, stderr=subprocess.PIPE, env=place)
    os.close(outer)
    output = b"".join(iter(lambda: _available(inner), b""))
    os.close(inner)
    assert child.communicate()[1] == b""
    assert child.returncode == 1
    assert output.decode().replace("\r\n", "\n") == plain


def _available(terminal: int) -> bytes:
    """Return the next bytes of a terminal, or none after its other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_warning_comes_once_though_files_are_read_twice(project: Path) -> None:
    """A warning is printed once, although --fix reads the files twice."""
    text = "-c https://example.com/limits.txt\ntriton>=3.2,<3.9\n"
    code, _, error = run_gate(project, text, "--fix")
    assert code == 0
    assert error.count("limits.txt is not fetched") == 1


def test_markdown_is_for_a_jobs_summary(project: Path) -> None:
    """Markdown has a table and quotes code with backticks."""
    out = run_gate(project, "triton>=3.2,<3.5\n", "--format", "markdown")[1]
    assert "| 3.2.0 | 2.6.0 | **bad** | FC302: chunk_gated_delta_rule_fwd_kernel_h |" in out
    assert "`` Assertion `reshapeOuts' failed. ``" in out


def test_a_fix_is_written_and_judged_anew(project: Path) -> None:
    """A fixed file passes; a pin that cannot be written leaves exit code 1."""
    code, out, error = run_gate(project, "numpy  # x\ntriton>=3.2,<3.9  # y\n", "--fix")
    assert (project / "r.txt").read_text() == "numpy  # x\ntriton>=3.3.0,<3.9  # y\n"
    assert code == 0
    assert "7 good" in out
    assert "is now triton>=3.3.0,<3.9" in error
    code, _, error = run_gate(project, "triton==3.2.0 --hash=sha256:aa\n", "--fix")
    assert code == 1
    assert "was left as it is (its hashes are of that release)" in error
    assert flacheck("gate", "--installed", "--fix", cwd=project).returncode == 2


@pytest.mark.slow
def test_the_toml_editor_is_loaded_for_a_fix_alone(project: Path) -> None:
    """The TOML editor is imported only for --fix."""
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["triton>=3.2,<3.9"]\n')
    imports = []
    for args in ([], ["--fix"]):
        command = [
            sys.executable,
            "-X",
            "importtime",
            "-m",
            "flacheck",
            "gate",
            "pyproject.toml",
            *args,
        ]
        outcome = subprocess.run(
            command,
            cwd=project,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert outcome.returncode == (0 if args else 1)
        imports.append(" tomlkit" in outcome.stderr)
    assert imports == [False, True]


def test_settings_choose_the_records(project: Path) -> None:
    """The settings select matrix, targets and package; a flag comes first."""
    settings = project / "pyproject.toml"
    for setting, code in {
        'matrix = "seeds"': 1,
        'matrix = "quick"': 3,
        'target = ["sm80"]': 3,
        'target = "sm90"': 1,
    }.items():
        settings.write_text(f"[tool.flacheck]\n{setting}\n")
        assert run_gate(project, "triton==3.2.0\n")[0] == code, setting
    assert run_gate(project, "triton==3.2.0\n", "--package", PACKAGE)[0] == 1


def test_a_waiver_holds_for_gate_and_report(project: Path) -> None:
    """A waiver excuses the failure in both commands until it expires."""
    settings = project / "pyproject.toml"
    settings.write_text(WAIVER)
    code, out, _ = run_gate(project, "triton==3.2.0\n")
    assert code == 0
    assert "kernel chunk_gated_* lets 1 failing cell pass (issue 7)" in out
    assert document(project, "triton==3.2.0\n")["waived"][0] | {"cells": 0} == {
        "signature": None,
        "kernel": "chunk_gated_*",
        "reason": "issue 7",
        "expires": None,
        "use": "active",
        "cells": 0,
    }
    assert "1 fails (1 waived)" in flacheck("report", cwd=project).stdout
    settings.write_text(WAIVER + "expires = 2026-01-31\n")
    assert run_gate(project, "triton==3.4.0\n")[0] == 1
    assert "waived" not in flacheck("report", cwd=project).stdout


def test_a_waiver_of_another_signature_is_looked_up_in_the_store(project: Path) -> None:
    """A signature without a stored failure waives nothing."""
    settings = project / "pyproject.toml"
    settings.write_text(WAIVER.replace('kernel = "chunk_gated_*"', 'signature = "FC401:ptx:-:0"'))
    code, out, _ = run_gate(project, "triton==3.4.0\n")
    assert code == 0
    assert "FC401:ptx:-:0 matches no compiled cell (issue 7)" in out


def test_without_a_file_the_live_environment_is_judged(project: Path) -> None:
    """A note says that the live environment is judged."""
    outcome = flacheck(
        "gate", "--store", str(project / ".flacheck"), cwd=project.parent / project.name
    )
    assert "no file here pins torch or triton: looking at the live environment" in outcome.stderr
    assert outcome.returncode in (0, 3, 4)


def test_a_listed_new_release_is_seen(project: Path) -> None:
    """Releases of an earlier index listing are admitted."""
    cache = Path(os.environ["FLACHECK_CACHE_DIR"]) / "index" / "triton.json"
    assert ">3.9.0" in {v["triton"] for v in document(project, "triton>=3.8\n")["versions"]}
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"x:here": {"time": 0, "versions": ["3.9.0", "3.10.0"]}}))
    assert {"3.10.0", ">3.10.0"} <= {
        v["triton"] for v in document(project, "triton>=3.8\n")["versions"]
    }


@pytest.mark.slow
def test_two_hundred_pins_cost_little_more_than_two(project: Path) -> None:
    """200 pins cost less than twice the time of two."""

    def cost(lines: list[str]) -> float:
        (project / "r.txt").write_text("".join(lines))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        # A process of its own: the time of a warm one would not count as a child's.
        command = [sys.executable, "-m", "flacheck", "gate", "r.txt"]
        assert subprocess.run(command, cwd=project, capture_output=True).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    two = ["torch==2.8.0\n", "triton==3.4.0\n"]
    many = [f"package-{number}==1.{number}.0 ; python_version >= '3.8'\n" for number in range(198)]
    cost(two)  # the first start writes Python's caches
    assert cost([*many, *two]) < 2 * cost(two)


@pytest.mark.network
def test_scan_fills_the_gaps_and_no_more(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--scan compiles only releases without a record."""
    monkeypatch.delenv("FLACHECK_CACHE_DIR")
    narrow = ("--scan", "--kernel", "solve_tril", "--target", "sm90", "-j", "2")
    code, out, _ = run_gate(project, "triton==3.5.1\n", *narrow)
    assert code == 0
    # `quick` compiles the first configuration of each kernel.
    assert "1 screened" in out
    assert "compiled: 1 of 4 configurations, 1 of 1 kernels on sm90" in out
    with Store.open(project / ".flacheck") as store:
        own_records = [
            entry for entry in store.records(store.run("last").id) if entry.package is None
        ]
    assert {(entry.toolchain, entry.target) for entry in own_records} == {("triton==3.5.1", "sm90")}
    code, _, error = run_gate(project, "triton==3.5.1\n", *narrow)
    assert code == 0
    assert "cells" not in error


def test_releases_on_the_command_line_are_one_more_pin(project: Path) -> None:
    """A release on the command line is a pin beside those of the files."""
    (project / "pyproject.toml").write_text('[tool.flacheck]\ntriton = "3.2.0"\n')
    content = document(project, "triton>=3.4,<3.9\n", "--torch", "2.9")
    assert [(pin["file"], pin["specifier"]) for pin in content["pins"]] == [
        ("r.txt", ">=3.4,<3.9"),
        ("--torch", "==2.9.*"),
    ]
    assert [version["triton"] for version in content["versions"]] == ["3.5.0", "3.5.1"]
    (project / "r.txt").unlink()
    alone = flacheck("gate", "--triton", "3.5.1", cwd=project)
    assert (alone.returncode, "1 good" in alone.stdout) == (0, True), alone.stderr
    code, out, _ = run_gate(project, "torch==2.8.0\n", "--torch", "2.9")
    assert code == 1
    assert "no release of torch satisfies torch==2.8.0 (r.txt:1) and torch==2.9.*" in out


# What ships beside the command


def test_the_pre_commit_hook_runs_the_gate() -> None:
    """The hook matches only files that hold pins."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = [each for each in hooks if each["id"] == "flacheck-gate"]
    assert hook["entry"] == "flacheck gate"
    assert hook["pass_filenames"] is False
    pattern = re.compile(hook["files"])
    assert all(
        map(
            pattern.search,
            (
                "pyproject.toml",
                "a/uv.lock",
                "pylock.gpu.toml",
                "requirements-gpu.txt",
                "b/constraints.txt",
            ),
        )
    )
    assert not any(
        map(pattern.search, ("setup.py", "notes.txt", "requirements.md", "mypyproject.toml"))
    )


@pytest.mark.parametrize(
    ("args", "code"),
    [
        pytest.param("--suggest", 1, marks=pytest.mark.slow),
        pytest.param("--kernel chunk_* --strict", 1, marks=pytest.mark.slow),
        ("--kernel $(touch${IFS}owned);x", 3),
    ],
)
def test_the_action_gates_with_annotations_and_a_summary(
    project: Path, args: str, code: int
) -> None:
    """The action's step writes a summary, and its inputs are not run as script."""
    action = yaml.safe_load((ROOT / ".github/actions/flacheck-gate/action.yml").read_text())
    step = action["runs"]["steps"][-1]
    (project / "flacheck").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flacheck "$@"\n')
    (project / "flacheck").chmod(0o755)
    (project / "r.txt").write_text("triton==3.2.0\n")
    inputs = {"FILES": "r.txt", "ARGS": args, "FLACHECK_STORE": ".flacheck"}
    assert set(step["env"]) == set(inputs)
    place = {
        "GITHUB_STEP_SUMMARY": str(project / "summary.md"),
        "PATH": f"{project}:{os.environ['PATH']}",
    }
    outcome = subprocess.run(
        ["bash", "-e", "-c", step["run"].replace(" --refresh", "")],
        cwd=project,
        env={**os.environ, **inputs, **place},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == code
    assert "::" in outcome.stdout
    assert not (project / "owned").exists()
    assert outcome.stdout.startswith("::error file=r.txt,line=1,title=FC302") == (code == 1)
    assert (project / "summary.md").read_text().startswith("## flacheck gate")
