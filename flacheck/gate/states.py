"""What the records say of a Triton release: good, bad, untested, or good with an advisory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flacheck.analysis.groups import SignatureGroup, by_signature
from flacheck.analysis.known_good import grouped, is_good, unserved
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target, split
from flacheck.model import Verdict

# (kernels, triton, target) → what is known against some of these kernels there.
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


def standings(
    cells: Iterable[Observed],
    targets: Sequence[str],
    waives: Callable[[Observed], bool],
    advise: Advise,
) -> dict[str, Standing]:
    """Each Triton release that has a cell, by its version.

    `targets` must all be good; empty, those count that a release has cells of. `waives` says which
    failing cells are let pass.
    """
    of_release = grouped(
        (split(cell.toolchain)[1], cell) for cell in cells if split(cell.toolchain)[0] == "triton"
    )
    return {
        triton: _standing(triton, mine, targets, waives, advise)
        for triton, mine in of_release.items()
    }


def _standing(
    triton: str,
    cells: Sequence[Observed],
    targets: Sequence[str],
    waives: Callable[[Observed], bool],
    advise: Advise,
) -> Standing:
    on_target = grouped(
        (cell.target, cell) for cell in cells if not targets or cell.target in targets
    )
    failing = [cell for mine in on_target.values() for cell in unserved(mine)]
    waived = {cell.key for cell in failing if waives(cell)}
    blocking = [cell for cell in failing if cell.key not in waived]
    tried = {target: _tried(mine) for target, mine in on_target.items() if _tried(mine)}
    missing = list(_missing(tried, targets, waived, recorded=bool(on_target)))
    advisories: tuple[str, ...] = ()
    why = ""
    if blocking:
        state = ReleaseState.BAD
    elif missing:
        state = ReleaseState.UNTESTED
        why = "; ".join(missing)
    else:
        told = [
            text
            for target in tried
            for text in advise({cell.kernel for cell in on_target[target]}, triton, target)
        ]
        advisories = tuple(dict.fromkeys(told))
        state = ReleaseState.ADVISED if advisories else ReleaseState.GOOD
    return Standing(
        triton=triton,
        state=state,
        failures=tuple(by_signature(blocking)),
        advisories=advisories,
        targets=tuple(sorted(tried, key=by_target)),
        cells=sum(map(len, tried.values())),
        waived=len(waived),
        why=why,
    )


def _tried(cells: Sequence[Observed]) -> list[Observed]:
    """A skipped cell was not asked, so it says nothing."""
    return [cell for cell in cells if cell.verdict is not Verdict.SKIPPED]


def _missing(
    tried: Mapping[str, Sequence[Observed]],
    targets: Sequence[str],
    waived: set[str],
    recorded: bool,
) -> Iterator[str]:
    """Why no target, or not every one that must be, is known to compile."""
    for target in targets or sorted(tried, key=by_target):
        if target not in tried:
            yield f"no record on {target}"
            continue
        # Where every cell is waived, there is nothing left to ask of the target.
        rest = [cell for cell in tried[target] if cell.key not in waived]
        if rest and not is_good(rest):
            undecided = sum(cell.verdict is Verdict.UNKNOWN for cell in rest)
            cells = "cell" if undecided == 1 else "cells"
            yield f"{target}: {undecided} {cells} without a verdict"
    if not targets and not tried:
        yield "only skipped cells" if recorded else "no record"
