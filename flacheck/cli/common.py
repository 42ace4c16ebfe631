"""Parts that commands share: arguments, errors as a message and an exit code, output."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import typer

from flacheck import Exit, FlacheckError, UsageError
from flacheck.api.options.declaration import Option
from flacheck.cli import flags, pages
from flacheck.cli.loudness import say as say
from flacheck.cli.loudness import show_log as show_log
from flacheck.cli.termination import terminable

if TYPE_CHECKING:
    from flacheck.reports.document import Report

Options = TypeVar("Options", bound=Mapping[str, object])
_CONTEXT = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


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


@dataclass(frozen=True)
class Call(Generic[Options]):
    """A command as it was called: the value of each option, and where it is from."""

    options: Options
    context: typer.Context

    def is_typed(self, name: str) -> bool:
        """Return True if the command line holds an option; False for a setting or a variable."""
        source = self.context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    def is_chosen(self, name: str) -> bool:
        """Return True if the command line, a variable or a setting holds an option."""
        source = self.context.get_parameter_source(name)
        return source is not None and source.name != "DEFAULT"

    def arguments(self, function: Callable[..., Any], **changes: Any) -> Any:
        """Return the chosen options that an API function takes; its own defaults are the others.

        `changes` replace options, or add arguments that are no option.
        """
        names = inspect.signature(function).parameters
        chosen = {
            name: value
            for name, value in self.options.items()
            if name in names and self.is_chosen(name)
        }
        return {**chosen, **changes}

    def subject(self) -> dict[str, Any]:
        """Return `matrix` and `package`; one that is typed replaces the other's default.

        Raises:
            UsageError: If both are typed.
        """
        matrix, package = self.options.get("matrix"), self.options.get("package")
        if self.is_typed("matrix") and self.is_typed("package"):
            raise UsageError("a matrix and --package were given: name one of them")
        if self.is_typed("matrix"):
            package = []
        elif package:
            matrix = None
        return {"matrix": matrix, "package": package}

    def check_output(self) -> dict[Path, str]:
        """Return the format of each further report, by file, as `check_output` does."""
        options: Mapping[str, Any] = self.options
        return check_output(options["output"], options["reports"])

    def show(self, report: Report) -> None:
        """Render a report in the chosen format, to the chosen file."""
        options: Mapping[str, Any] = self.options
        show(options["format"], report, options.get("output"))

    def show_all(self, make: Callable[[], Report], formats: Mapping[Path, str]) -> None:
        """Render a report, and again for each further file; `make` builds it anew each time."""
        for file, name in formats.items():
            show(name, make(), file)
        self.show(make())


def _run(
    function: Callable[[Call[Options]], int],
    call: Call[Options],
    declared: Mapping[str, Option],
) -> int:
    """Run a command; UsageError, before it works, for a format that it does not offer."""
    if "format" in declared:
        from flacheck.reports import check

        check(str(call.options["format"]), declared["format"].choices)
    return function(call)


def command(
    options: type[Options], *, examples: Sequence[tuple[str, str]], exits: Mapping[int, str]
) -> Callable[[Callable[[Call[Options]], int]], Callable[..., None]]:
    """Return a decorator that makes a command of a function: its errors end it with an exit code.

    Args:
        options: A TypedDict of the command's options, beside those that every command has.
        examples: Pairs of a question or a task and the command line that answers it.
        exits: The meaning of the command's exit codes, beside those that every command has.
    """
    declared = flags.options_of(options)
    parameters = [flags.parameter(name, option) for name, option in declared.items()]
    defaults = {each.name: each.default for each in parameters}

    def decorate(function: Callable[[Call[Options]], int]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(context: typer.Context, **values: Any) -> None:
            call = Call(cast("Options", {**defaults, **values}), context)
            try:
                with terminable():
                    code = _exit_code_of(lambda: _run(function, call, declared))
            except KeyboardInterrupt:
                # Between the command's end and that of its signal handlers.
                code = Exit.INTERRUPTED
            raise typer.Exit(int(code or 0))

        # Typer reads the options from the signature and from the annotations.
        signature = inspect.Signature([_CONTEXT, *parameters])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        pages.mark(run, pages.Page(tuple(examples), tuple(exits.items()), declared))
        return run

    return decorate


def check_output(file: Path | None, reports: Sequence[str]) -> dict[Path, str]:
    """Return the format of each further report, by file; check everything before the work starts.

    Raises:
        UsageError: If a format does not exist, a file's folder does not exist, or two reports have
            one file.
    """
    from flacheck.reports import check

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
