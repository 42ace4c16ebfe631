"""The order in which releases and targets are shown."""

from __future__ import annotations

from flacheck.evidence.analysis.order import by_target, by_version


def test_releases_and_targets_are_in_their_natural_order() -> None:
    """3.10 follows 3.9, sm100 follows sm90, and AMD follows NVIDIA."""
    assert (
        sorted(["triton==3.10.0", "triton==3.9.0", "triton==dev"], key=by_version)[0]
        == "triton==dev"
    )
    assert sorted(["triton==3.10.0", "triton==3.9.0"], key=by_version) == [
        "triton==3.9.0",
        "triton==3.10.0",
    ]
    assert sorted(["gfx942", "sm100", "gfx90a", "sm90"], key=by_target) == [
        "sm90",
        "sm100",
        "gfx90a",
        "gfx942",
    ]
