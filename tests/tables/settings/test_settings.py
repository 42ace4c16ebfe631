"""Settings: their files, values and lines."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.tables.settings import settings
from flacheck.tables.settings.waivers import Waiver


def write(folder: Path, text: str) -> Path:
    """Create a folder with a pyproject.toml of this text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def write_user_settings(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the user's own settings in a folder of the test and return their file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    file = settings.user_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_the_users_settings_are_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is below XDG_CONFIG_HOME, without a table."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    assert settings.read_user().values == {}
    file = write_user_settings(tmp_path, "# mine\njobs = 4\n", monkeypatch)
    user = settings.read_user()
    assert (file, user.values) == (tmp_path / "config/flacheck/config.toml", {"jobs": 4})
    assert user.where("jobs") == f"{file}:2"


def test_settings_are_what_the_table_holds(tmp_path: Path) -> None:
    """Each value has its line."""
    text = """[project]
name = "x"

[tool.flacheck]
# What we train on.
num-warps = [
  4,
  8,
]
matrix = "seeds"

[[tool.flacheck.waivers]]
kernel = "a"
[[tool.flacheck.waivers]]
kernel = "b"
"""
    read = settings.read(write(tmp_path, text))
    assert (read.values["num-warps"], read.values["matrix"]) == ([4, 8], "seeds")
    places = (("num-warps",), ("matrix",), ("waivers",), ("waivers", 1))
    lines = [read.where(*place).rpartition(":")[2] for place in places]
    assert lines == ["6", "10", "12", "14"]


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    """The nearest file is used, even without settings of flacheck."""
    write(tmp_path, '[tool.flacheck]\nmatrix = "seeds"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert settings.read(below).values == {"matrix": "seeds"}
    assert settings.read(write(below, "[project]\n")).values == {}


def test_a_file_that_says_nothing_of_flacheck_may_be_broken(tmp_path: Path) -> None:
    """A broken file without settings of flacheck is ignored."""
    assert settings.read(write(tmp_path, "[project\n")).values == {}
    assert settings.waivers(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.flacheck\n", r"pyproject\.toml:1: not valid TOML"),
        ("[tool]\nflacheck = 3\n", r"pyproject\.toml: \[tool\.flacheck\] must be a table"),
    ],
)
def test_wrong_settings_are_an_error_with_their_file(
    tmp_path: Path, text: str, message: str
) -> None:
    """Invalid settings are a usage error with their file."""
    with pytest.raises(UsageError, match=message):
        settings.read(write(tmp_path, text))


def test_waivers_are_read_from_the_nearest_file(tmp_path: Path) -> None:
    """Waivers are tables of the nearest file."""
    text = "[[tool.flacheck.waivers]]\nkernel = 'x'\nreason = 'issue 7'\nexpires = 2027-03-31\n"
    waiver = Waiver(kernel="x", reason="issue 7", expires=date(2027, 3, 31))
    assert settings.waivers(write(tmp_path, text)) == (waiver,)
