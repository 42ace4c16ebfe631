"""The verdicts of all releases on a specimen, and comparisons of them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from statistics import median

from flacheck.evidence.analysis.slow import CODE, SECONDS, TIMES
from flacheck.model import Record, Verdict


@dataclass(frozen=True)
class ReleaseVerdict:
    """A release's verdict with a failure's signature; comparisons ignore the seconds."""

    verdict: Verdict
    signature: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @classmethod
    def of(cls, record: Record) -> ReleaseVerdict:
        """Return the verdict of a record; only a failure has a signature here."""
        signature = None
        if record.verdict is Verdict.FAILS:
            signature = record.signature
        return cls(record.verdict, signature, record.compile_seconds)

    @property
    def compiles(self) -> bool:
        return self.verdict is Verdict.COMPILES

    @property
    def lacks_room(self) -> bool:
        """True if the compile ended well, but the kernel requires more than the GPU has."""
        return (self.signature or "::").split(":")[1] == "load"

    def agrees(self, other: ReleaseVerdict) -> bool:
        """Return True if a reduction's verdict matches for the compiler.

        A smaller kernel may fit the GPU where the original compiled but did not fit.
        """
        return self == other or (self.lacks_room and other.compiles)

    @property
    def reads_source(self) -> bool:
        """True if the release gets past the front end."""
        code, stage = (self.signature or "::").split(":")[:2]
        if self.verdict not in (Verdict.COMPILES, Verdict.FAILS):
            return False
        return stage not in ("ast", "import") and not code.startswith("FC1")


def has_verdict(outcome: ReleaseVerdict | None) -> bool:
    """Return True if a release compiled a kernel or failed to, in the time that it had."""
    return outcome is not None and outcome.verdict in (Verdict.COMPILES, Verdict.FAILS)


# By the release's identity, oldest release first.
Table = dict[str, ReleaseVerdict]


def contrasts(table: Table, release: str, faster: float = 0.0) -> list[str]:
    """Return the nearest older and newer release that compile, `faster` by this factor."""
    # Without these releases a reduction slides into another failure that more releases have.
    limit = table[release].seconds
    good = set()
    for name, there in table.items():
        if there.compiles and there.seconds * faster <= limit:
            good.add(name)
    return _nearest(table, release, good)


def neighbours(table: Table, release: str) -> list[str]:
    """Return the nearest older and newer release that compile or fail in another way.

    A release that cannot read the source is left out: its verdict is unrelated to the failure.
    """
    here = table[release]
    others = {name for name, there in table.items() if there != here and there.reads_source}
    return _nearest(table, release, others)


def _nearest(table: Table, release: str, names: Container[str]) -> list[str]:
    """Return the nearest of these releases before and after another, older first."""
    releases = list(table)
    at = releases.index(release)
    older = [name for name in releases[:at] if name in names]
    newer = [name for name in releases[at + 1 :] if name in names]
    return older[-1:] + newer[:1]


def as_slow(record: Record, table: Table) -> Record | None:
    """Return the record as a finding if it is slow, also beside other releases; else None."""
    others = []
    for name, there in table.items():
        if there.compiles and name != record.toolchain:
            others.append(there.seconds)
    if record.verdict is not Verdict.COMPILES or not others:
        return None
    seconds, usual = record.compile_seconds, median(others)
    if seconds < SECONDS or seconds < TIMES * usual:
        return None
    times = seconds / usual
    message = f"the compile took {seconds:.0f} s, {times:.0f} times what other releases take"
    return record.with_(
        verdict=Verdict.FAILS, code=CODE, signature=f"{CODE}:-:-:slow", message=message
    )


def differing(original: Table, reduction: Table) -> list[str]:
    """Return the releases with different verdicts on the two.

    Releases that cannot read the original's source are left out: an API that a release lacks is
    unrelated to the failure.
    """
    names = []
    for name, verdict in original.items():
        if name in reduction and verdict != reduction[name] and verdict.reads_source:
            names.append(name)
    return names


def join_versions(names: Sequence[str]) -> str:
    """Return `3.3.0, 3.3.1`: releases without the compiler's name."""
    return ", ".join(name.partition("==")[2] for name in names)
