"""What every release at hand makes of a specimen, and what follows from comparing them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from statistics import median

from flacheck.analysis.slow import CODE, SECONDS, TIMES
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.model import Record, Verdict


@dataclass(frozen=True)
class ReleaseVerdict:
    """A release's verdict and a failure's signature; seconds do not make two differ."""

    verdict: Verdict
    signature: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @classmethod
    def of(cls, record: Record) -> ReleaseVerdict:
        """What a record says; only a failure has a signature here."""
        signature = None
        if record.verdict is Verdict.FAILS:
            signature = record.signature
        return cls(record.verdict, signature, record.seconds)

    @property
    def compiles(self) -> bool:
        return self.verdict is Verdict.COMPILES

    @property
    def lacks_room(self) -> bool:
        """Whether the compile ended well, for a kernel that asks for more than the GPU has."""
        return (self.signature or "::").split(":")[1] == "load"

    def agrees(self, other: ReleaseVerdict) -> bool:
        """Whether a reduction's verdict is the same for the compiler: a smaller kernel may have
        room where the original, compiled as well, had none."""
        return self == other or (self.lacks_room and other.compiles)

    @property
    def reads_source(self) -> bool:
        """Whether the release gets past the front end."""
        code, stage = (self.signature or "::").split(":")[:2]
        if self.verdict not in (Verdict.COMPILES, Verdict.FAILS):
            return False
        return stage not in ("ast", "import") and not code.startswith("FC1")


# By the release's identity, oldest release first.
Table = dict[str, ReleaseVerdict]


def judge_releases(specimen: Specimen, compilers: Compilers, until: str | None = None) -> Table:
    """What each release makes of a specimen."""
    asked = compilers.compile_on(specimen, compilers.releases, until, jobs=1)
    return {release: ReleaseVerdict.of(record) for release, record in asked}


def contrasts(table: Table, release: str, faster: float = 0.0) -> list[str]:
    """The nearest older and newer release that compile, `faster` by this factor."""
    # Without these releases a reduction slides into another failure that more releases have.
    limit = table[release].seconds
    good = {n for n, at_n in table.items() if at_n.compiles and at_n.seconds * faster <= limit}
    return _nearest(table, release, good)


def neighbours(table: Table, release: str) -> list[str]:
    """The nearest older and newer release that differ from a failing one: that compile, or fail in
    another way. One that cannot read the source says nothing of the failure."""
    here = table[release]
    others = {name for name, there in table.items() if there != here and there.reads_source}
    return _nearest(table, release, others)


def _nearest(table: Table, release: str, names: Container[str]) -> list[str]:
    """The nearest of these releases before and behind another, older first."""
    ordered = list(table)
    at = ordered.index(release)
    older = [name for name in reversed(ordered[:at]) if name in names]
    newer = [name for name in ordered[at + 1 :] if name in names]
    return older[:1] + newer[:1]


def as_slow(record: Record, table: Table) -> Record | None:
    """The record as a finding when it is slow, also beside other releases; else None."""
    others = [o.seconds for name, o in table.items() if o.compiles and name != record.toolchain]
    if record.verdict is not Verdict.COMPILES or not others or record.seconds < SECONDS:
        return None
    usual = median(others)
    if record.seconds < TIMES * usual:
        return None
    times = record.seconds / usual
    message = f"the compile took {record.seconds:.0f} s, {times:.0f} times what other releases take"
    return record.with_(
        verdict=Verdict.FAILS, code=CODE, signature=f"{CODE}:-:-:slow", message=message
    )


def differing(original: Table, reduced: Table) -> list[str]:
    """Releases that judge the two differently, except those that cannot read the original's
    source: an API that a release lacks says nothing of the failure."""
    return [
        name
        for name, verdict in original.items()
        if name in reduced and verdict != reduced[name] and verdict.reads_source
    ]


def join_versions(names: Sequence[str]) -> str:
    """`3.3.0, 3.3.1`: releases without the compiler's name."""
    return ", ".join(name.partition("==")[2] for name in names)
