"""Pairs of records of two sides."""

from __future__ import annotations

from flacheck.capabilities.diff.matching import match
from tests.made_records import failure, record, unknown

OLD, NEW = "triton==3.1.0", "triton==3.2.0"


def test_what_remains_is_compared_by_kernel_and_dtype_with_the_best_of_each_side() -> None:
    """Cells without an exact partner are paired by their kernel's best verdict."""
    before = [
        failure(toolchain=OLD, options={"num_warps": 2}),
        record(toolchain=OLD, options={"num_warps": 4}),
    ]
    after = [
        unknown(toolchain=NEW, options={"num_warps": 8}),
        failure(toolchain=NEW, options={"num_warps": 16}),
    ]
    (pair,) = match(before, after)
    assert (pair.before, pair.after, pair.exact) == (before[1], after[1], False)


def test_a_cell_left_over_on_one_side_meets_the_best_of_the_other() -> None:
    """A leftover cell is paired with the other side's best cell."""
    both = [record(toolchain=OLD, options={"num_warps": 4})]
    more = [*both, failure(toolchain=OLD, options={"num_warps": 8})]
    after = [record(toolchain=NEW, options={"num_warps": 4})]
    exact, rest = match(more, after)
    assert (exact.before, exact.after, exact.exact) == (both[0], after[0], True)
    assert (rest.before, rest.after, rest.exact) == (more[1], after[0], False)


def test_a_kernel_or_dtype_that_one_side_lacks_stands_alone() -> None:
    """A kernel or dtype of one side alone has no partner."""
    before = [record(toolchain=OLD, dtype="bf16"), record(toolchain=OLD, kernel="a.b:lost")]
    after = [record(toolchain=NEW, dtype="fp32")]
    pairs = match(before, after)
    assert [(pair.before, pair.after) for pair in pairs] == [
        (before[0], None),
        (before[1], None),
        (None, after[0]),
    ]


def test_targets_are_kept_apart() -> None:
    """Records of two targets are never a pair."""
    pairs = match([record(toolchain=OLD, target="sm80")], [record(toolchain=NEW, target="sm90")])
    assert [(pair.before is None, pair.after is None) for pair in pairs] == [
        (False, True),
        (True, False),
    ]
