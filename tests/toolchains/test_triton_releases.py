"""The targets and Pythons of each release of Triton."""

from __future__ import annotations

import platform

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.rules import RULES
from flacheck.toolchains import index, triton_releases


def test_old_releases_refuse_new_targets() -> None:
    """Each refusal names the first release with the target; all other targets are accepted."""
    later = {"sm103", "sm110", "sm121"}
    blackwell = {"sm100", "sm120", *later}
    assert set(triton_releases.refusals(Version("3.1.0"))) == {*blackwell, "gfx950"}
    assert set(triton_releases.refusals(Version("3.2.0"))) == blackwell
    assert set(triton_releases.refusals(Version("3.3.0"))) == later
    assert set(triton_releases.refusals(Version("3.6.0"))) == {"sm110"}
    assert triton_releases.refusals(Version("3.7.0")) == {}
    assert (
        triton_releases.refusals(Version("3.2.0"))["sm100"]
        == "Triton 3.2.0 does not support sm100 (from 3.3.0 on)"
    )


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_elsewhere_than_on_linux_no_python_has_a_wheel(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names the system, and proposes no other Python."""
    monkeypatch.setattr(platform, "system", lambda: system)
    choice = triton_releases.exact(Version("3.2.0"))
    assert choice.reason is not None
    assert choice.reason.startswith(f"no wheel for {system}; Triton's wheels are for Linux")
    monkeypatch.setattr(index, "available", lambda *_: [])
    resolution = triton_releases.matching(SpecifierSet(">=3.2,<3.4"))
    assert resolution.choices == ()
    assert all(f"no wheel for {system};" in warning for warning in resolution.warnings)
    assert "Python" not in choice.reason.join(resolution.warnings)


def test_the_remedy_fits_a_python_that_is_too_old_and_another_system() -> None:
    """An older Python is not proposed, since Triton 3.9.0 has no wheel for Python 3.10."""
    assert "older Python" not in RULES["FC903"].remedy
    assert "Linux" in RULES["FC903"].remedy
