"""A package by its name alone: the installed version, else the newest one."""

from __future__ import annotations

import importlib.metadata

import pytest
from packaging.version import Version

from flacheck.api.arguments import exact_package
from flacheck.errors import UsageError
from flacheck.packages import package
from flacheck.toolchains import index


def test_the_installed_version_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """And named in a sentence."""
    version = importlib.metadata.version("typer")
    assert package.choose_version("Typer").spec == f"typer=={version}"
    assert package.choose_version("Typer").sentence == (
        f"--package Typer: taking the installed version, typer=={version}"
    )
    assert exact_package("Typer") == f"typer=={version}"


def test_otherwise_the_newest_final_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the package index."""
    versions = [Version("1.0"), Version("2.0rc1"), Version("1.10")]
    monkeypatch.setattr(index, "available", lambda name, binary_only: versions)
    assert package.choose_version("no-such-one").spec == "no-such-one==1.10"
    monkeypatch.setattr(index, "available", lambda name, binary_only: [])
    with pytest.raises(UsageError, match="no version of no-such-one"):
        package.choose_version("no-such-one")


@pytest.mark.parametrize("spec", ["one==1.0", "./folder", "one>=1", "one[extra]"])
def test_other_specifications_stay(spec: str) -> None:
    """A version, a folder, and what is refused later."""
    assert exact_package(spec) == spec
