"""What every release at hand makes of a specimen, and what follows from comparing them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from flacheck.analysis.slow import CODE, SECONDS, TIMES
from flacheck.model import Record, Verdict
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen


@dataclass(frozen=True)
class ReleaseVerdict:
    """A release's verdict and a failure's signature; seconds do not make two differ."""

    verdict: Verdict
    signature: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def compiles(self) -> bool:
        return self.verdict is Verdict.COMPILES

    @property
    def reads_source(self) -> bool:
        """Whether the release gets past the front end."""
        stage = (self.signature or "::").split(":")[1]
        return self.verdict in (Verdict.COMPILES, Verdict.FAILS) and stage not in ("ast", "import")


# By the release's identity, oldest release first.
Table = dict[str, ReleaseVerdict]


def judged(specimen: Specimen, compilers: Compilers, until: str | None = None) -> Table:
    """What each release makes of a specimen."""
    table = {}
    for release in compilers.releases:
        record = compilers.compile(specimen, release, until)
        signature = None
        if record.verdict is Verdict.FAILS:
            signature = record.signature
        table[release] = ReleaseVerdict(record.verdict, signature, record.seconds)
    return table


def contrasts(table: Table, release: str, faster: float = 0.0) -> list[str]:
    """The nearest older and newer release that compile, `faster` by this factor."""
    # Without these releases a reduction slides into another failure that more releases have.
    names, limit = list(table), table[release].seconds
    at = names.index(release)
    good = {n for n, at_n in table.items() if at_n.compiles and at_n.seconds * faster <= limit}
    older = [name for name in reversed(names[:at]) if name in good]
    newer = [name for name in names[at + 1 :] if name in good]
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


def listed(names: Sequence[str]) -> str:
    """`3.3.0, 3.3.1`: releases without the compiler's name."""
    return ", ".join(name.partition("==")[2] for name in names)
