"""Defaults of options from variables and settings, for all commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from flacheck.api.arguments import packages_of
from flacheck.cli import app, defaults, pages
from flacheck.errors import UsageError
from flacheck.tables.settings import settings
from tests.cli.test_cli import flacheck
from tests.paths import ROOT
from tests.tables.settings.test_settings import write, write_user_settings

COMMAND: Any = typer.main.get_command(app)


def of(folder: Path, text: str = "", **variables: str) -> dict[str, dict[str, Any]]:
    """Return the defaults of all commands in a project with these settings and variables."""
    table = f"[tool.flacheck]\n{text}\n"
    return defaults.of(COMMAND, write(folder, table), variables)


def test_a_setting_is_the_default_of_the_option_of_its_name(here: Path) -> None:
    """A single value becomes a list for a repeatable option."""
    text = 'target = "H100"\nkernel = ["a", "b"]\nnum-warps = 4\nuntil = "ttgir"\nstrict = true'
    scan = of(here, text)["scan"]
    assert scan["target"] == ["H100"]
    assert scan["kernel"] == ["a", "b"]
    assert scan["num_warps"] == ["4"]
    assert (scan["until"], scan["strict"]) == ("ttgir", True)


def test_the_users_own_settings_may_hold_every_option(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's settings come before a project's, and after variables."""
    mine = 'timeout = 60\ntarget = "sm80"\noutput = "mine.txt"\njobs = 4\n'
    file = write_user_settings(here, mine, monkeypatch)
    scan = of(here, 'target = "H100"\nkernel = "a"', FLACHECK_JOBS="2")["scan"]
    assert (scan["timeout"], scan["target"], scan["kernel"]) == ("60", ["sm80"], ["a"])
    assert (Path(scan["output"]), scan["jobs"]) == (Path("mine.txt"), 2)
    file.write_text('target = "sm90"\nwaivers = []\n')
    with pytest.raises(UsageError, match=rf"^{file}:2: 'waivers' is no setting"):
        of(here)


HARMFUL = [
    'executor = "dask:tcp://203.0.113.7:8786"',
    'output = "/etc/cron.d/x"',
    'report = ["html=.bashrc"]',
    'cache-from = "reference://x"',
    'cache-to = "s3://theirs/x"',
    'store = "/srv/store"',
    "trust = true",
    'results = "https://theirs.example/results"',
    "with-tests = true",
    'captured = "captures.tar"',
    'write-baseline = "b.json"',
    "fix = true",
    "bench = true",
    'format = "html"',
    "jobs = 4096",
    "memory = 1000000",
    'timeout = "1d"',
    "refresh = true",
    'emit = "fla"',
]


@pytest.mark.parametrize("text", HARMFUL)
def test_a_project_may_not_set_what_does_more_than_select(here: Path, text: str) -> None:
    """The error names key and line, and the alternatives."""
    key = text.partition(" ")[0]
    variable = f"FLACHECK_{key.upper().replace('-', '_')}"
    message = (
        rf"^pyproject\.toml:2: a project may not set '{key}': .* --{key}, set {variable}, or write"
    )
    with pytest.raises(UsageError, match=rf"{message} {key} into {settings.user_file()}"):
        of(here, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('package = ".."', "'..' lies outside of the project"),
        ('package = ".,../other"', "'../other' lies outside of the project"),
        ('package = "link"', "'link' lies outside of the project"),
        ('matrix = "/srv/m.yaml"', "'/srv/m.yaml' lies outside of the project"),
        ('matrix = "link/launches.jsonl"', "lies outside of the project"),
        ('baseline = "../b.json"', "'../b.json' lies outside of the project"),
        ('baseline = "~/b.json"', "lies outside of the project"),
        ('toolchain = "./cuda"', "'./cuda' is a compiler's path"),
        ('toolchain = ["3.2.0", "nvcc/bin"]', "'nvcc/bin' is a compiler's path"),
        ('triton = "theirs.whl"', "'theirs.whl' is a compiler's path"),
        ('triton = "3.2.0,theirs.whl"', "is a compiler's path"),
    ],
)
def test_a_project_names_only_what_is_in_it(
    here: Path, tmp_path_factory: pytest.TempPathFactory, text: str, message: str
) -> None:
    """A path outside the project, or a compiler's path, is an error."""
    (here / "link").symlink_to(tmp_path_factory.mktemp("other"))
    with pytest.raises(UsageError, match=rf"^pyproject\.toml:2: .*{re.escape(message)}"):
        of(here, text)


