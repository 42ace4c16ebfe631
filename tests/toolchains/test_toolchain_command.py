"""`flacheck toolchain`, `doctor` and `capture`: exit codes and messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.cli import app
from flacheck.errors import Exit
from flacheck.toolchains import doctor
from flacheck.toolchains.doctor import Check
from tests.fake.family import FakeFamily


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFamily:
    """Fake releases and an empty cache."""
    variant = FakeFamily({}, wheelless=("3.0",))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(toolchains.FAMILIES, "fake", variant)
    return variant


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_an_empty_cache_says_what_fills_it(family: FakeFamily) -> None:
    """The message gives the command that fills the cache."""
    result = run("toolchain", "list")
    assert (result.exit_code, result.stdout) == (
        Exit.OK,
        "No toolchain is installed yet; a scan installs those that it needs.\n",
    )


def test_releases_are_installed_on_request(family: FakeFamily) -> None:
    """Every release that a specifier admits is installed."""
    assert run("toolchain", "install", "fake>=8").exit_code == Exit.OK
    assert family.provided == ["8.0", "9.0"]


def test_a_release_without_a_wheel_is_incomplete(family: FakeFamily) -> None:
    """The releases before it are installed."""
    result = run("toolchain", "install", "fake==2.0", "fake==3.0")
    assert (result.exit_code, family.provided) == (Exit.INCOMPLETE, ["2.0"])
    assert "fake==3.0: no wheel for this Python" in result.stderr


def test_what_is_not_in_the_cache_cannot_be_removed(family: FakeFamily) -> None:
    """The message lists the releases in the cache."""
    result = run("toolchain", "remove", "3.2.0")
    assert result.exit_code == Exit.USAGE
    assert "3.2.0 is not in " in result.stderr
    assert result.stderr.rstrip().endswith("there is nothing")


@pytest.mark.parametrize(
    ("checks", "code", "lines"),
    [
        ([Check("python", True, "3.11")], Exit.OK, ["ok     python: 3.11"]),
        (
            [Check("torch", False, "not there", "pip install torch", optional=True)],
            Exit.OK,
            ["no     torch: not there", "pip install torch"],
        ),
        (
            [Check("store", False, "read-only", "chmod"), Check("python", True, "3.11")],
            Exit.FINDINGS,
            ["FAILS  store: read-only", "chmod", "ok     python: 3.11"],
        ),
    ],
)
def test_doctor_fails_of_what_is_not_optional(
    checks: list[Check], code: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining checks still run."""

    def results() -> Iterator[Check]:
        yield from checks

    monkeypatch.setattr(doctor, "checks", results)
    result = run("doctor")
    assert result.exit_code == code
    assert [line.strip() for line in result.stdout.splitlines()] == lines


def test_a_program_that_is_not_there_is_not_captured(family: FakeFamily, tmp_path: Path) -> None:
    """125, as `env` and `timeout` have it."""
    result = run("capture", "-o", str(tmp_path / "l.jsonl"), "--", "no-such-program-anywhere")
    assert result.exit_code == 125
    assert "no-such-program-anywhere: could not be started; is it on the PATH?" in result.stderr
