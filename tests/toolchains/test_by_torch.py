"""Triton releases by the torch releases that require them."""

from __future__ import annotations

import importlib.metadata

import pytest
from packaging.version import Version

from flacheck import toolchains
from flacheck.errors import UsageError
from flacheck.toolchains import by_torch, cache, index, torch_pins, triton_releases


@pytest.fixture(autouse=True)
def shipped_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shipped table only; every release has a wheel, and the index is not read."""
    monkeypatch.setattr(cache, "read_json", lambda name: {})
    monkeypatch.setattr(torch_pins, "refresh", lambda **_: None)
    releases = [Version(text) for text in triton_releases.known_releases()]
    monkeypatch.setattr(index, "available", lambda *_: releases)
    monkeypatch.setattr(triton_releases, "missing_wheel_reason", lambda version: None)


def names(spec: str) -> list[str]:
    return [choice.identity for choice in toolchains.resolve([spec]).choices]


@pytest.mark.parametrize(
    ("message", "spec", "releases"),
    [
        ("2.9", "torch==2.9.*", ["3.5.0", "3.5.1"]),
        ("2.9.1", "torch==2.9.1", ["3.5.1"]),
        (" torch==2.6.0", "torch==2.6.0", ["3.2.0"]),
        ("==2.9.*", "torch==2.9.*", ["3.5.0", "3.5.1"]),
        (">=2.5,<2.9", "torch>=2.5,<2.9", ["3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0"]),
        ("~=2.12.0", "torch~=2.12.0", ["3.7.0", "3.7.1"]),
        # Two releases of torch that require one of Triton, by a range.
        ("2.14", "torch==2.14.*", ["3.8.0"]),
    ],
)
def test_torch_stands_for_the_triton_that_it_requires(
    message: str, spec: str, releases: list[str]
) -> None:
    """X.Y is every patch release of it."""
    assert by_torch.parse_requirement(message) == spec
    assert names(spec) == [f"triton=={release}" for release in releases]


def test_the_installed_torch_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public version is used; without an installed torch it is a UsageError."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.9.1+cpu")
    assert by_torch.parse_requirement("installed") == "torch==2.9.1"

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(UsageError, match="no torch is installed"):
        by_torch.parse_requirement("installed")


def test_what_is_no_version_of_torch_is_refused() -> None:
    """The message shows valid forms."""
    with pytest.raises(UsageError, match=r"--torch newest: expected a version \(2\.9 or 2\.9\.1\)"):
        by_torch.parse_requirement("newest")
    with pytest.raises(UsageError, match="is not a toolchain"):
        toolchains.resolve(["torch>=two"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torch==2.99.*", "no release of torch matches ==2.99.*; there are 2.14.1, 2.15.0"),
        ("torch==2.9.7", "there are 2.9.0, 2.9.1, 2.10.0, 2.11.0"),
        ("torch<2.4", "no release of torch matches <2.4; there are 2.4.0, 2.4.1"),
    ],
)
def test_a_torch_that_does_not_exist_is_named_with_its_neighbours(spec: str, message: str) -> None:
    """Exit code 2."""
    with pytest.raises(UsageError) as error:
        toolchains.resolve([spec])
    assert message in str(error.value)


@pytest.mark.parametrize("spec", ["2.12", "triton==2.12", "2.9.1", ">=2.5,<2.9"])
def test_torchs_numbers_for_triton_ask_whether_torch_was_meant(spec: str) -> None:
    """The error proposes torch, since there is no such Triton and a guess would be another
    request."""
    with pytest.raises(UsageError, match=r"there is torch .*: did you mean --torch "):
        toolchains.resolve([spec])


def test_a_required_release_without_a_wheel_is_unknown_or_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An exact version is a choice with a reason, and in a range it is left out with a warning."""
    monkeypatch.setattr(
        triton_releases, "missing_wheel_reason", lambda version: "no wheel for this Python"
    )
    monkeypatch.setattr(index, "available", lambda *_: [Version("3.5.1")])
    (choice,) = toolchains.resolve(["torch==2.8.0"]).choices
    assert choice.reason == "no wheel for this Python"
    resolution = toolchains.resolve(["torch>=2.8,<2.10"])
    assert [choice.version for choice in resolution.choices] == ["3.5.1"]
    assert [warning for warning in resolution.warnings if "3.4.0 is left out" in warning]
