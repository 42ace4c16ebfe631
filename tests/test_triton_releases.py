"""What each release of Triton knows."""

from __future__ import annotations

from packaging.version import Version

from flacheck.toolchains import triton_releases


def test_old_releases_refuse_new_targets() -> None:
    """Each refusal names the first release that knows the target; everything else is known."""
    assert set(triton_releases.refusals(Version("3.1.0"))) == {"sm100", "sm120", "gfx950"}
    assert set(triton_releases.refusals(Version("3.2.0"))) == {"sm100", "sm120"}
    assert triton_releases.refusals(Version("3.3.0")) == {}
    assert (
        triton_releases.refusals(Version("3.2.0"))["sm100"]
        == "Triton 3.2.0 does not know sm100 (from 3.3.0 on)"
    )
