"""The exit code of a set of records."""

from __future__ import annotations

import itertools

import pytest

from flacheck.errors import Exit
from flacheck.evidence.analysis.exit_code import Tally, exit_code, tally
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.summary import summarise
from flacheck.model import Record
from tests.made_records import (
    CONTEXT,
    failure,
    record,
    skipped,
    unknown,
)


@pytest.mark.parametrize(
    ("cells", "strict", "code"),
    [
        ([], False, Exit.EMPTY),
        ([record()], True, Exit.OK),
        ([record(), failure(target="sm80")], False, Exit.FINDINGS),
        ([record(), failure("FC501", tolerated=True, options={"num_warps": 8})], True, Exit.OK),
        ([failure("FC501", tolerated=True)], False, Exit.FINDINGS),
        ([record(target="sm80"), failure("FC501", tolerated=True)], False, Exit.FINDINGS),
        (
            [record(toolchain="triton==3.1.0"), failure("FC501", tolerated=True)],
            False,
            Exit.FINDINGS,
        ),
        ([unknown()], False, Exit.INCOMPLETE),
        ([skipped()], False, Exit.INCOMPLETE),
        ([record(), unknown(target="sm80")], False, Exit.OK),
        ([record(), unknown(target="sm80")], True, Exit.INCOMPLETE),
        ([record(), unknown("FC903", "no wheel", target="sm80")], False, Exit.INCOMPLETE),
        ([failure(), unknown("FC903", "no wheel", target="sm80")], True, Exit.FINDINGS),
        ([record(), skipped(target="sm120")], True, Exit.OK),
    ],
)
def test_exit_codes(cells: list[Record], strict: bool, code: Exit) -> None:
    """The exit code is that of the contract's table."""
    assert exit_code(summarise(cells, CONTEXT).tally, strict=strict) is code


def test_exit_codes_take_precedence() -> None:
    """70 comes before 2, then 1, 3 and 0."""
    order = [Exit.FAULT, Exit.USAGE, Exit.FINDINGS, Exit.INCOMPLETE, Exit.OK]
    assert exit_code(Tally(compiles=1)) is Exit.OK
    for higher, lower in itertools.combinations(order, 2):
        assert exit_code(Tally(compiles=1), others=[lower, higher]) is higher
    assert (
        exit_code(Tally(compiles=1, fails=1, blocking=1), others=[Exit.INCOMPLETE]) is Exit.FINDINGS
    )


def test_cells_are_counted_by_outcome_and_excuse() -> None:
    """A waiver counts before a baseline."""
    records = [
        record(),
        record(options={"num_warps": 2}),
        failure("FC302", kernel="m:blocking"),
        failure("FC302", kernel="m:waived"),
        failure("FC302", kernel="m:known"),
        failure("FC302", kernel="m:both"),
        unknown(kernel="m:slow"),
        unknown("FC903", "no wheel", kernel="m:missing"),
        skipped(kernel="m:skipped"),
    ]
    counts = tally(
        observe(records),
        lambda cell: cell.kernel in ("m:waived", "m:both"),
        5,
        lambda cell: cell.kernel in ("m:known", "m:both"),
    )
    assert counts == Tally(
        compiles=2,
        fails=4,
        unknown=2,
        skipped=1,
        blocking=1,
        waived_count=2,
        known_count=1,
        missing=1,
        untested_count=5,
    )
    assert counts.total == 14
