"""The exit code of a set of records, computed in this one place."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flacheck.analysis.observation import ObservedCell
from flacheck.analysis.standing import find_blocking_failures
from flacheck.errors import Exit
from flacheck.model import Verdict

# An exact toolchain that cannot be had leaves the answer incomplete.
NO_WHEEL = "FC903"
# What went wrong in flacheck or in the question outweighs what was found.
PRECEDENCE = (Exit.FAULT, Exit.USAGE, Exit.EMPTY, Exit.FINDINGS, Exit.INCOMPLETE, Exit.OK)


@dataclass(frozen=True)
class Tally:
    """How many cells ended how. `blocking` are the failures that no other configuration makes up
    for and nothing lets pass, `waived` those that a waiver does, `known` those that a baseline
    does, `missing` the cells whose exact toolchain could not be had; `untested` cells are in none
    of the other counts."""

    compiles: int = 0
    fails: int = 0
    unknown: int = 0
    skipped: int = 0
    blocking: int = 0
    waived_count: int = 0
    known_count: int = 0
    missing: int = 0
    untested_count: int = 0

    @property
    def total(self) -> int:
        return self.compiles + self.fails + self.unknown + self.skipped + self.untested_count


def tally(
    cells: Sequence[ObservedCell],
    waives: Callable[[ObservedCell], bool] = lambda cell: False,
    untested: int = 0,
    knows: Callable[[ObservedCell], bool] = lambda cell: False,
) -> Tally:
    """Count the cells that count and, as a number, the untested ones; a tolerated failure blocks if
    no configuration of its launch compiles."""
    failing = find_blocking_failures(cells)
    counting = [cell for cell in failing if not waives(cell)]
    known = sum(map(knows, counting))
    verdicts = Counter(cell.verdict for cell in cells)
    return Tally(
        compiles=verdicts[Verdict.COMPILES],
        fails=verdicts[Verdict.FAILS],
        unknown=verdicts[Verdict.UNKNOWN],
        skipped=verdicts[Verdict.SKIPPED],
        blocking=len(counting) - known,
        waived_count=len(failing) - len(counting),
        known_count=known,
        missing=sum(cell.verdict is Verdict.UNKNOWN and cell.code == NO_WHEEL for cell in cells),
        untested_count=untested,
    )


def exit_code(counts: Tally, *, strict: bool = False, others: Iterable[Exit] = ()) -> Exit:
    """The public exit code; `others` are codes that the command met on its way (a fault, say)."""
    code = Exit.OK
    undecided = not (counts.compiles or counts.fails)
    if not counts.total:
        code = Exit.EMPTY
    elif counts.blocking:
        code = Exit.FINDINGS
    elif undecided or counts.missing or (strict and counts.unknown):
        code = Exit.INCOMPLETE
    return min((code, *others), key=PRECEDENCE.index)
