"""`flacheck init`: what it writes, what it leaves alone, and how it ends."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import flacheck
from flacheck.api import init as init_module
from flacheck.capabilities.gate.judged_pins import ReleaseState
from flacheck.capabilities.init.project_files import (
    BASELINE,
    HOOKS,
    SETTINGS,
    WORKFLOW,
    Choices,
    project_files,
)
from flacheck.errors import EmptySelection, Exit
from flacheck.store import Store
from flacheck.subjects.inputs import nearby
from flacheck.tables.settings import toml
from tests.cli.test_cli import flacheck as run_command
from tests.command_lines import parse, words_of
from tests.made_records import record, whole
from tests.paths import ROOT
from tests.subjects.inputs.test_nearby import KERNELS

PROJECT = '[project]\nname = "ops"\nversion = "1"\ndependencies = ["torch>=2.9", "triton>=3.5"]\n'
HOOK_FILE = """\
# checks before a commit
default_stages: [pre-commit]
repos:
  - repo: https://example.com/hooks
    rev: v1
    hooks: [{id: one}]
"""


@pytest.fixture
def project(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two kernels and pins, on a machine without a GPU."""
    monkeypatch.setattr(nearby, "read_card", lambda: None)
    (here / "ops").mkdir()
    (here / "ops" / "__init__.py").write_text(KERNELS)
    (here / SETTINGS).write_text(PROJECT)
    return here


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the scan, which needs torch, by one that notes its arguments; 2 of 3 cells compile."""
    scans: list[dict[str, Any]] = []

    def scan(**options: Any) -> SimpleNamespace:
        with Store.open(options["store"]):
            pass
        scans.append(options)
        cells = {"toolchain": "triton==3.9.0", "package": "ops==1"}
        records = [record(**cells), record("fails", kernel="ops:bad", code="FC302", **cells)]
        (standing,) = whole(records, about="ops==1")
        return SimpleNamespace(standings=[replace(standing, requested_count=3)])

    monkeypatch.setattr(init_module, "scan", scan)
    return scans


def workflow_commands() -> list[str]:
    """The flacheck commands of the written workflow."""
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    lines = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [line for line in lines if line.startswith("flacheck")]


def test_a_dry_run_writes_nothing(project: Path) -> None:
    """The files come with the result; the folder stays as it was."""
    before = sorted(project.rglob("*"))
    result = flacheck.init(dry_run=True)
    assert sorted(project.rglob("*")) == before
    assert [file.path for file in result.files] == [WORKFLOW, SETTINGS, HOOKS]
    assert result.gate is None
    assert result.scan == (
        "flacheck scan --package . --target sm80,sm90 --triton '>=3.9.0' --configs usual "
        "--write-baseline .flacheck-baseline.json"
    )


def test_the_workflow_gates_and_scans(project: Path, uncompiled: list[dict[str, Any]]) -> None:
    """Each of its commands parses; the scan compiles what the baseline was made of."""
    flacheck.init(target="h100")
    commands = workflow_commands()
    assert [line.split()[1] for line in commands] == ["gate", "scan", "report"]
    assert [parse(words_of(line)) for line in commands] == [None] * 3
    (arguments,) = uncompiled
    assert (arguments["package"], arguments["target"]) == (".", ("sm90",))
    assert f"--triton '{arguments['triton']}'" in commands[1]
    assert "--baseline .flacheck-baseline.json" in commands[1]
    assert (project / ".flacheck-baseline.json").is_file()
    assert (project / ".flacheck" / ".gitignore").read_text() == "*\n"


def test_a_part_is_no_green_answer(project: Path, uncompiled: list[dict[str, Any]]) -> None:
    """Failures of today are accepted; the gate and the next steps count the compiled cells."""
    result = flacheck.init(target="h100", budget="2m")
    assert (uncompiled[0]["budget"], uncompiled[0]["stop"]) == ("2m", True)
    assert result.gate is not None
    newest = result.gate.versions[-2]
    assert (newest.triton, newest.state, newest.known) == ("3.9.0", ReleaseState.PARTIAL, 1)
    assert "2/3 cells of ops==1 on sm90" in newest.why
    assert result.gate.in_words.answer.startswith("Not known: ")
    assert result.gate.in_words.recommendation.startswith(
        "compile the allowed releases with --scan"
    )
    first, _ = result.next_steps()
    assert first.startswith("the baseline holds 2 of 3 cells, and until it is complete ")
    assert f"to go on here: {result.scan}" in first


def test_an_interrupted_scan_leaves_the_old_baseline(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accepted failures of a project are not lost with --force."""
    baseline = project / ".flacheck-baseline.json"
    baseline.write_text("accepted")

    def interrupt(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flacheck.api.init.scan", interrupt)
    with pytest.raises(KeyboardInterrupt):
        flacheck.init(target="h100", force=True)
    assert baseline.read_text() == "accepted"


def test_the_guide_shows_the_workflow(tmp_path: Path) -> None:
    """docs/guides/ci.md has the text of a project with kernels."""
    workflow, *_ = project_files(Choices(".", ("sm90",), ">=3.9.0", ""), tmp_path, False)
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    assert f"```yaml\n{workflow.text}```\n" in guide


def test_settings_follow_the_project(project: Path, uncompiled: list[dict[str, Any]]) -> None:
    """The file keeps its text; the new table stands at its end."""
    flacheck.init(target="h100")
    text = (project / SETTINGS).read_text()
    assert text.startswith(PROJECT)
    assert toml.loads(text, "pyproject.toml")["tool"]["flacheck"] == {
        "target": ["sm90"],
        "package": ".",
        "configs": "usual",
        "baseline": ".flacheck-baseline.json",
    }


def test_existing_files_stay(project: Path, uncompiled: list[dict[str, Any]]) -> None:
    """A second run changes nothing and compiles nothing; each file has its reason."""
    flacheck.init()
    BASELINE.write_text("{}")
    WORKFLOW.write_text("name: mine\n")
    before = {file: file.read_text() for file in (WORKFLOW, SETTINGS, HOOKS)}
    result = flacheck.init(dry_run=True)
    assert [file.obstacle for file in result.files] == [
        "it exists; --force replaces it",
        "it has a table [tool.flacheck]",
        "it has a hook of flacheck",
    ]
    assert result.scan is None
    assert before == {file: file.read_text() for file in (WORKFLOW, SETTINGS, HOOKS)}
    assert len(uncompiled) == 1


def test_force_replaces_workflow_and_baseline(
    project: Path, uncompiled: list[dict[str, Any]]
) -> None:
    """Settings and hooks are never replaced."""
    WORKFLOW.parent.mkdir(parents=True)
    WORKFLOW.write_text("name: mine\n")
    BASELINE.write_text("not a baseline")
    (project / SETTINGS).write_text(f"{PROJECT}[tool.flacheck]\ntarget = ['sm80']\n")
    flacheck.init(force=True)
    assert WORKFLOW.read_text().startswith("name: flacheck\n")
    assert len(uncompiled) == 1
    assert (project / SETTINGS).read_text().endswith("target = ['sm80']\n")


@pytest.mark.parametrize("indent", ["", "  "])
def test_the_hook_joins_others(
    project: Path, uncompiled: list[dict[str, Any]], indent: str
) -> None:
    """Comments, order and indentation of the file stay."""
    old = HOOK_FILE if indent else HOOK_FILE.replace("\n  ", "\n")
    old = old.replace("\nrev", "\n  rev").replace("\nhooks:", "\n  hooks:")
    HOOKS.write_text(old)
    flacheck.init(target="h100")
    text = HOOKS.read_text()
    assert f"\n{indent}- repo: local\n" in text
    first, second = yaml.safe_load(text)["repos"]
    assert second == yaml.safe_load(old)["repos"][0]
    (hook,) = first["hooks"]
    assert hook["id"] == "flacheck-gate"
    assert parse(shlex.split(hook["entry"])[1:]) is None
    assert text.startswith("# checks before a commit\n")


@pytest.mark.parametrize("text", ["repos: []\n", "[\n", "- repo: x\n"])
def test_a_list_that_cannot_be_extended_stays(project: Path, text: str) -> None:
    """The reason says what to do."""
    HOOKS.write_text(text)
    hook = flacheck.init(dry_run=True).files[2]
    assert hook.obstacle == "its list of repos cannot be extended; add the hook by hand"


def test_a_project_without_a_pins_file_names_releases(project: Path) -> None:
    """Its workflow judges the newest release and those to come."""
    (project / SETTINGS).unlink()
    (project / "setup.py").write_text("from setuptools import setup\nsetup(name='ops')\n")
    result = flacheck.init(dry_run=True, target="h100")
    assert result.files[1].obstacle == "there is none, and the workflow needs no settings"
    assert " --triton '>=3.9.0' " in result.choices.gate()


def test_a_project_that_pins_a_package_is_judged_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published results answer: no kernels, no baseline, no scan."""
    monkeypatch.setattr(nearby, "read_card", lambda: None)
    (here / "requirements.txt").write_text("flash-linear-attention==0.6.0\ntorch==2.14.1\n")
    result = flacheck.init(target="a100")
    assert result.gate is not None
    assert [release.state for release in result.gate.versions] == [ReleaseState.SCREENED]
    assert workflow_commands() == ["flacheck gate --target sm80 --refresh --format github"]
    assert not BASELINE.exists()


def test_a_folder_without_kernels_and_pins_is_refused(here: Path) -> None:
    """An installed Triton is no project; nothing is written."""
    with pytest.raises(EmptySelection, match="no Triton kernels, and no file that pins"):
        flacheck.init()
    assert list(here.iterdir()) == []


def test_the_command_prints_files_and_answer(here: Path) -> None:
    """A dry run prints the blocks; the run says what it wrote and ends with the gate's answer."""
    (here / "requirements.txt").write_text("flash-linear-attention==0.6.0\ntorch==2.14.1\n")
    shown = run_command("init", "--dry-run", "-t", "a100", cwd=here)
    assert (shown.returncode, sorted(path.name for path in here.iterdir())) == (
        Exit.OK,
        ["requirements.txt"],
    )
    assert shown.stdout.startswith("# .github/workflows/flacheck.yml\nname: flacheck\n")
    done = run_command("init", "-t", "a100", cwd=here)
    assert done.returncode == Exit.OK
    assert done.stdout.startswith("Yes: ")
    assert [line for line in done.stderr.splitlines() if ": written" in line] == [
        "flacheck: .github/workflows/flacheck.yml: written",
        "flacheck: .pre-commit-config.yaml: written",
    ]
