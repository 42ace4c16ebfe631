"""Help pages: groups, examples, exit codes, variables and settings of every command; topics."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flacheck.cli import pages
from flacheck.cli.commands import first_line
from flacheck.cli.topics import title_of, topic_texts
from tests.cli.test_cli import flacheck
from tests.command_lines import COMMAND, parse, words_of

COMMANDS = {" ".join(path): (path, command) for path, command in pages.commands(COMMAND)}
each_command = pytest.mark.parametrize("name", COMMANDS)


def help_of(*words: str, columns: int = 80) -> str:
    ran = flacheck(*words, cwd=Path(), COLUMNS=str(columns))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.name != "help"]


@each_command
def test_every_option_has_a_group(name: str) -> None:
    """Every option is in one of the four groups."""
    _, command = COMMANDS[name]
    panels = {each.name: each.rich_help_panel for each in options_of(command)}
    assert {option for option, panel in panels.items() if panel not in pages.PANELS} == set()


@each_command
def test_every_option_shows_its_variable_and_setting(name: str) -> None:
    """Each option has its variable and setting, or the mark of the command line."""
    path, command = COMMANDS[name]
    page = help_of(*path, "--help", columns=120)
    for option in options_of(command):
        setting = pages.setting_name(command, option)
        if setting is not None:
            mark = f"[env: {pages.variable_name(setting)}, setting: {setting}]"
            assert mark in page
        elif option.opts[0].startswith("-"):
            assert "[command line only]" in page


@each_command
def test_every_command_has_two_examples_that_parse(name: str) -> None:
    """The examples are of the command itself, with existing options."""
    path, command = COMMANDS[name]
    examples = pages.page_of(command).examples
    assert len(examples) >= 2
    for _, line in examples:
        words = words_of(line)
        assert tuple(words[: len(path)]) == path
        assert parse(words) is None, line


@each_command
def test_every_command_has_its_exit_codes(name: str) -> None:
    """The help of every command lists the exit codes 0, 2, 70 and 130."""
    _, command = COMMANDS[name]
    exits = pages.page_of(command).all_exits
    assert {0, 2, 70, 130} <= set(exits)


def test_the_first_line_of_every_command_fits_the_overview() -> None:
    """Each first line fits 80 columns."""
    overview = help_of("--help")
    for name, command in COMMAND.commands.items():
        first = command.help.partition("\n")[0]
        assert f"  {name}" in overview
        assert any(
            line.endswith(f"  {first}") and len(line) <= 80 for line in overview.splitlines()
        )


@each_command
def test_a_page_fits_its_terminal(name: str) -> None:
    """Only example commands are longer than 80 columns."""
    path, command = COMMANDS[name]
    commands = [line for _, line in pages.page_of(command).examples]
    lines = help_of(*path, "--help").splitlines()
    assert [each for each in lines if len(each) > 80 and each.strip() not in commands] == []


def test_the_short_page_leaves_variables_out() -> None:
    """The short page refers to --help for variables."""
    page = help_of("scan", "-h")
    assert "FLACHECK_" not in page
    assert "`--help` also prints" in page


@pytest.mark.parametrize("topic", topic_texts())
def test_every_topic_has_a_page(topic: str) -> None:
    """The list of topics has each page's heading."""
    text = help_of("help", topic)
    assert text == topic_texts()[topic]
    assert f"  {topic:<12}{title_of(text)}\n" in help_of("help")


def test_the_help_of_a_command_is_its_page() -> None:
    """`flacheck help COMMAND` prints the command's page."""
    assert help_of("help", "toolchain", "install") == help_of("toolchain", "install", "--help")


def test_an_unknown_topic_names_the_nearest() -> None:
    """An unknown topic exits with 2 and the nearest name."""
    ran = flacheck("help", "setings", cwd=Path())
    assert (ran.returncode, "did you mean settings?" in ran.stderr) == (2, True)


def test_a_command_is_quiet_or_verbose(tmp_path: Path) -> None:
    """-q and -v exclude each other; -v prints settings and their sources."""
    ran = flacheck("list", "targets", "-q", "-v", cwd=tmp_path)
    assert (ran.returncode, "name one of them" in ran.stderr) == (2, True)
    loud = flacheck("list", "targets", "-v", cwd=tmp_path, FLACHECK_FORMAT="json")
    assert "format = json (FLACHECK_FORMAT)" in loud.stderr
    assert "flacheck list: " in loud.stderr
    assert flacheck("list", "targets", "-q", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize(
    ("variables", "is_bold"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
)
def test_headings_are_bold_on_a_terminal(variables: dict[str, str], is_bold: bool) -> None:
    """NO_COLOR and TERM=dumb leave the page plain."""
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "80", "TERM": "xterm", **variables}
    command = [sys.executable, "-m", "flacheck", "scan", "-h"]
    page = b""
    main, terminal = pty.openpty()
    process = subprocess.Popen(command, stdout=terminal, env=environment)
    os.close(terminal)
    # Linux ends the reading of a closed terminal with an error.
    with contextlib.suppress(OSError):
        while chunk := os.read(main, 65_536):
            page += chunk
    os.close(main)
    assert process.wait() == 0
    assert (b"\x1b[1mWith what\x1b[0m:" in page) == is_bold
    assert (b"\x1b" in page) == is_bold


# Modules that no help page needs, and that are slow to import.
_HEAVY = "msgspec rich yaml jinja2 tomlkit packaging triton torch flacheck.model flacheck.api.arguments".split()


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (["--help"], [*_HEAVY, "flacheck.cli.scan", "flacheck.cli.common"]),
        (["--version"], [*_HEAVY, "flacheck.cli.scan", "flacheck.cli.common"]),
        (["scan", "--help"], ["rich", "torch", "triton", "flacheck.model", "flacheck.cli.diff"]),
    ],
)
def test_a_help_page_imports_only_what_it_shows(
    words: list[str], needless: list[str], tmp_path: Path
) -> None:
    """The page of all commands imports none of them."""
    script = (
        "import sys\n"
        f"sys.argv = ['flacheck', *{words!r}]\n"
        "from flacheck.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        f"    print([name for name in {needless!r} if name in sys.modules])\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert outcome.stdout.splitlines()[-1] == "[]", outcome.stderr


def test_the_page_of_all_commands_has_the_first_line_of_each_page() -> None:
    """The table of commands has each page's first line."""
    summaries = {name: summary for name, _, summary in COMMAND.rows()}
    lines = {name: first_line(command) for name, command in COMMAND.commands.items()}
    assert summaries == lines
