"""What a maintainer will see: a script run by a plain interpreter, and IR compiled by itself."""

import os
import re
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.oracle import SameFailure
from flacheck.capabilities.repro.output.script import CANNOT_TELL
from flacheck.engine import policies, programs
from flacheck.engine.judge import judge
from flacheck.model import Cell, Outcome
from flacheck.toolchains.base import Toolchain
from flacheck.toolchains.scratch import temporary_folder

# Seconds for one run of a script: a compile that takes longer is not waited for.
LONGEST_RUN = 900.0
# What such a run may hold, with all that it starts.
_MEMORY_MB = 8192
# Seconds that a run is given whatever the clock says.
_SHORTEST_RUN = 1.0
_LOCATION = re.compile(r"\s*loc\((?:[^()]|\([^()]*\))*\)")


@dataclass(frozen=True)
class ScriptRun:
    """The exit status of a script, and all that it printed; `ended` is False where it was not
    waited for any longer."""

    status: int
    output: str = ""
    has_ended: bool = True


@contextmanager
def plain_python(toolchain: Toolchain) -> Iterator[Path]:
    """An environment with this release and nothing else, as its users make one; the folder of it.
    Neither flacheck's packages nor the user's can be imported there."""
    with temporary_folder() as folder:
        there = Path(folder)
        venv.EnvBuilder(symlinks=True).create(there / "python")
        [packages] = (there / "python").glob("lib/python*/site-packages")
        (packages / "release.pth").write_text("".join(f"{path}\n" for path in toolchain.paths))
        yield there


def run_script(
    script: str, toolchain: Toolchain, seconds: float = LONGEST_RUN, times: int = 1
) -> list[ScriptRun]:
    """What a script does under one release alone, so many times, each in a fresh process; 125 also
    when it does not end. All runs together take no longer than `seconds`."""
    end = time.monotonic() + seconds
    with plain_python(toolchain) as folder:
        file = folder / "repro.py"
        file.write_text(script, encoding="utf-8")
        runs: list[ScriptRun] = []
        while len(runs) < times and (not runs or time.monotonic() < end):
            runs.append(_run(folder, file, toolchain, end - time.monotonic()))
        return runs


def _run(folder: Path, file: Path, toolchain: Toolchain, seconds: float) -> ScriptRun:
    more = {
        # What was compiled before would not fail again.
        "TRITON_CACHE_DIR": str(folder / f"cache-{os.urandom(4).hex()}"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **toolchain.environment,
    }
    # Elsewhere, for the folder holds the script and nothing that a maintainer would not have.
    with temporary_folder() as aside:
        log = Path(aside, "log")
        ended = programs.run(
            [str(file)],
            programs.environment(folder, more),
            folder,
            log,
            seconds=max(_SHORTEST_RUN, min(seconds, LONGEST_RUN)),
            memory_mb=_MEMORY_MB,
            policy=policies.of_script(toolchain.paths, str(folder)),
            python=str(folder / "python/bin/python"),
        )
        said = log.read_text(encoding="utf-8", errors="replace")
    if ended.over:
        return ScriptRun(CANNOT_TELL, has_ended=False)
    exit_code = CANNOT_TELL if ended.exit_code is None else ended.exit_code
    return ScriptRun(exit_code, said.replace(f"{folder}/", ""))


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
