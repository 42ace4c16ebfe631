"""Completion in a real shell: the script that `--show-completion` prints, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.model import Question
from flacheck.store import Store

# Calls the function that bash calls at a press of Tab, for a command line with an unfinished word.
SCRIPT = """
source <(flacheck --show-completion)
press_tab() {
    COMP_WORDS=(flacheck "$@"); COMP_CWORD=$#; COMPREPLY=()
    COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
    "$(complete -p flacheck | sed 's/.*-F \\([^ ]*\\).*/\\1/')" flacheck "${!#}" ""
    echo "${COMPREPLY[@]}"
}
press_tab scan --kernel retention.chunk_fwd
press_tab scan --target sm80,sm9
press_tab scan --triton 3.7.
press_tab scan --format js
press_tab report 2
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_kernels_targets_releases_and_runs(tmp_path: Path) -> None:
    """Completions come from the corpus, the tables and the store."""
    with Store.open(tmp_path / ".flacheck") as store:
        run = store.begin_run({"started": "2026-01-31T00:00:00"}, question=Question("matrix-1"))
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SHELL": "/bin/bash"}
    result = subprocess.run(
        ["bash", "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    kernels, targets, releases, formats, runs = result.stdout.splitlines()
    assert kernels.split() == ["retention.chunk_fwd_h", "retention.chunk_fwd_o"]
    assert targets.split() == ["sm80,sm90"]
    assert releases.split() == ["3.7.0", "3.7.1"]
    assert formats.split() == ["json", "jsonl"]
    assert runs.split() == [run]
