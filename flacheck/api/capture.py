"""`flacheck.capture`: record a program's launches, with or without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import to_builtins

from flacheck.api.options.declaration import PathLike
from flacheck.errors import Exit
from flacheck.model import Json
from flacheck.subjects.captures import run


@dataclass(frozen=True)
class Capture:
    """A program's recorded launches.

    Attributes:
        file: The launches file.
        exit_code: The program's own exit code, 128 + N when signal N ended it, 125 when it could
            not be started, 4 when it succeeded and launched nothing.
        summary: The number of launches and kernels, in a sentence.
    """

    file: Path
    exit_code: int
    summary: str

    @property
    def was_started(self) -> bool:
        """True unless the program could not be started."""
        return self.exit_code != run.NOT_STARTED

    def to_json(self) -> Json:
        """Return file, exit code and summary."""
        plain: Json = to_builtins(self, enc_hook=str)
        return plain


def capture(
    command: Sequence[str], *, output: PathLike = Path("launches.jsonl"), device: str = "h100"
) -> Capture:
    """Run a command and record its launches into a launches file.

    Args:
        command: The program and its arguments. It inherits stdin, stdout and stderr.
        output: The launches file; launches are in it as they happen.
        device: The card to imitate (`h100`, `v100` …), or `real` for the card that is here.

    Raises:
        UsageError: If the command is empty, the card unknown, or the file cannot be written.
    """
    file = Path(output)
    code = run.capture(command, file, device)
    summary = ""
    if code != run.NOT_STARTED:
        summary = run.summary(file)
        if code == Exit.OK and not run.statistics(file)["coverage"]["launches"]:
            code = Exit.EMPTY
    return Capture(file, code, summary)
