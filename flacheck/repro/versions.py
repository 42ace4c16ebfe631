"""What every release at hand makes of a specimen or of the cell it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from flacheck.model import Json, Record, Verdict
from flacheck.repro.compilers import Compilers
from flacheck.repro.kernel.specimen import Specimen


@dataclass(frozen=True)
class Outcome:
    """One release's verdict, the signature of a failure, and the seconds it took, which do not make
    a difference.
    """

    verdict: Verdict
    signature: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @staticmethod
    def of(record: Record) -> Outcome:
        signature = record.signature if record.verdict is Verdict.FAILS else None
        return Outcome(record.verdict, signature, record.seconds)

    @property
    def compiles(self) -> bool:
        return self.verdict is Verdict.COMPILES

    def to_json(self) -> Json:
        return {"verdict": self.verdict.value, "signature": self.signature}


Table = dict[str, Outcome]


def table(releases: Iterable[str], ask: Callable[[str], Record]) -> Table:
    """The outcome on each release, in their order."""
    return {release: Outcome.of(ask(release)) for release in releases}


def of_specimen(specimen: Specimen, compilers: Compilers) -> Table:
    """What each release makes of a specimen, compiled to its end."""
    return table(compilers.releases, lambda release: compilers.compile(specimen, release))


def contrasts(found: Table, release: str) -> list[str]:
    """The nearest older and the nearest newer release that compile: what must keep compiling."""
    names = list(found)
    at = names.index(release)
    older = [name for name in reversed(names[:at]) if found[name].compiles]
    newer = [name for name in names[at + 1 :] if found[name].compiles]
    return older[:1] + newer[:1]


def differing(original: Table, reduced: Table) -> list[str]:
    """Releases that judge the two differently, those left out that cannot read the original's
    source.
    """
    return [
        name
        for name in original
        if name in reduced and original[name] != reduced[name] and _loads(original[name])
    ]


def _loads(outcome: Outcome) -> bool:
    """Whether the release gets past the front end: an API that it lacks says nothing of the
    failure.
    """
    front = outcome.signature is not None and outcome.signature.split(":")[1] in ("ast", "import")
    return outcome.verdict in (Verdict.COMPILES, Verdict.FAILS) and not front


def listed(names: Sequence[str]) -> str:
    """`3.3.0, 3.3.1`: releases without the compiler's name."""
    return ", ".join(name.partition("==")[2] for name in names)
