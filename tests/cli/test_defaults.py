"""What options are when nobody types them: variables and settings, checked for all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from flacheck.api.arguments import packages_of
from flacheck.cli import app, defaults
from flacheck.errors import UsageError
from tests.cli.test_cli import flacheck
from tests.config.test_settings import write

COMMAND: Any = typer.main.get_command(app)


def of(folder: Path, text: str = "", **variables: str) -> dict[str, dict[str, Any]]:
    """The defaults of all commands in a project with these settings and variables."""
    table = f"[tool.flacheck]\n{text}\n"
    return defaults.of(COMMAND, write(folder, table), variables)


def test_a_setting_is_the_default_of_the_option_of_its_name(here: Path) -> None:
    """With a dash or without; one value is a list for an option that is repeatable."""
    text = 'target = "H100"\nkernel = ["a", "b"]\nnum-warps = 4\ntimeout = 60\nfresh = true'
    scan = of(here, text)["scan"]
    assert scan["target"] == ["H100"]
    assert scan["kernel"] == ["a", "b"]
    assert scan["num_warps"] == ["4"]
    assert (scan["timeout"], scan["fresh"]) == ("60", True)


def test_every_option_of_every_command_has_a_variable(here: Path) -> None:
    """Of its name; a variable comes before a setting, and an empty one is none."""
    names = {name for name, sub in COMMAND.commands.items() for _ in sub.params}
    assert {"scan", "gate", "bisect", "repro", "autotune", "report"} <= names
    maps = of(
        here,
        'target = "sm80"\njobs = 4',
        FLACHECK_TARGET="sm90 h200,l4",
        FLACHECK_TRITON=">=3.2, <3.5",
        FLACHECK_MAX_FAILURES="3",
        FLACHECK_STRICT="on",
        FLACHECK_JOBS="",
        FLACHECK_CACHE_DIR="/tmp",
        OTHER="x",
    )
    assert maps["scan"]["target"] == ["sm90", "h200,l4"]
    assert maps["bisect"]["triton"] == [">=3.2, <3.5"]
    assert (maps["scan"]["max_failures"], maps["gate"]["strict"]) == (3, True)
    assert maps["scan"]["jobs"] == 4


def test_what_scans_are_about_says_nothing_of_where_a_cell_is(here: Path) -> None:
    """Without a CELL the store is searched, whatever a project scans."""
    maps = of(here, 'matrix = "seeds"')
    assert maps["scan"]["matrix"] == maps["gate"]["matrix"] == "seeds"
    assert "matrix" not in maps["bisect"]
    assert "matrix" not in maps["repro"]


def test_a_format_is_for_the_commands_that_have_it(here: Path) -> None:
    """The others keep theirs."""
    maps = of(here, 'format = "markdown"')
    commands = [name for name, chosen in maps.items() if "format" in chosen]
    assert {"scan", "gate", "report", "autotune"} <= set(commands)
    assert "explain" not in commands


def test_a_projects_paths_are_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder below the project they lead to the same place."""
    below = here / "below"
    below.mkdir()
    (here / "m.yaml").write_text("version: 1\naxes: {target: [sm90]}\n")
    text = '[tool.flacheck]\nmatrix = "m.yaml"\nstore = ".flacheck"\n'
    write(here, text)
    monkeypatch.chdir(below)
    assert defaults.of(COMMAND, below, {})["scan"]["matrix"] == str(here / "m.yaml")


def test_a_project_may_have_several_packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a list or separated by commas; each path among them is the project's own."""
    below = here / "below"
    below.mkdir()
    write(here, '[tool.flacheck]\npackage = [".", "two==2.0"]\n')
    monkeypatch.chdir(below)
    assert defaults.of(COMMAND, below, {})["scan"]["package"] == [str(here), "two==2.0"]
    maps = defaults.of(COMMAND, below, {"FLACHECK_PACKAGE": "one==1.0, two==2.0"})
    assert packages_of(maps["scan"]["package"]) == ("one==1.0", "two==2.0")
    with pytest.raises(UsageError, match="'two>=1' names no package"):
        defaults.of(COMMAND, below, {"FLACHECK_PACKAGE": "one==1.0,two>=1"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tripton = "3.2.0"', "'tripton' is no setting: .*; did you mean triton?"),
        ("[tool.flacheck.waiver]\nx = 1", "'waiver' is no setting: .*; did you mean waivers?"),
        ('dtype = "bfloat61"', "dtype = 'bfloat61': unknown dtype 'bfloat61'"),
        ('target = ["sm90", "h1000"]', "unknown target 'h1000'.*; did you mean h100?"),
        ('matrix = "sedes"', "no matrix 'sedes': .*; did you mean seeds?"),
        ('matrix = "lanches.jsonl"', "did you mean launches.jsonl?"),
        ('package = "fla>1"', "'fla>1' names no package"),
        ('package = "./nothing"', "there is no such folder"),
        ('format = "jsn"', "expected one of .*; did you mean json?"),
        ('configs = "usal"', "expected one of usual, edges, own; did you mean usual?"),
        ('find = "always"', "expected one of fail, pass, change"),
        ('until = "tgir"', "did you mean ttgir?"),
        ('jobs = "many"', "jobs = 'many': .*integer"),
        ("memory = 100", "memory = 100: .*256"),
        ("timeout = 0", "expected auto or a duration"),
        ("num-warps = 'four'", "takes whole numbers"),
        ("fresh = 1", "expected true or false"),
        ('matrix = ["quick", "seeds"]', "expected one value, not a list"),
        ("kernel = {a = 1}", "expected a text or a number"),
        ("triton = 3.10", "a version is a text: write it in quotes"),
        ('torch = "newest"', "expected a version"),
    ],
)
def test_an_unknown_setting_or_value_is_named_with_its_line(
    here: Path, text: str, said: str
) -> None:
    """And with the nearest that there is."""
    (here / "launches.jsonl").write_text("")
    with pytest.raises(UsageError, match=rf"(?s)^pyproject\.toml:2: .*{said}"):
        of(here, text)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FLACHECK_TRAGET", "sm90", "no option has that name; .*did you mean FLACHECK_TARGET?"),
        ("FLACHECK_DTYPE", "fp12", "FLACHECK_DTYPE in the environment: dtype = 'fp12': unknown"),
        ("FLACHECK_FRESH", "perhaps", "expected true or false"),
        ("FLACHECK_JOBS", "-1", "jobs = '-1'"),
    ],
)
def test_an_unknown_variable_or_value_is_an_error(
    here: Path, variable: str, value: str, said: str
) -> None:
    """A typing error would otherwise change the answer without a word."""
    with pytest.raises(UsageError, match=said):
        of(here, **{variable: value})


def test_a_wrong_setting_ends_every_command_but_help(here: Path) -> None:
    """Exit code 2, also for a command that does not have the option."""
    write(here, '[tool.flacheck]\ntripton = "3.2.0"\n')
    found = flacheck("list", "targets", cwd=here)
    assert (found.returncode, "pyproject.toml:2" in found.stderr) == (2, True), found.stderr
    assert flacheck("scan", "--help", cwd=here).returncode == 0
