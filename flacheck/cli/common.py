"""Parts that commands share: arguments, errors as a message and an exit code, output."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from flacheck import Exit, FlacheckError, UsageError
from flacheck.cli import flags, pages
from flacheck.cli.loudness import say as say
from flacheck.cli.loudness import show_log as show_log
from flacheck.cli.termination import terminable

if TYPE_CHECKING:
    from flacheck.reports.document import Report

Command = TypeVar("Command", bound=Callable[..., Any])
# The options of every command.
_OF_ALL: Mapping[str, Any] = {
    "offline": flags.Offline,
    "refresh": flags.Refresh,
    "quiet": flags.Quiet,
    "verbose": flags.Verbose,
}


def typed_command() -> str:
    """Return this command as it was typed."""
    return shlex.join(["flacheck", *sys.argv[1:]])


def resume_message() -> str:
    """Return how to go on after Ctrl-C, for commands that store records."""
    again = shlex.join(["flacheck", *(word for word in sys.argv[1:] if word != "--fresh")])
    return f"interrupted; what is finished is stored. To go on: {again}"


def _exit_code_of(work: Callable[[], int | None]) -> int | None:
    try:
        return work()
    except FlacheckError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt as error:
        message = str(error) or "interrupted"
        say(f"{message}. To begin again: {typed_command()}")
        return Exit.INTERRUPTED


def command(
    *, examples: Sequence[tuple[str, str]], exits: Mapping[int, str]
) -> Callable[[Command], Command]:
    """Return a decorator that turns a command's errors into one message and an exit code.

    It adds --offline, --refresh, --quiet and --verbose to the command's options.

    Args:
        examples: Pairs of a question or a task and the command line that answers it.
        exits: The meaning of the command's exit codes, beside those that every command has.
    """

    def decorate(function: Command) -> Command:
        run = _with_exit_code(function)
        signature = inspect.signature(function, eval_str=True)
        extra = []
        for name, annotation in _OF_ALL.items():
            # `flacheck gate` has a --refresh that does more.
            if name in signature.parameters:
                continue
            kind = inspect.Parameter.KEYWORD_ONLY
            extra.append(inspect.Parameter(name, kind, default=False, annotation=annotation))
        # Typer reads the options from the signature and from the annotations.
        parameters = [*signature.parameters.values(), *extra]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        selections = frozenset(filter(None, map(_selection, parameters)))
        pages.mark(run, pages.Page(tuple(examples), tuple(exits.items()), selections))
        return run  # type: ignore[return-value]

    return decorate


def _selection(parameter: inspect.Parameter) -> str | None:
    """Return the name of a parameter that a project's settings may hold; None for the others."""
    declarations = (parameter.default, *getattr(parameter.annotation, "__metadata__", ()))
    if any(getattr(each, "selects", False) for each in declarations):
        return parameter.name
    return None


def _with_exit_code(function: Callable[..., Any]) -> Callable[..., None]:
    own = inspect.signature(function).parameters.keys()

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        # The command's class has applied them.
        for name in _OF_ALL.keys() - own:
            kwargs.pop(name, None)
        try:
            with terminable():
                code = _exit_code_of(lambda: function(*args, **kwargs))
        except KeyboardInterrupt:
            # Between the command's end and that of its signal handlers.
            code = Exit.INTERRUPTED
        raise typer.Exit(int(code or 0))

    return run


def arguments(context: typer.Context, function: Callable[..., Any], **changes: Any) -> Any:
    """Return the command's parameters that an API function takes, by name.

    `changes` replace parameters, or add some that are no option.
    """
    names = inspect.signature(function).parameters
    values = {name: value for name, value in context.params.items() if name in names}
    return {**values, **changes}


def subject(context: typer.Context) -> dict[str, Any]:
    """Return `matrix` and `package`; one that is typed replaces the other's default.

    Raises:
        UsageError: If both are typed.
    """
    matrix, package = context.params.get("matrix"), context.params.get("package")
    if is_typed(context, "matrix") and is_typed(context, "package"):
        raise UsageError("a matrix and --package were given: name one of them")
    if is_typed(context, "matrix"):
        package = []
    elif package:
        matrix = None
    return {"matrix": matrix, "package": package}


def is_typed(context: typer.Context, name: str) -> bool:
    """Return True if the command line holds a parameter; False for a setting or a variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def is_chosen(context: typer.Context, name: str) -> bool:
    """Return True if the command line, a variable or a setting holds a parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def check_output(format: str, file: Path | None, reports: Sequence[str]) -> dict[Path, str]:
    """Return the format of each further report, by file; check everything before the work starts.

    Raises:
        UsageError: If a format does not exist, a file's folder does not exist, or two reports have
            one file.
    """
    from flacheck.reports import check

    check(format)
    formats: dict[Path, str] = {}
    for text in reports:
        name, separator, path = text.partition("=")
        if not separator or not path:
            raise UsageError(f"--report {text}: expected FORMAT=FILE, such as html=report.html")
        check(name)
        if Path(path) in formats or Path(path) == file:
            raise UsageError(f"--report {text}: another report goes to {path} already")
        formats[Path(path)] = name
    for each in filter(None, (file, *formats)):
        if not each.parent.is_dir():
            raise UsageError(f"{each} cannot be written: create the folder {each.parent} first")
    return formats


def write(text: Iterable[str], file: Path | None) -> None:
    """Stream a report to a file or to stdout."""
    # Imported here: a help page starts faster.
    from flacheck.reports import output

    output.write(text, file)


def show(format: str, report: Report, file: Path | None = None) -> None:
    """Render a report; colours are for a terminal, never for a file."""
    from flacheck.reports import render
    from flacheck.reports.display import Display

    display = Display()
    if file is None:
        display = Display.of_stdout()
    write(render(format, report, display), file)


def show_all(
    make: Callable[[], Report], format: str, file: Path | None, formats: Mapping[Path, str]
) -> None:
    """Render a report, and again for each further file; `make` builds it anew each time."""
    for further_file, name in formats.items():
        show(name, make(), further_file)
    show(format, make(), file)
