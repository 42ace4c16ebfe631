"""Workflows: a release that is not prepared is refused; those of docs/adoption call flacheck rightly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flacheck.capabilities.results.building import write_manifest
from flacheck.version import __version__
from tests.command_lines import parse, words_of
from tests.evidence.published.test_published import folder as folder
from tests.paths import ROOT

ADOPTIONS = sorted((ROOT / "docs" / "adoption").glob("*/*.yml"))
RELEASED_FILES = (".ci/releasable", "flacheck/version.py", "pyproject.toml")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return what the check of a release reads, in the state of a release."""
    for name in RELEASED_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__}\n")
    project = tmp_path / "pyproject.toml"
    text = project.read_text().replace("OWNER", "an-owner").replace("REPOSITORY", "flacheck")
    project.write_text(text)
    return tmp_path


def refusal(tree: Path, tag: str) -> str | None:
    """Run the check of a release; return its message, or None if it passes."""
    command = [sys.executable, str(tree / ".ci/releasable"), tag]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode in (0, 1)
    assert (outcome.returncode == 1) == bool(outcome.stderr)
    return outcome.stderr or None


def test_the_release_workflow_checks_before_it_builds() -> None:
    """Its first own step runs the check, and publishing needs that job."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    lines = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "run" in step]
    check, build = 'python .ci/releasable "$GITHUB_REF_NAME"', "python -m build"
    assert lines.index(check) < lines.index(build)
    assert workflow["jobs"]["publish"]["needs"] == "build"


def test_a_prepared_release_passes(tree: Path) -> None:
    """Authors and addresses are set, and the tag is the version."""
    assert refusal(tree, f"v{__version__}") is None


@pytest.mark.parametrize(
    "value, placeholder", [("an-owner", "OWNER"), ("/flacheck", "/REPOSITORY")]
)
def test_a_placeholder_is_refused(tree: Path, value: str, placeholder: str) -> None:
    """The message has the line of an author or address that is not set."""
    project = tree / "pyproject.toml"
    text = project.read_text()
    assert value in text
    project.write_text(text.replace(value, placeholder, 1))
    line = text[: text.index(value)].count("\n") + 1
    message = f"pyproject.toml:{line}: replace {placeholder.strip('/')}\n"
    assert refusal(tree, f"v{__version__}") == message


def test_the_message_of_this_tree_is_clear() -> None:
    """The project's own file has placeholders until somebody releases it."""
    if "OWNER" not in (ROOT / "pyproject.toml").read_text():
        pytest.skip("authors and addresses are set")
    assert "replace OWNER" in str(refusal(ROOT, f"v{__version__}"))


def test_another_tag_is_refused(tree: Path) -> None:
    """The message has both versions."""
    assert refusal(tree, "v9.9.9") == (
        f"the tag is v9.9.9, flacheck/version.py has {__version__}: the tag must be v{__version__}\n"
    )


def test_unreleased_entries_are_refused(tree: Path) -> None:
    """The changelog's first heading is the release."""
    changelog = tree / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n" + changelog.read_text())
    message = refusal(tree, f"v{__version__}")
    assert message == f"CHANGELOG.md begins with Unreleased: it must begin with {__version__}\n"


def _commands(job: Any) -> Iterator[str]:
    """Yield the lines of a job that call flacheck, with each value of its matrix."""
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    for line in lines:
        if not line.startswith("flacheck "):
            continue
        names = re.findall(r"\$\{\{ matrix\.(\w+) \}\}", line)
        if not names:
            yield line
        for name in names:
            for value in job["strategy"]["matrix"][name]:
                yield line.replace(f"${{{{ matrix.{name} }}}}", value)


@pytest.mark.parametrize("file", ADOPTIONS, ids=lambda file: file.parent.name)
def test_adopted_workflows_call_flacheck_rightly(file: Path) -> None:
    """Each command parses, with each value of the matrix, and this release is installed."""
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    commands = [line for job in jobs for line in _commands(job)]
    assert len(commands) > 2
    assert {line: parse(words_of(line)) for line in commands} == dict.fromkeys(commands)
    text = file.read_text()
    versions = re.findall(r"flacheck(?:\[torch\])?==([\d.]+)", text)
    assert set(versions) == {__version__}
    # Others' code is named by its commit.
    assert re.findall(r"uses: \S+@(?![0-9a-f]{40} )\S+", text) == []


def test_two_projects_can_adopt_flacheck() -> None:
    """Each folder has the text of a pull request beside its workflow."""
    assert [file.parent.name for file in ADOPTIONS] == ["fla", "triton"]
    assert all((file.parent / "index.md").is_file() for file in ADOPTIONS)


def test_a_change_of_published_results_is_told_in_words(folder: Path, tmp_path: Path) -> None:
    """A new release is beside the one before; a file without a predecessor has its count."""
    empty, before = tmp_path / "empty", tmp_path / "before"
    for part in (empty, before):
        part.mkdir()
    shutil.copytree(next(folder.glob("*/*3.2.0*")).parent, before / "flash-linear-attention-0.1.1")
    next(before.glob("*/*3.4.0*")).unlink()
    for part in (empty, before):
        write_manifest(part)

    def words(old: Path) -> list[str]:
        command = [sys.executable, str(ROOT / ".ci/results-words"), str(old), str(folder)]
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()

    name = "flash-linear-attention 0.1.1 `usual` under Triton"
    mended = (
        f"- New: {name} 3.4.0 on sm90: none of 1 kernels fails, 1 cells; beside Triton 3.2.0, "
        "it mends 1: chunk_gated_delta_rule_fwd_kernel_h."
    )
    assert words(before) == [mended]
    assert words(empty) == [f"- New: {name} 3.2.0 on sm90: 1 of 1 kernels fails, 2 cells.", mended]
    assert words(folder) == ["No file changed."]
