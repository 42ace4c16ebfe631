"""The only place that computes the exit code of a set of records."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flacheck.errors import Exit
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.model import Verdict

# An exact toolchain that cannot be installed makes the result incomplete.
NO_WHEEL = "FC903"
# Faults of flacheck and of the question outweigh findings.
PRECEDENCE = (Exit.FAULT, Exit.USAGE, Exit.EMPTY, Exit.FINDINGS, Exit.INCOMPLETE, Exit.OK)


@dataclass(frozen=True)
class Tally:
    """The numbers of cells by outcome.

    `blocking` are the failures that no other configuration, waiver or baseline covers,
    `waived_count` those that a waiver covers, `known_count` those that a baseline covers, `missing`
    the cells whose exact toolchain could not be installed; the `untested_count` cells are in none
    of the other counts.
    """

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
    untested_count: int = 0,
    in_baseline: Callable[[ObservedCell], bool] = lambda cell: False,
) -> Tally:
    """Count the cells, and the untested ones as a number.

    A tolerated failure blocks if no configuration of its launch compiles.
    """
    blocking_count = waived_count = known_count = missing_count = 0
    for cell in find_blocking_failures(cells):
        if waives(cell):
            waived_count += 1
        elif in_baseline(cell):
            known_count += 1
        else:
            blocking_count += 1
    verdicts = Counter[Verdict]()
    for cell in cells:
        verdicts[cell.verdict] += 1
        if cell.verdict is Verdict.UNKNOWN and cell.code == NO_WHEEL:
            missing_count += 1
    return Tally(
        compiles=verdicts[Verdict.COMPILES],
        fails=verdicts[Verdict.FAILS],
        unknown=verdicts[Verdict.UNKNOWN],
        skipped=verdicts[Verdict.SKIPPED],
        blocking=blocking_count,
        waived_count=waived_count,
        known_count=known_count,
        missing=missing_count,
        untested_count=untested_count,
    )


def exit_code(counts: Tally, *, strict: bool = False, others: Iterable[Exit] = ()) -> Exit:
    """Return the public exit code; `others` are codes of earlier steps, such as a fault."""
    code = Exit.OK
    is_undecided = not (counts.compiles or counts.fails)
    if not counts.total:
        code = Exit.EMPTY
    elif counts.blocking:
        code = Exit.FINDINGS
    elif is_undecided or counts.missing or (strict and counts.unknown):
        code = Exit.INCOMPLETE
    return min((code, *others), key=PRECEDENCE.index)
