"""A package by its name alone: the installed version, else the newest one."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

import flacheck
from flacheck.api.arguments import exact_package, subjects_of
from flacheck.api.options.commands import PlanOptions
from flacheck.api.options.declaration import declarations
from flacheck.errors import UsageError
from flacheck.source.packages import package
from flacheck.toolchains import cache, index, wheels


def test_the_installed_version_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """A sentence names the installed version."""
    version = importlib.metadata.version("typer")
    assert package.choose_version("Typer").spec == f"typer=={version}"
    assert package.choose_version("Typer").sentence == (
        f"--package Typer: taking the installed version, typer=={version}"
    )
    assert exact_package("Typer") == f"typer=={version}"


def test_otherwise_the_newest_final_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an installed release, the newest final version of the package index is taken."""
    versions = [Version("1.0"), Version("2.0rc1"), Version("1.10")]
    monkeypatch.setattr(index, "available", lambda name: versions)
    assert package.choose_version("no-such-one").spec == "no-such-one==1.10"
    monkeypatch.setattr(index, "available", lambda name: [])
    with pytest.raises(UsageError, match="no version of no-such-one"):
        package.choose_version("no-such-one")


@pytest.mark.parametrize("spec", ["one==1.0", "./folder", "one>=1", "one[extra]"])
def test_other_specifications_stay(spec: str) -> None:
    """A version, a folder, and what is refused later."""
    assert exact_package(spec) == spec


def scan_of(package: str | list[str]) -> dict[str, Any]:
    """Return the options of a scan of these packages."""
    defaults = {name: option.default for name, (_, option) in declarations(PlanOptions).items()}
    return {**defaults, "package": package}


def test_a_range_is_every_release_in_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A scan takes the newest first, leaves pre-releases out, and names them in a sentence."""
    versions = [Version("0.9"), Version("1.0"), Version("2.0rc1"), Version("1.10")]
    monkeypatch.setattr(index, "available", lambda name: versions)
    subjects = subjects_of(None, scan_of(["Shop>=1,<3", "other==1.0"]))
    assert [each.package for each in subjects] == ["shop==1.10", "shop==1.0", "other==1.0"]
    assert "--package Shop>=1,<3: scanning shop==1.10, shop==1.0" in caplog.text
    with pytest.raises(UsageError, match=r"no release of shop is >=3; the newest: .*2\.0rc1"):
        package.releases("shop>=3")


def test_a_range_without_an_index_is_the_releases_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """These are the published releases and those that an earlier command installed."""

    def unreachable(name: str) -> list[Version]:
        raise wheels.Offline("no index answers")

    monkeypatch.setattr(index, "available", unreachable)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    for name, version in (("flash-kmeans", "0.3.0"), ("flash-kmeans", "9.0"), ("other", "0.3.1")):
        shelf = tmp_path / "packages" / f"{name}-{version}"
        shelf.mkdir(parents=True)
        manifest = {"name": name, "version": version}
        (shelf / cache.MANIFEST).write_text(json.dumps(manifest))
    subjects = subjects_of(None, scan_of("flash-kmeans>=0.2,<1"))
    # 0.3.1 is published with flacheck.
    assert [each.package for each in subjects] == ["flash-kmeans==0.3.1", "flash-kmeans==0.3.0"]
    assert "no package index answers" in caplog.text
    with pytest.raises(wheels.Offline):
        subjects_of(None, scan_of("flash-kmeans>=10"))


def test_one_release_is_expected_where_a_range_is_no_answer() -> None:
    """The error names the commands that take a range."""
    with pytest.raises(UsageError, match="flacheck scan --package 'shop>=1'` scans every release"):
        package.parse("shop>=1")


@pytest.mark.network
def test_releases_of_a_package_in_one_scan(tmp_path: Path) -> None:
    """A scan of several releases of a package ends with one recommendation and its pins."""
    run = flacheck.scan(
        package="flash-kmeans>=0.2,<0.4",
        kernel="_centroid_update_kernel",
        dtype="bf16",
        configs="usual",
        triton="3.6.0",
        target="h100",
        store=tmp_path,
    )
    summary = run.view.summary
    specs = [each.spec for each in summary.package_releases]
    assert {"flash-kmeans==0.2.0", "flash-kmeans==0.3.1"} <= set(specs)
    assert summary.working_release is not None
    assert summary.working_release.spec == specs[0]
    assert summary.specifiers[0].triton == "triton==3.6.0"
