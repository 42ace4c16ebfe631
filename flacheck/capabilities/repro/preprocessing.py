"""A CUDA C++ unit that fails, as far as it can be shown today: its preprocessed text with the
command that compiles it. C++ is not reduced yet."""

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
    """The files that show the unit's failure, by name. Raises NotReproduced where the unit does not
    get through the preprocessor."""
    attempt = compilers.ask(cell, op="preprocess", until=None)
    facts = attempt.facts
    if not facts.get("text"):
        said = attempt.log.strip().rpartition("\n")[2] or attempt.outcome.value
        raise NotReproduced(f"{cell.kernel.name} cannot be preprocessed for its GPU: {said}")
    what = f"{cell.kernel.name} on {cell.target} under {cell.toolchain}"
    commands = "\n".join(f"{command} || exit 0" for command in facts["commands"])
    return {facts["name"]: facts["text"], "repro.sh": _SCRIPT.format(what=what, commands=commands)}


def write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files; the paths of all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    (folder / "repro.sh").chmod(0o755)
    return written
