"""Verdicts of every release on a specimen: tables, contrasts, slow compiles."""

from __future__ import annotations

from flacheck.capabilities.repro import versions
from flacheck.capabilities.repro.versions import ReleaseVerdict
from flacheck.evidence.analysis.slow import TIMES
from flacheck.model import Verdict
from tests.made_records import record
from tests.made_specimens import FAILS, SIGNATURE


def test_slow_is_told_from_other_releases() -> None:
    """Slow is ten seconds and five times the median of the other releases."""
    good = {
        f"triton==3.{n}.0": ReleaseVerdict(Verdict.COMPILES, None, seconds)
        for n, seconds in enumerate((2, 2, 21, 19, 3))
    }
    slow = versions.as_slow(record("compiles", toolchain="triton==3.2.0", seconds=21.0), good)
    assert slow is not None
    assert (slow.code, slow.verdict) == ("FC921", Verdict.FAILS)
    assert versions.contrasts(good, "triton==3.2.0", TIMES) == ["triton==3.1.0", "triton==3.4.0"]
    assert (
        versions.as_slow(record("compiles", toolchain="triton==3.2.0", seconds=9.0), good) is None
    )


def test_a_release_that_cannot_read_the_original_does_not_differ() -> None:
    """A release that cannot read the original does not count as differing."""
    good, bad = ReleaseVerdict(Verdict.COMPILES), ReleaseVerdict(Verdict.FAILS, SIGNATURE)
    unread = ReleaseVerdict(Verdict.FAILS, "FC101:ast:-:2b66fc33")
    original = {"triton==3.1.0": good, FAILS: bad, "triton==3.9.0": unread}
    smaller = {"triton==3.1.0": bad, FAILS: bad, "triton==3.9.0": good}
    assert versions.differing(original, smaller) == ["triton==3.1.0"]


def test_releases_are_listed_without_their_compiler() -> None:
    """Versions are listed without the compiler's name."""
    assert versions.join_versions(["triton==3.1.0", FAILS]) == "3.1.0, 3.2.0"


def test_a_smaller_kernel_may_have_room_where_the_original_had_none() -> None:
    """Exceeding a limit and compiling agree; another failure does not."""
    over = ReleaseVerdict(Verdict.FAILS, "FC501:load:-:1")
    broken = ReleaseVerdict(Verdict.FAILS, "FC301:llir:-:1")
    compiles = ReleaseVerdict(Verdict.COMPILES)
    assert over.agrees(over)
    assert over.agrees(compiles)
    assert not over.agrees(broken)
    assert not compiles.agrees(over)
    assert not broken.agrees(compiles)
