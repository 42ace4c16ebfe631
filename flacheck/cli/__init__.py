"""The command line: one thin file a command; the only place that prints, draws or exits.

It uses the API and the reports alone: whatever it does, a program can do too.
"""

import contextlib
import errno
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from flacheck import Exit, FlacheckError, __version__
from flacheck.cli import commands, loudness
from flacheck.cli.commands import CommandPlace
from flacheck.cli.pages import ASK, KEEP, MACHINE, TRACE
from flacheck.reports.display import forgive_encodings

# A command's module is imported when the command runs, or its own page is printed.
_COMMANDS = {
    "check": CommandPlace(ASK, "Check torch, Triton, driver and packages that are installed here."),
    "scan": CommandPlace(ASK, "Compile kernels under releases, GPUs and dtypes; name failures."),
    "diff": CommandPlace(ASK, "Compare two releases of torch or Triton: can I upgrade?"),
    "gate": CommandPlace(ASK, "Judge the releases that your pins of torch and triton allow."),
    "known": CommandPlace(
        ASK, "Show published results: failing kernels, good pairs and pins.", "known_results"
    ),
    "init": CommandPlace(ASK, "Write a CI workflow, settings, hook and baseline for this project."),
    "explain": CommandPlace(TRACE, "Name the failure in a log: cause, versions, remedy, links."),
    "bisect": CommandPlace(TRACE, "Find the release that changes a cell's result."),
    "repro": CommandPlace(TRACE, "Reduce a failure to a script that imports only Triton."),
    "autotune": CommandPlace(
        TRACE, "Show how autotuners treat a kernel's configurations and keys."
    ),
    "bench": CommandPlace(
        TRACE, "Time an operator's forms against each other on this machine's GPU."
    ),
    "measure": CommandPlace(TRACE, "Measure what releases make slower or wrong on a GPU."),
    "dtypes": CommandPlace(TRACE, "Find the line that breaks a kernel's dtypes under autocast."),
    "capture": CommandPlace(
        TRACE,
        "Record a program's launches, with or without a GPU.",
        settings={"ignore_unknown_options": True},
    ),
    "report": CommandPlace(KEEP, "Render stored runs; several become one report."),
    "schema": CommandPlace(KEEP, "Print the JSON Schema of an output.", "lists"),
    "list": CommandPlace(
        MACHINE, "List kernels, matrices, targets, rules or advisories.", "lists", "show"
    ),
    "doctor": CommandPlace(MACHINE, "Check this machine; print a remedy for each failed check."),
    "help": CommandPlace(MACHINE, "Explain a topic or a command.", function="help_"),
    "runs": CommandPlace(KEEP, "List or remove stored runs.", function="app"),
    "results": CommandPlace(KEEP, "Make, check and fetch published results.", function="app"),
    "toolchain": CommandPlace(
        MACHINE, "List, install or remove compilers, each isolated.", function="app"
    ),
    "cache": CommandPlace(
        MACHINE, "Show or remove what flacheck installed and captured.", function="app"
    ),
}
app = commands.group(
    "Know what a Triton upgrade will break, for every GPU, without a GPU.",
    cls=commands.late_group(_COMMANDS),
    name="flacheck",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


# Errors of a disk that is full, wherever they come up.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER = (
    "the current directory was removed; change to one that exists and give the command again"
)
_VERSION = "Show the version and exit."
_HELPS = {"-h", "--help", "-V", "--version"}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flacheck {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", "-V", callback=_print_version, is_eager=True, help=_VERSION
    ),
) -> None:
    pass


def _has_folder() -> bool:
    """Return False where the current directory was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected exception as a fault of flacheck, with all that a bug report needs."""
    with contextlib.suppress(AttributeError, OSError):
        sys.stdout.flush()
    if isinstance(error, KeyboardInterrupt):
        os._exit(Exit.INTERRUPTED)
    if isinstance(error, OSError) and not _has_folder():
        loudness.say(_NO_FOLDER)
        os._exit(Exit.USAGE)
    if isinstance(error, OSError) and error.errno in _FULL:
        loudness.say(f"{error.strerror}: {error.filename or 'stdout'}; free some and try again")
        os._exit(Exit.USAGE)
    traceback.print_exception(kind, error, trace)
    loudness.say(f"a fault in flacheck {__version__} itself; please report it with the lines above")
    # sys.exit does nothing here: the interpreter ends with 1 after an excepthook.
    os._exit(Exit.FAULT)


def main() -> None:
    sys.excepthook = _fault
    forgive_encodings()
    loudness.show_log()
    command = typer.main.get_command(app)
    of_commands = {}
    # These read nothing that a default could change.
    if sys.argv[1:2] not in [[], *([each] for each in _HELPS)]:
        of_commands = _defaults(command)
    # Not app(): that puts Typer's own excepthook in place of ours.
    command(prog_name="flacheck", default_map=of_commands)


def _defaults(command: Any) -> dict[str, Any]:
    """Return the defaults that variables and settings give to each command's options."""
    # Imported here: the page of all commands starts faster.
    from flacheck.cli import defaults

    helps = bool(_HELPS & set(sys.argv[1:]))
    if not _has_folder():
        if helps:
            return {}
        loudness.say(_NO_FOLDER)
        raise SystemExit(Exit.USAGE)
    try:
        return defaults.of(command, Path.cwd(), os.environ)
    except FlacheckError as error:
        # Help is what mends settings.
        if helps:
            return {}
        loudness.say(str(error))
        raise SystemExit(error.exit_code) from None
