"""What the records say of a Triton release: good, bad, untested, or good with an advisory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flacheck.analysis.groups import SignatureGroup, by_signature
from flacheck.analysis.known_good import grouped, is_good, unserved
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target, split
from flacheck.model import Verdict

Advise = Callable[[Iterable[str], str, str], Sequence[str]]


class ReleaseState(str, Enum):
    """`good`: known good on every target that counts. `advised`: good, but something is known
    against it that no compile shows. `bad`: a kernel fails that nothing makes up for. `untested`:
    no verdict either way.
    """

    GOOD = "good"
    BAD = "bad"
    UNTESTED = "untested"
    ADVISED = "advised"


@dataclass(frozen=True)
class Standing:
    """A Triton release with what its records come to. `failures` are those that count, `waived` how
    many cells fail with leave; `why` says what is missing of an untested one.
    """

    triton: str
    state: ReleaseState
    failures: tuple[SignatureGroup, ...] = ()
    advisories: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    cells: int = 0
    waived: int = 0
    why: str = ""

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(group.code for group in self.failures))

    @property
    def kernels(self) -> list[str]:
        return sorted({kernel for group in self.failures for kernel in group.kernels})


@dataclass(frozen=True)
class Judge:
    """`targets` are those that must all be good; empty, those that a release has records of.
    `waives` says which failing cells are let pass; `advise(kernels, triton, target)` names known
    miscompiles.
    """

    targets: tuple[str, ...] = ()
    waives: Callable[[Observed], bool] = lambda cell: False
    advise: Advise = lambda kernels, triton, target: ()

    def standings(self, cells: Sequence[Observed]) -> dict[str, Standing]:
        """Each Triton release that has a record, by its version."""
        triton = grouped(
            (split(cell.toolchain)[1], cell)
            for cell in cells
            if split(cell.toolchain)[0] == "triton"
        )
        return {version: self.standing(version, found) for version, found in triton.items()}

    def standing(self, version: str, cells: Sequence[Observed]) -> Standing:
        """One release, by all its cells."""
        places = grouped(
            (cell.target, cell) for cell in cells if not self.targets or cell.target in self.targets
        )
        failing = [cell for found in places.values() for cell in unserved(found)]
        waived = {cell.key for cell in failing if self.waives(cell)}
        blocking = [cell for cell in failing if cell.key not in waived]
        reasons = list(self._missing(places, waived))
        state = (
            ReleaseState.BAD
            if blocking
            else ReleaseState.UNTESTED
            if reasons
            else ReleaseState.GOOD
        )
        advisories = self._advisories(version, places) if state is ReleaseState.GOOD else ()
        return Standing(
            triton=version,
            state=ReleaseState.ADVISED if advisories else state,
            failures=tuple(by_signature(blocking)),
            advisories=advisories,
            targets=tuple(
                sorted((target for target, found in places.items() if _tried(found)), key=by_target)
            ),
            cells=sum(_tried(found) for found in places.values()),
            waived=len(waived),
            why="; ".join(reasons) if state is ReleaseState.UNTESTED else "",
        )

    def _missing(self, places: Mapping[str, Sequence[Observed]], waived: set[str]) -> Iterable[str]:
        """Why no target, or not every one that must be, is known to compile."""
        tried = {
            target: [c for c in found if c.verdict is not Verdict.SKIPPED]
            for target, found in places.items()
        }
        for target in self.targets or sorted(
            (target for target, found in tried.items() if found), key=by_target
        ):
            rest = [cell for cell in tried.get(target, ()) if cell.key not in waived]
            if not tried.get(target):
                yield f"no record on {target}"
            elif rest and not is_good(rest):
                yield f"{target}: {_undecided(rest)}"
        if not self.targets and not any(tried.values()):
            yield "no record" if not places else "only skipped cells"

    def _advisories(
        self, version: str, places: Mapping[str, Sequence[Observed]]
    ) -> tuple[str, ...]:
        said = (
            text
            for target, found in places.items()
            if _tried(found)
            for text in self.advise({cell.kernel for cell in found}, version, target)
        )
        return tuple(dict.fromkeys(said))


NO_RECORD = "no record"


def untested(triton: str, why: str = NO_RECORD) -> Standing:
    """A release that nobody tried."""
    return Standing(triton, ReleaseState.UNTESTED, why=why)


def _tried(cells: Sequence[Observed]) -> int:
    return sum(cell.verdict is not Verdict.SKIPPED for cell in cells)


def _undecided(cells: Sequence[Observed]) -> str:
    count = sum(cell.verdict is Verdict.UNKNOWN for cell in cells)
    return f"{count} cell{'s' * (count != 1)} without a verdict"
