"""Exit codes and the common base of every error that flacheck raises on purpose."""

import difflib
from collections.abc import Iterable
from enum import IntEnum

# The command that installs the torch of flacheck's extra `torch`; a test compares the two.
INSTALL_TORCH = (
    "pip install torch==2.13.0 (the CPU build is enough: add "
    "--index-url https://download.pytorch.org/whl/cpu)"
)


class Exit(IntEnum):
    """The public exit codes; the command line returns nothing else."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    INCOMPLETE = 3
    EMPTY = 4
    FAULT = 70
    INTERRUPTED = 130


def unsupported_system(system: str) -> str | None:
    """Return why flacheck cannot work on a system by its `sys.platform`; None on Linux."""
    names = {"win32": "Windows", "cygwin": "Windows", "darwin": "macOS"}
    if system.startswith("linux"):
        return None
    ways = {"win32": "in WSL 2 or in a Linux container", "darwin": "in a Linux container or VM"}
    name = names.get(system, system)
    return (
        f"flacheck runs on Linux: Triton's wheels are for Linux only. On {name}"
        f" use it {ways.get(system, 'in a Linux container')}, for example `docker run -it -v"
        " .:/work -w /work python:3.12 bash`, then `pip install flacheck`"
    )


def did_you_mean(word: str, names: Iterable[str], among: int = 1) -> str:
    """Return the end of a message about an unknown name: `; did you mean sm90?`.

    It has at most `among` names and is empty if no name is similar.
    """
    matches = difflib.get_close_matches(word, list(names), among)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


class FlacheckError(Exception):
    """An error with a message for the user: the problem, its place and the remedy."""

    exit_code: Exit = Exit.USAGE


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a cancelled CI job gets it: a command ends as it does at Ctrl-C."""


class Interrupted(KeyboardInterrupt):
    """An interrupt with a message about files left behind."""


class UsageError(FlacheckError):
    """The input cannot be used: an unknown name, a malformed file, an impossible combination."""


class IncompleteError(FlacheckError):
    """A valid question that the machine or the network could not answer."""

    exit_code = Exit.INCOMPLETE


class EmptySelection(FlacheckError):
    """A selection that leaves no cell."""

    exit_code = Exit.EMPTY


class MatrixError(UsageError):
    """A malformed matrix or launches file."""

    def __init__(self, file: str, line: int | None, what: str, allowed: str = "") -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {what}" + (f"; {allowed}" if allowed else ""))


class StoreError(UsageError):
    """A store that cannot be read or written."""


class ToolchainError(IncompleteError):
    """A compiler or package that could not be provided."""
