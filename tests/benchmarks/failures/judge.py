"""A judge of reductions without any code of flacheck's: both scripts are run by a plain interpreter
under every release, and the compiler's outputs are compared."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


@contextmanager
def environments(releases: Sequence[Path]) -> Iterator[dict[str, Path]]:
    """Return, for each release by version, the interpreter of an environment with only this
    release.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        pythons = {}
        for release in releases:
            version = release.name.split("-")[1]
            venv.EnvBuilder(symlinks=True).create(Path(place, version))
            [packages] = Path(place, version).glob("lib/python*/site-packages")
            (packages / "release.pth").write_text(f"{release}\n")
            pythons[version] = Path(place, version, "bin/python")
        yield pythons


def judge(folder: Path, pythons: Mapping[str, Path], jobs: int = 2) -> dict[str, Any]:
    """Return the outcomes of both scripts under each release, where they differ, and which of the
    differences the reduction's files state. Releases whose front end refuses the original do not
    count. `exit` is the status of the reduction where it fails, as its readers run it."""
    about = json.loads((folder / "repro.json").read_text())
    own = about["toolchain"].partition("==")[2]
    versions = [entry["toolchain"].partition("==")[2] for entry in about["versions"]]
    rows: dict[str, list[str]] = {}
    with ThreadPoolExecutor(jobs) as threads:
        runs = {}
        for version in filter(pythons.__contains__, versions):
            scripts = [folder / name for name in ("original.py", "repro.py")]
            runs[version] = [threads.submit(_outcome, one, pythons[version]) for one in scripts]
        run = threads.submit(_run, folder / "repro.py", pythons[own])
        for version, outcomes in runs.items():
            rows[version] = [outcome.result() for outcome in outcomes]
    front = rows.get(own, ["", ""])[0].startswith("front end")
    differing = [
        name
        for name, (original, reduction) in rows.items()
        if original != reduction and (name == own or front or not original.startswith("front end"))
    ]
    differences = [
        entry["toolchain"].partition("==")[2]
        for entry in about["versions"]
        if entry["original"] != entry["reduced"]
    ]
    unsaid = [name for name in differing if name not in differences]
    status = run.result()
    exit_code = status.returncode if status else None
    result = {"kept": not differing, "differing": differing, "unsaid": unsaid, "exit": exit_code}
    return {**result, "releases": rows}


def _run(script: Path, python: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """A script in an empty folder and an empty environment; None when it does not end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": place,
            "TRITON_CACHE_DIR": f"{place}/cache",
            "TRITON_ALWAYS_COMPILE": "1",
        }
        command = [str(python), str(script), *words]
        try:
            return subprocess.run(
                command,
                env=environment,
                cwd=place,
                capture_output=True,
                text=True,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:
            return None


def _outcome(script: Path, python: Path) -> str:
    """Return `compiles`, or the compiler's output without the parts that differ from run to run."""
    result = _run(script, python, "--compile")
    if result is None:
        return "it did not end"
    output = result.stdout + result.stderr
    lines = [line.strip() for line in output.splitlines() if _DECISIVE.search(line.strip())]
    causes = [line for line in lines if not _WRAPPERS.search(line)] or lines
    if result.returncode == 0 and not causes:
        return "compiles"
    cause = causes[0] if causes else f"status {result.returncode}"
    text = _NOISE.sub(" ", re.sub(r"^.*?(?=Assertion)", "", cause)).strip()
    text = re.sub(r"\s+", " ", text)
    if _FRONT_END.search(output):
        return f"front end: {text}"
    return text
