"""Options that are declared once, and the functions and commands that are made from them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck.api.options.commands import ReproOptions, ScanOptions
from flacheck.api.options.declaration import Option, argument, declarations, takes


@takes(ScanOptions)
def scan(matrix: str, *, on_event: object = None, **options: Any) -> dict[str, Any]:
    """Return the options.

    Args:
        matrix: A matrix.
        **options: The options of a scan.
        on_event: A receiver.
    """
    return options


def test_a_function_gets_every_option() -> None:
    """An option that the caller leaves out has the declared default."""
    options = scan("quick", jobs=3)
    assert options.keys() == ScanOptions.__annotations__.keys()
    assert (options["jobs"], options["memory"], options["store"]) == (3, 8192, Path(".flacheck"))


def test_an_unknown_keyword_is_an_error_of_the_call() -> None:
    """It is the TypeError of any function, which names the keyword."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'job'"):
        scan("quick", job=3)


def test_the_signature_lists_the_options_before_the_functions_own_keywords() -> None:
    """An editor and `help` show each of them with its default."""
    parameters = inspect.signature(scan).parameters
    assert list(parameters) == ["matrix", *ScanOptions.__annotations__, "on_event"]
    assert parameters["strategy"].default == "all"


def test_the_docstring_explains_every_option() -> None:
    """Its line of `**options` is replaced by the help text of each."""
    lines = [line.strip() for line in (scan.__doc__ or "").splitlines()]
    assert not [line for line in lines if line.startswith("**options")]
    assert "memory: Allow a worker MB of memory." in lines
    assert lines.index("matrix: A matrix.") < lines.index("on_event: A receiver.")


@pytest.mark.parametrize(
    ("option", "flags", "metavar", "setting"),
    [
        (Option("--jobs -j N", ""), ("--jobs", "-j"), "N", "jobs"),
        (Option("--costs/--no-costs", ""), ("--costs/--no-costs",), None, "costs"),
        (Option("--triton X", "", is_setting=False), ("--triton",), "X", None),
        (argument("CODE|FILE|-", ""), (), "CODE|FILE|-", None),
        (argument("-- CMD…", ""), (), "-- CMD…", None),
        (argument("MATRIX", "", None, selects=True), (), "MATRIX", "matrix"),
    ],
)
def test_a_usage_holds_flags_and_the_values_name(
    option: Option, flags: tuple[str, ...], metavar: str | None, setting: str | None
) -> None:
    """Words without a dash, and what follows a lone `--`, are the name of the value."""
    assert (option.flags, option.metavar, option.setting) == (flags, metavar, setting)


def test_a_required_option_has_no_default() -> None:
    """The call without it is an error."""
    with pytest.raises(TypeError, match="missing a required argument: 'output'"):
        flacheck.build_results("combinations.yaml")


def test_a_command_and_its_function_share_one_declaration() -> None:
    """The option of `repro` is the keyword of `flacheck.repro`."""
    from flacheck.cli.repro import ReproCommand

    of_command, of_function = declarations(ReproCommand), declarations(ReproOptions)
    assert {name: of_command[name] for name in of_function} == of_function
