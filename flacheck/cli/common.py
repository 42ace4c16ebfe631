"""What commands share: what their options mean, errors as a message and an exit code, where output
goes."""

from __future__ import annotations

import contextlib
import functools
import logging
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from flacheck.analysis.standing import Standing
    from flacheck.baseline.form import Baseline
    from flacheck.inputs.expand import Selection
    from flacheck.inputs.subject import Subject
    from flacheck.reports.document import Report

from flacheck.cli.output import write as write
from flacheck.cli.termination import terminable
from flacheck.errors import Exit, FlacheckError, UsageError

Run = TypeVar("Run", bound=Callable[..., Any])


def say(*messages: str) -> None:
    """Talk goes to stderr, data to stdout."""
    # Without stderr `print` would take stdout; one that is full is no reason to end.
    if sys.stderr is None:
        return
    # Here, for most commands that end at once say nothing.
    from flacheck.model.text import visible

    with contextlib.suppress(OSError):
        for message in messages:
            print(f"flacheck: {visible(message)}", file=sys.stderr, flush=True)


class _Talk(logging.Handler):
    """Prints what the rooms below tell: progress as it comes, a warning only once."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._warnings: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            # Files are read again after a scan or a fix, and say the same again.
            if message in self._warnings:
                return
            self._warnings.add(message)
        say(message)


def show_log() -> None:
    """Print on stderr what flacheck's own modules log; what other libraries log is not ours."""
    logger = logging.getLogger("flacheck")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [_Talk()]


def as_typed() -> str:
    """This command as it was given."""
    return shlex.join(["flacheck", *sys.argv[1:]])


def interrupted() -> int:
    """Say how to go on after Ctrl-C; the exit code."""
    again = shlex.join(["flacheck", *(word for word in sys.argv[1:] if word != "--fresh")])
    say(f"interrupted; what is finished is stored. To go on: {again}")
    return Exit.INTERRUPTED


def _ended(work: Callable[[], int | None]) -> int | None:
    try:
        return work()
    except FlacheckError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        # Commands that store records catch it themselves and say how to go on.
        say(f"interrupted. To begin again: {as_typed()}")
        return Exit.INTERRUPTED


