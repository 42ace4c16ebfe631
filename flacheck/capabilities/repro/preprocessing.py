"""A failing CUDA C++ unit as its preprocessed text with the command that compiles it.

C++ is not reduced yet.
"""

from collections.abc import Mapping
from pathlib import Path

from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.original import NotReproduced
from flacheck.model import Cell

_SCRIPT = """#!/bin/sh
# {what}
# Exits with 0 when the failure shows, with 1 when it does not, with 125 where there is no toolkit.
[ -x "$CUDA_HOME/bin/ptxas" ] || {{ echo "set CUDA_HOME to a CUDA toolkit" >&2; exit 125; }}
cd "$(dirname "$0")" || exit 125
{commands}
exit 1
"""


def texts(cell: Cell, compilers: Compilers) -> Mapping[str, str]:
    """Return the files that show the unit's failure, by name.

    Raises:
        NotReproduced: If the preprocessor fails.
    """
    attempt = compilers.ask(cell, op="preprocess", until=None)
    facts = attempt.facts
    if not facts.get("text"):
        message = attempt.log.strip().rpartition("\n")[2] or attempt.outcome.value
        raise NotReproduced(f"{cell.kernel.name} cannot be preprocessed for its GPU: {message}")
    what = f"{cell.kernel.name} on {cell.target} under {cell.toolchain}"
    commands = "\n".join(f"{command} || exit 0" for command in facts["commands"])
    return {facts["name"]: facts["text"], "repro.sh": _SCRIPT.format(what=what, commands=commands)}


def write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    (folder / "repro.sh").chmod(0o755)
    return paths