@pytest.mark.parametrize(
    ("value", "release"),
    [
        ('"two==2.0"', "two==2.0"),
        ('"fla>1"', "fla>1"),
        ('"flash-linear-attention"', "flash-linear-attention"),
        ('[".", "two==2.0"]', "two==2.0"),
        ('".,two==2.0"', "two==2.0"),
        # A folder and a file whose names the package index would resolve.
        ('"three==3.0"', "three==3.0"),
        ('"m.yaml"', "m.yaml"),
    ],
)
def test_a_project_selects_no_package_of_the_index(here: Path, value: str, release: str) -> None:
    """The error names the key, its line, and where a user may name the package."""
    (here / "three==3.0").mkdir()
    (here / "m.yaml").write_text("")
    message = (
        rf"^pyproject\.toml:2: package = '{re.escape(release)}' is not a folder of this project, "
        rf".* give --package, set FLACHECK_PACKAGE, or write package into {settings.user_file()}"
    )
    with pytest.raises(UsageError, match=message):
        of(here, f"package = {value}")


@pytest.mark.parametrize("package", ["two==2.0", "two", "../other", "/srv/other"])
def test_a_projects_matrix_names_no_package_of_the_index(here: Path, package: str) -> None:
    """The matrix of a project's settings may hold packages of the project only."""
    (here / "mine").mkdir()
    text = "version: 1\naxes: {{target: [sm90]}}\npackages: [./mine, {}]\n"
    (here / "m.yaml").write_text(text.format(package))
    message = rf"^pyproject\.toml:2: the matrix 'm\.yaml' names the package '{package}', "
    with pytest.raises(UsageError, match=message):
        of(here, 'matrix = "m.yaml"')
    (here / "m.yaml").write_text(text.format("./mine"))
    assert of(here, 'matrix = "m.yaml"')["scan"]["matrix"] == "m.yaml"


def test_the_users_settings_may_select_a_package_of_the_index(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables and the user's own settings accept any package."""
    write_user_settings(here, 'package = "two==2.0"\n', monkeypatch)
    assert of(here)["scan"]["package"] == ["two==2.0"]
    assert of(here, FLACHECK_PACKAGE="one==1.0")["scan"]["package"] == ["one==1.0"]


def test_a_projects_package_is_not_run_on_the_card(here: Path) -> None:
    """A project's package does not apply to `bench`."""
    maps = of(here, 'package = "."')
    assert maps["scan"]["package"] == ["."]
    assert "package" not in maps["bench"]


def test_security_names_what_a_project_may_set() -> None:
    """SECURITY.md lists the options that a project may set."""
    selecting_options = set()
    for _, command in pages.commands(COMMAND):
        for parameter in command.params:
            name = pages.setting_name(command, parameter)
            if name and pages.page_of(command).options[parameter.name].selects:
                selecting_options.add(name)
    text = (ROOT / "SECURITY.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| a project's settings"))
    assert set(re.findall(r"`([a-z-]+)`", row)) == {*selecting_options, "waivers"}


def test_what_scans_are_about_says_nothing_of_where_a_cell_is(here: Path) -> None:
    """A project's matrix does not limit the search for a cell."""
    maps = of(here, 'matrix = "seeds"')
    assert maps["scan"]["matrix"] == maps["gate"]["matrix"] == "seeds"
    assert "matrix" not in maps["bisect"]
    assert "matrix" not in maps["repro"]


def test_a_format_is_for_the_commands_that_have_it(here: Path) -> None:
    """A format applies only to commands that accept it."""
    maps = of(here, FLACHECK_FORMAT="markdown")
    commands = [name for name, options in maps.items() if "format" in options]
    assert {"scan", "gate", "report", "autotune"} <= set(commands)
    assert "explain" not in commands


def test_a_projects_paths_are_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths start at the project's folder."""
    below = here / "below"
    below.mkdir()
    (here / "m.yaml").write_text("version: 1\naxes: {target: [sm90]}\n")
    text = '[tool.flacheck]\nmatrix = "m.yaml"\n'
    write(here, text)
    monkeypatch.chdir(below)
    assert defaults.of(COMMAND, below, {})["scan"]["matrix"] == str(here / "m.yaml")


