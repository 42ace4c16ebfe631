"""What a maintainer will see: the script run by itself in fresh processes, and the failure from
Triton's own IR, where it needs no Python any more."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from flacheck.engine.judge import judge
from flacheck.model import Cell, Outcome
from flacheck.repro.compilers import Compilers
from flacheck.repro.oracle import SameFailure
from flacheck.repro.output.script import CANNOT_TELL
from flacheck.toolchains.base import Toolchain

# Seconds for one run of a script: a compile that takes longer is not waited for.
_LONGEST = 900
_LOCATION = re.compile(r"\s*loc\((?:[^()]|\([^()]*\))*\)")


def exit_status(script: str, toolchain: Toolchain) -> int:
    """A script's exit status under a release, run with nothing but that release to import from; 125
    also when it does not end."""
    with tempfile.TemporaryDirectory(
        prefix="flacheck-repro-", ignore_cleanup_errors=True
    ) as folder:
        file = Path(folder, "repro.py")
        file.write_text(script, encoding="utf-8")
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": folder,
            "TMPDIR": folder,
            # What was compiled before would not fail again.
            "TRITON_CACHE_DIR": f"{folder}/cache",
            "PYTHONPATH": ":".join(toolchain.paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            **toolchain.environment,
        }
        try:
            done = subprocess.run(
                [sys.executable, "-s", str(file)],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:
            return CANNOT_TELL
    return done.returncode


def surviving_ir(cell: Cell, failure: SameFailure, compilers: Compilers) -> str | None:
    """A specimen's TTIR when compiling that fails in the same way, else None."""
    if cell.stage != "compile":
        return None
    shown = compilers.ask(cell, op="show", until="ttir")
    if shown.outcome is not Outcome.FINISHED or not shown.facts.get("ttir"):
        return None
    text = without_locations(shown.facts["ttir"])
    attempt = compilers.ask(cell, op="compile_ir", ir=text, until=None)
    if failure.shows(judge(cell, attempt)):
        return text
    return None


def without_locations(text: str) -> str:
    """IR without the places of its source, which name files of the machine it was made on."""
    lines = [line for line in text.splitlines() if not line.startswith("#loc")]
    return "\n".join(_LOCATION.sub("", line) for line in lines).strip() + "\n"
