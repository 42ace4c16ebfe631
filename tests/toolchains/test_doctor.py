"""The checks of whether this machine can work."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tomlkit
from packaging.version import Version

from flacheck.guest.engine import confinement
from flacheck.toolchains import doctor, index, wheels
from tests.escaping import expected
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "available", lambda *_: [Version("3.9.0")])


def check_of(name: str) -> doctor.Check:
    return next(check for check in doctor.checks() if check.name == name)


def test_every_check_that_can_fail_says_what_to_do() -> None:
    """Names are unique; a failed check has a remedy."""
    checks = list(doctor.checks())
    assert len({check.name for check in checks}) == len(checks) == 14
    assert all(check.remedy for check in checks if not check.ok)


def test_a_machine_that_runs_these_tests_is_fit() -> None:
    """Every check that is not optional passes."""
    assert [check.name for check in doctor.checks() if not check.ok and not check.optional] == []


def test_what_the_kernel_closes_to_compilers_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The means are named, also those left open; they never make the machine unfit."""
    check = check_of("confinement")
    assert check.optional
    ways = check.detail.partition("closed to compilers: ")[2].partition("; ")[0]
    assert set(ways.split(", ")) == expected()
    if not check.ok:
        assert "left open by this kernel" in check.detail
        assert "container" in check.remedy

    def start(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        output = '{"namespaces": false, "ways": {"reading files": false, "network": true}}'
        return subprocess.CompletedProcess(command, 0, output, "")

    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(
        confinement,
        "available_confinement",
        lambda: confinement.AvailableConfinement(landlock=0, seccomp=True),
    )
    assert doctor.check_confinement().detail == (
        "Landlock is not offered, seccomp, namespaces are not permitted; closed to compilers: network; "
        "left open by this kernel: reading files"
    )


def test_a_missing_installer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither uv nor pip makes the machine unfit."""
    monkeypatch.setattr(wheels, "installers", list)
    check = check_of("installer")
    assert (check.ok, check.optional, check.detail) == (False, False, "neither uv nor pip")


def test_a_cache_that_cannot_be_written_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy names the variable that moves it."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check = check_of("cache")
    assert not check.ok
    assert "FLACHECK_CACHE_DIR" in check.remedy


def test_no_network_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check passes, since the compilers in the cache work without network."""

    def unreachable(*_: object) -> list[Version]:
        raise wheels.Offline("the package index could not be reached")

    monkeypatch.setattr(index, "available", unreachable)
    check = check_of("package index")
    assert (check.ok, check.optional) == (False, True)


def test_an_untested_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An untested newer Python passes with a note, and an older one fails."""
    first, last = doctor.TESTED_PYTHONS
    monkeypatch.setattr(doctor.sys, "version_info", (3, last + 1, 0))
    newer = doctor.check_python()
    assert newer.ok
    assert f"untested: flacheck is tested on Python 3.{first} to 3.{last}" in newer.detail
    monkeypatch.setattr(doctor.sys, "version_info", (3, first - 1, 0))
    assert not doctor.check_python().ok


def test_the_oldest_tested_python_is_the_package_s() -> None:
    """pyproject.toml and doctor name the same Python."""
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">=3.{doctor.TESTED_PYTHONS[0]}"
