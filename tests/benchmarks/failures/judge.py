"""Whether a reduction is the original's bug, found without any code of flacheck's: both scripts are
run by a plain interpreter under every release, and what the compiler says is compared."""

from __future__ import annotations

import re
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Seconds for one compile.
_LONGEST = 300
# The front end refuses the source before a compiler's pass sees it.
_FRONT_END = re.compile(r"CompilationError|NotImplementedError: Block pointers|has no attribute")
_DECISIVE = re.compile(
    r"Assertion .*failed|LLVM ERROR|Unsupported conversion|\berror\b *:|out of resource|"
    r"^(?:\w+\.)*\w*(?:Error|Failure|Resources)\b"
)
_WRAPPERS = re.compile(r"PassManager::run failed|Failures have been detected|Ptx assembly aborted")
_NOISE = re.compile(
    r"0x[0-9a-f]+|%\w+|\S*/\S+|\bline \d+|:\d+(?=[:,\s]|$)|loc\(.*?\)|\d+|['\"`]|\s+"
)


def judged(folder: Path, releases: Sequence[Path]) -> dict[str, Any]:
    """What both scripts do under each release, and where they differ. Releases whose front end
    refuses the original say nothing of the failure."""
    rows = {}
    for release in releases:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            venv.EnvBuilder(symlinks=True).create(Path(place, "v"))
            [packages] = Path(place, "v").glob("lib/python*/site-packages")
            (packages / "release.pth").write_text(f"{release}\n")
            outcomes = [
                _outcome(folder / name, Path(place)) for name in ("original.py", "repro.py")
            ]
        rows[release.name.split("-")[1]] = outcomes
    own = _own(folder)
    front = rows.get(own, ["", ""])[0].startswith("front end")
    differing = [
        name
        for name, (original, reduced) in rows.items()
        if original != reduced and (name == own or front or not original.startswith("front end"))
    ]
    return {"kept": not differing, "differing": differing, "releases": rows}


def _own(folder: Path) -> str:
    """The release on which the case fails, as the issue names it."""
    match = re.search(r'"toolchain": "triton==([\d.]+)"', (folder / "repro.json").read_text())
    return match[1] if match else ""


def _outcome(script: Path, place: Path) -> str:
    """`compiles`, or what the compiler said without what differs from run to run."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "TRITON_CACHE_DIR": str(place / "cache"),
        "TRITON_ALWAYS_COMPILE": "1",
    }
    command = [place / "v/bin/python", script, "--compile"]
    try:
        done = subprocess.run(
            command, env=environment, cwd=place, capture_output=True, text=True, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    said = done.stdout + done.stderr
    lines = [line.strip() for line in said.splitlines() if _DECISIVE.search(line.strip())]
    causes = [line for line in lines if not _WRAPPERS.search(line)] or lines
    if done.returncode == 0 and not causes:
        return "compiles"
    cause = causes[0] if causes else f"status {done.returncode}"
    text = _NOISE.sub(" ", re.sub(r"^.*?(?=Assertion)", "", cause)).strip()
    text = re.sub(r"\s+", " ", text)
    if _FRONT_END.search(said):
        return f"front end: {text}"
    return text
