"""The command line: one thin file a command; the only place that prints, draws or exits."""

import contextlib
import errno
import os
import sys
import traceback
from pathlib import Path
from types import TracebackType

import typer

from flacheck import Exit, FlacheckError, __version__
from flacheck.cli import (
    autotune,
    bench,
    bisect,
    cache,
    capture,
    commands,
    common,
    defaults,
    diff,
    doctor,
    dtypes,
    explain,
    flags,
    gate,
    help,
    known_results,
    lists,
    pages,
    report,
    repro,
    results,
    runs,
    scan,
    toolchain,
)
from flacheck.reports import output

app = commands.group(
    "Know what a Triton upgrade will break, for every GPU, without a GPU.",
    name="flacheck",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
commands.add(app, "scan", scan.scan, pages.ASK)
commands.add(app, "diff", diff.diff, pages.ASK)
commands.add(app, "gate", gate.gate, pages.ASK)
commands.add(app, "known", known_results.known, pages.ASK)
commands.add(app, "explain", explain.explain, pages.TRACE)
commands.add(app, "bisect", bisect.bisect, pages.TRACE)
commands.add(app, "repro", repro.repro, pages.TRACE)
commands.add(app, "autotune", autotune.autotune, pages.TRACE)
commands.add(app, "bench", bench.bench, pages.TRACE)
commands.add(app, "dtypes", dtypes.dtypes, pages.TRACE)
commands.add(app, "capture", capture.capture, pages.TRACE, ignore_unknown_options=True)
commands.add(app, "report", report.report, pages.KEEP)
app.add_typer(runs.app, name="runs", rich_help_panel=pages.KEEP)
commands.add(app, "schema", lists.schema, pages.KEEP)
commands.add(app, "list", lists.show, pages.MACHINE)
app.add_typer(results.app, name="results", rich_help_panel=pages.KEEP)
app.add_typer(toolchain.app, name="toolchain", rich_help_panel=pages.MACHINE)
app.add_typer(cache.app, name="cache", rich_help_panel=pages.MACHINE)
commands.add(app, "doctor", doctor.doctor, pages.MACHINE)
commands.add(app, "help", help.help_, pages.MACHINE)


# Errors of a disk that is full, wherever they come up.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER = (
    "the current directory was removed; change to one that exists and give the command again"
)
_VERSION = "Show the version and exit."


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flacheck {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = flags.option(
        False, "--version", "-V", panel=None, callback=_print_version, is_eager=True, help=_VERSION
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
        common.say(_NO_FOLDER)
        os._exit(Exit.USAGE)
    if isinstance(error, OSError) and error.errno in _FULL:
        common.say(f"{error.strerror}: {error.filename or 'stdout'}; free some and try again")
        os._exit(Exit.USAGE)
    traceback.print_exception(kind, error, trace)
    common.say(f"a fault in flacheck {__version__} itself; please report it with the lines above")
    # sys.exit does nothing here: the interpreter ends with 1 after an excepthook.
    os._exit(Exit.FAULT)


def main() -> None:
    sys.excepthook = _fault
    output.forgive_encodings()
    common.show_log()
    command = typer.main.get_command(app)
    helps = bool({"-h", "--help", "-V", "--version"} & set(sys.argv[1:]))
    if not _has_folder() and not helps:
        common.say(_NO_FOLDER)
        raise SystemExit(Exit.USAGE)
    of_commands = {}
    try:
        if _has_folder():
            of_commands = defaults.of(command, Path.cwd(), os.environ)
    except FlacheckError as error:
        # Help is what mends settings.
        if not helps:
            common.say(str(error))
            raise SystemExit(error.exit_code) from None
    # Not app(): that puts Typer's own excepthook in place of ours.
    command(prog_name="flacheck", default_map=of_commands)
