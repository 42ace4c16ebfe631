"""What the records say of a Triton release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flacheck.analysis.groups import SignatureGroup, by_signature
from flacheck.analysis.known_good import grouped, is_good, unserved
from flacheck.analysis.observed import Observed
from flacheck.analysis.order import by_target
from flacheck.model import Verdict

# (kernels, triton, target) → what is known against some of these kernels there.
Advise = Callable[[Iterable[str], str, str], Sequence[str]]


class ReleaseState(str, Enum):
    """What the records come to, over all targets that count."""

    GOOD = "good"
    # Good, but something is known against it that no compile shows.
    ADVISED = "advised"
    # A kernel fails, and nothing makes up for it.
    BAD = "bad"
    # No verdict either way.
    UNTESTED = "untested"


@dataclass(frozen=True)
class JudgedRelease:
    """A Triton release, or `>3.9.0` and the like for those nobody knows, by its records.

    `failures` are those that count, `waived` says how many cells fail with leave, `why` what is
    missing of an untested release; `torch` are the releases that it may come with.
    """

    triton: str
    state: ReleaseState
    failures: tuple[SignatureGroup, ...] = ()
    advisories: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    cells: int = 0
    waived: int = 0
    why: str = ""
    torch: tuple[str, ...] = ()

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(group.code for group in self.failures))

    @property
    def kernels(self) -> list[str]:
        return sorted({kernel for group in self.failures for kernel in group.kernels})


def judge_release(
    triton: str,
    cells: Sequence[Observed],
    targets: Sequence[str],
    waives: Callable[[Observed], bool],
    advise: Advise,
) -> JudgedRelease:
    """A release by its cells. `targets` must all be good; empty, those count that it has cells of.
    `waives` says which failing cells are let pass.
    """
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
    return JudgedRelease(
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