def command(function: Run) -> Run:
    """A command returns its exit code; what it raises on purpose becomes one message and a code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with terminable():
                code = _ended(lambda: function(*args, **kwargs))
        except KeyboardInterrupt:
            # Between the command's end and that of its signal handlers.
            code = Exit.INTERRUPTED
        raise typer.Exit(int(code or 0))

    return run  # type: ignore[return-value]


def split(values: Iterable[str]) -> tuple[str, ...]:
    """Repeatable or comma-separated, as the user likes."""
    parts = ",".join(values).split(",")
    return tuple(filter(None, map(str.strip, parts)))


def numbers(option: str, values: Iterable[str]) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in split(values))
    except ValueError:
        raise UsageError(f"{option} takes whole numbers, for example {option} 4,8") from None


def selection(
    kernel: list[str],
    target: list[str],
    dtype: list[str],
    warps: list[str],
    stages: list[str],
    toolchain: list[str],
    torch: Iterable[str] = (),
    op: Iterable[str] = (),
    define: Iterable[str] = (),
    options: Iterable[str] = (),
) -> Selection:
    """The selection flags that all commands share; UsageError for what is no dtype or number."""
    from flacheck.inputs.expand import Selection
    from flacheck.inputs.given_values import combinations

    # What is no NAME=VALUE is found before anything is planned.
    combinations("--define", tuple(define))
    combinations("--option", tuple(options))

    return Selection(
        kernels=split(kernel),
        ops=split(op),
        targets=split(target),
        dtypes=dtypes(dtype),
        num_warps=numbers("--num-warps", warps),
        num_stages=numbers("--num-stages", stages),
        toolchains=(*toolchain, *requirements(torch)),
        defines=tuple(define),
        options_given=tuple(options),
    )


def dtypes(values: Iterable[str]) -> tuple[str, ...]:
    """The dtypes by their own names: bf16 for bfloat16; UsageError for what is none."""
    from flacheck.errors import did_you_mean
    from flacheck.model.launch import DTYPES, find_dtype

    known = []
    for name in split(values):
        dtype = find_dtype(name)
        if dtype is None:
            hint = did_you_mean(name, DTYPES)
            raise UsageError(f"unknown dtype {name!r}: allowed are {', '.join(DTYPES)}{hint}")
        known.append(dtype)
    return tuple(dict.fromkeys(known))


def requirements(torch: Iterable[str]) -> tuple[str, ...]:
    """What `--torch` says, as specifications of toolchains: torch==2.9.* for 2.9."""
    from flacheck.toolchains import by_torch, split_specs

    return tuple(by_torch.named(part) for text in torch for part in split_specs(text))


def subject(
    context: typer.Context,
    matrix: str | None,
    package: str | None,
    trust: bool = False,
    configs: str | None = None,
) -> Subject:
    """What a command is about, by its options `matrix` and `package`. One of them on the command
    line comes before the other in a settings file; UsageError where both are typed."""
    from flacheck.inputs.subject import Subject

    if is_typed(context, "matrix") and is_typed(context, "package"):
        raise UsageError("a matrix and --package were given: name one of them")
    if is_typed(context, "matrix"):
        package = None
    return Subject(None if package else matrix, package, trust, configs)


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line: no settings file and no variable gave it."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def cells_of(
    context: typer.Context, cell: str | None, matrix: str | None, package: str | None, trust: bool
) -> str | Subject | None:
    """What names the cell of a command that is about one: CELL, or what --matrix or --package
    names; None for a search of the store."""
    named = [name for name, given in (("--matrix", matrix), ("--package", package)) if given]
    if not named:
        return cell
    if cell is not None:
        raise UsageError(f"CELL and {named[0]} were given: name one of them")
    return subject(context, matrix, package, trust)


def check_configs(configs: str | None) -> None:
    """UsageError for what `--configs` does not take."""
    if configs not in (None, "usual", "own"):
        raise UsageError(f"--configs {configs}: expected usual or own")


def seconds(timeout: str) -> float | None:
    """What `--timeout` says; None for auto."""
    if timeout == "auto":
        return None
    try:
        number = float(timeout)
    except ValueError:
        number = 0
    # Not `number <= 0`, which lets NaN pass.
    if not number > 0:
        raise UsageError(f"--timeout {timeout}: expected auto or a number of seconds")
    return number


def baseline(file: Path | None, write: Path | None) -> Baseline | None:
    """The baseline to go by; None without one, and where it is only about to be written."""
    from flacheck.baseline import form

    is_first = file is not None and file == write and not file.exists()
    if file is None or is_first:
        return None
    return form.read(file)


def update_baseline(
    file: Path, standings: Iterable[Standing], accepted: Iterable[str] = ()
) -> None:
    """Write what is known now into a baseline file, whose other questions, releases and GPUs
    stay."""
    from flacheck import __version__
    from flacheck.analysis.order import counted
    from flacheck.baseline import form
    from flacheck.baseline.standings import baseline_of, updated

    new = baseline_of(standings, __version__, accepted)
    if file.exists():
        new = updated(form.read(file), new)
    write([form.text_of(new)], file)
    places = {place.place for question in new.questions for place in question.places}
    pairs = counted(len(places), "pair of release and GPU", "pairs of release and GPU")
    say(f"{file}: holds {pairs} and {counted(len(new.failures), 'known failure')}")


def show(format: str, report: Report, file: Path | None = None) -> None:
    """Render a report; colours are for a terminal, never for a file."""
    from flacheck.reports import render
    from flacheck.reports.document import Display

    display = Display()
    if file is None:
        display = Display.of_stdout()
    write(render(format, report, display), file)
