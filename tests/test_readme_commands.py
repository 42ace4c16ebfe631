"""CI runs the README's commands word for word, and the README's install lines are true."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import cast

import pytest
import tomlkit

from flacheck.errors import INSTALL_TORCH, IncompleteError
from flacheck.subjects.captures import capture_job

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    """The script reads them from README.md, in whose first section they stand alone in a block."""
    outcome = subprocess.run(
        ["bash", ".ci/run", "--commands"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    section = README.partition("## Install and run\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(pip install [^\n]+ && [^\n]+)\n```$", section, re.MULTILINE)
    assert outcome.stdout.splitlines() == blocks
    assert blocks == [
        "pip install . && flacheck scan",
        "pip install -e '.[test]' && python -m pytest",
    ]


def test_torch_is_installed_by_the_same_command_everywhere() -> None:
    """The README, the error without torch and the extra name one release."""
    extras = tomlkit.parse((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (requirement, *_) = extras["torch"]
    command, _, cpu_build = INSTALL_TORCH.partition(" (")
    assert command == f"pip install {requirement}"
    assert f"\n{command} " in README
    address = "https://download.pytorch.org/whl/cpu"
    assert address in cpu_build
    assert address in README


def test_a_capture_without_torch_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is installed or run before; captures in the cache need no torch."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(capture_job, "capture_folder", lambda job: tmp_path / "not-captured")
    capture_job.prepare_captures([])
    job = cast(capture_job.CaptureJob, object())
    with pytest.raises(IncompleteError, match=re.escape(INSTALL_TORCH)):
        capture_job.prepare_captures([job])