def test_a_project_may_have_several_packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are a list or separated by commas."""
    below = here / "below"
    below.mkdir()
    write(here, '[tool.flacheck]\npackage = [".", "below"]\n')
    monkeypatch.chdir(below)
    assert defaults.of(COMMAND, below, {})["scan"]["package"] == [str(here), str(below)]
    maps = defaults.of(COMMAND, below, {"FLACHECK_PACKAGE": "one==1.0, two==2.0"})
    assert packages_of(maps["scan"]["package"]) == ("one==1.0", "two==2.0")
    with pytest.raises(UsageError, match="'two>=1' names no package"):
        defaults.of(COMMAND, below, {"FLACHECK_PACKAGE": "one==1.0,two>=1"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tripton = "3.2.0"', "'tripton' is no setting: .*; did you mean triton?"),
        ("[tool.flacheck.waiver]\nx = 1", "'waiver' is no setting: .*; did you mean waivers?"),
        ('dtype = "bfloat61"', "dtype = 'bfloat61': unknown dtype 'bfloat61'"),
        ('target = ["sm90", "h1000"]', "unknown target 'h1000'.*; did you mean h100?"),
        ('matrix = "sedes"', "no matrix 'sedes': .*; did you mean seeds?"),
        ('matrix = "lanches.jsonl"', "did you mean launches.jsonl?"),
        ('package = "./nothing"', "there is no such folder"),
        ('configs = "usal"', "expected one of usual, edges, own; did you mean usual?"),
        ('find = "always"', "expected one of fail, pass, change"),
        ('until = "tgir"', "did you mean ttgir?"),
        ("num-warps = 'four'", "takes whole numbers"),
        ("strict = 1", "expected true or false"),
        ('matrix = ["quick", "seeds"]', "expected one value, not a list"),
        ("kernel = {a = 1}", "expected a text or a number"),
        ("triton = 3.10", "a version is a text: write it in quotes"),
        ('torch = "newest"', "expected a version"),
    ],
)
def test_an_unknown_setting_or_value_is_named_with_its_line(
    here: Path, text: str, message: str
) -> None:
    """The error has the line and the nearest valid name."""
    (here / "launches.jsonl").write_text("")
    with pytest.raises(UsageError, match=rf"(?s)^pyproject\.toml:2: .*{message}"):
        of(here, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('format = "jsn"', "expected one of .*; did you mean json?"),
        ('jobs = "many"', "jobs = 'many': .*int(eger| range)"),
        ("memory = 100", "memory = 100: .*256"),
        ("timeout = 0", "expected auto or a duration"),
        ("fresh = 1", "expected true or false"),
    ],
)
def test_a_wrong_value_in_the_users_file_is_named_with_its_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    """The error has the line in the user's file."""
    file = write_user_settings(here, f"\n{text}\n", monkeypatch)
    with pytest.raises(UsageError, match=rf"(?s)^{file}:2: .*{message}"):
        of(here)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FLACHECK_TRAGET", "sm90", "no option has that name; .*did you mean FLACHECK_TARGET?"),
        ("FLACHECK_DTYPE", "fp12", "FLACHECK_DTYPE in the environment: dtype = 'fp12': unknown"),
        ("FLACHECK_FRESH", "perhaps", "expected true or false"),
        ("FLACHECK_JOBS", "-1", "jobs = '-1'"),
    ],
)
def test_an_unknown_variable_or_value_is_an_error(
    here: Path, variable: str, value: str, message: str
) -> None:
    """An unknown FLACHECK_ variable is an error with the nearest name."""
    with pytest.raises(UsageError, match=message):
        of(here, **{variable: value})


def test_a_wrong_setting_ends_every_command_but_help(here: Path) -> None:
    """The exit code is 2, even if the command lacks the option."""
    write(here, '[tool.flacheck]\ntripton = "3.2.0"\n')
    outcome = flacheck("list", "targets", cwd=here)
    assert (outcome.returncode, "pyproject.toml:2" in outcome.stderr) == (2, True), outcome.stderr
    assert flacheck("scan", "--help", cwd=here).returncode == 0
