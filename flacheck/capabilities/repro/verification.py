"""Verification as a maintainer does it: a script in a plain interpreter, and IR by itself."""

import os
import re
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.oracle import SameFailure
from flacheck.capabilities.repro.output.script import CANNOT_TELL
from flacheck.engine import policies, programs
from flacheck.engine.card import PASSED_ON
from flacheck.engine.judge import judge
from flacheck.files import GuestFolder
from flacheck.guest.engine.confinement import Policy
from flacheck.model import Cell, Outcome
from flacheck.toolchains.base import Toolchain
from flacheck.toolchains.scratch import temporary_folder

# The timeout in seconds for one run of a script.
LONGEST_RUN = 900.0
# The memory limit of a run with its child processes.
_MEMORY_MB = 8192
# The least timeout in seconds, even if the budget has less.
_SHORTEST_RUN = 1.0
# The end of a run's output, which holds the failure; a compiler may dump megabytes before.
_LOG, _MOST_OUTPUT = "log", 16 << 20
_LOCATION = re.compile(r"\s*loc\((?:[^()]|\([^()]*\))*\)")


@dataclass(frozen=True)
class ScriptRun:
    """The exit status and output of a script; `has_ended` is False after a timeout.

    `signal` is the name of the signal that ended it; the status is 125 then.
    """

    status: int
    output: str = ""
    has_ended: bool = True
    signal: str | None = None


@contextmanager
def plain_python(toolchain: Toolchain) -> Iterator[Path]:
    """Yield the folder of a virtual environment that holds only this release.

    Neither flacheck's packages nor the user's can be imported there.
    """
    with temporary_folder() as folder:
        there = Path(folder)
        venv.EnvBuilder(symlinks=True).create(there / "python")
        [packages] = (there / "python").glob("lib/python*/site-packages")
        lines = [f"{path}\n" for path in toolchain.paths]
        GuestFolder(packages).write_new("release.pth", "".join(lines))
        yield there


def run_script(
    script: str,
    toolchain: Toolchain,
    seconds: float = LONGEST_RUN,
    times: int = 1,
    torch: str | None = None,
) -> list[ScriptRun]:
    """Run a script several times under one release alone, each in a fresh process.

    The status is 125 also after a timeout. All runs together take at most `seconds`. A script that
    uses the GPU gets the `torch` in a folder as well.
    """
    end = time.monotonic() + seconds
    if torch is not None:
        variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment = {**toolchain.environment, **variables}
        paths = (*toolchain.paths, torch)
        toolchain = replace(toolchain, paths=paths, environment=environment)
    with plain_python(toolchain) as folder:
        file = GuestFolder(folder).write_new("repro.py", script)
        runs: list[ScriptRun] = []
        while len(runs) < times and (not runs or time.monotonic() < end):
            # The GPU's driver needs devices and files that are not documented.
            policy = policies.OWN if torch else policies.of_script(toolchain.paths, str(folder))
            runs.append(_run(folder, file, toolchain, end - time.monotonic(), policy))
        return runs


def _run(
    folder: Path, file: Path, toolchain: Toolchain, seconds: float, policy: Policy
) -> ScriptRun:
    more = {
        # Otherwise a result in the cache would hide the failure.
        "TRITON_CACHE_DIR": str(folder / f"cache-{os.urandom(4).hex()}"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **toolchain.environment,
    }
    # The log is elsewhere, because the folder holds only the files that a maintainer has.
    with temporary_folder() as aside:
        log = Path(aside) / _LOG
        run = programs.run(
            [str(file)],
            programs.environment(folder, more),
            folder,
            log,
            seconds=max(_SHORTEST_RUN, min(seconds, LONGEST_RUN)),
            memory_mb=_MEMORY_MB,
            policy=policy,
            python=str(folder / "python/bin/python"),
        )
        output = GuestFolder(log.parent).read_end(_LOG, _MOST_OUTPUT)
    if run.over:
        return ScriptRun(CANNOT_TELL, has_ended=False)
    exit_code = CANNOT_TELL if run.exit_code is None else run.exit_code
    return ScriptRun(exit_code, output.replace(f"{folder}/", ""), signal=run.signal)


def surviving_ir(cell: Cell, failure: SameFailure, compilers: Compilers) -> str | None:
    """Return a specimen's TTIR if its compile fails in the same way, else None."""
    if cell.stage != "compile":
        return None
    attempt = compilers.ask(cell, op="show", until="ttir")
    if attempt.outcome is not Outcome.FINISHED or not attempt.facts.get("ttir"):
        return None
    text = without_locations(attempt.facts["ttir"])
    attempt = compilers.ask(cell, op="compile_ir", ir=text, until=None)
    if failure.shows(judge(cell, attempt)):
        return text
    return None


def without_locations(text: str) -> str:
    """Return IR without source locations, which contain paths of this machine."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#loc"):
            lines.append(_LOCATION.sub("", line))
    return "\n".join(lines).strip() + "\n"
