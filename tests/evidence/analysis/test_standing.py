"""Standings: good only if complete, else partial; untested cells are not evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.analysis.untested_cells import group_untested, why_untested
from flacheck.model import KeySet, Question, Record, RequestedCells
from tests.made_records import failure, record, skipped, unknown

OTHER = {"kernel": "m:other"}
LACKING = {"code": "FC000", "title": "unrecognised failure", "facts": {"api": "tl.dot"}}


def stands(
    records: list[Record],
    requested: list[Record] | None = None,
    made_up: list[Record] | None = None,
) -> Standing:
    """Return the standing of a question for `requested`, of which `records` are stored."""
    cells = records if requested is None else requested
    keys = KeySet(
        {each.key: each.kernel for each in cells}, frozenset(r.key for r in made_up or ())
    )
    place = RequestedCells("triton==3.2.0", "sm90", len(cells), keys.digest)
    return standing(Question("quick"), place, keys, records)


def test_a_question_with_a_cell_missing_is_partial() -> None:
    """A question with a missing cell is partial."""
    requested_records = [record(), record(**OTHER)]
    outcome = stands(requested_records[:1], requested_records)
    assert (outcome.is_partial, outcome.is_good, outcome.progress) == (True, False, "1/2")
    assert outcome.obstacle == "partial: 1/2 cells answered"
    assert stands(requested_records).is_good


def test_a_question_whose_keys_nobody_knows_is_partial() -> None:
    """A question without stored keys is partial, of unknown size."""
    place = RequestedCells("triton==3.2.0", "sm90")
    outcome = standing(Question("quick"), place, None, [record()], "scan again")
    assert (outcome.is_good, outcome.progress) == (False, "1/?")
    assert outcome.obstacle == "partial: 1/? cells answered (scan again)"
    assert standing(Question("quick"), place, None, []).progress == "?/?"


def test_a_failure_is_said_before_what_is_missing() -> None:
    """A partial question with a failure names the failure first."""
    requested_records = [failure(), record(**OTHER)]
    outcome = stands(requested_records[:1], requested_records)
    assert [cell.key for cell in outcome.failing] == [requested_records[0].key]
    assert outcome.obstacle == "1 cell fails, 1/2 answered"


def test_a_configuration_without_a_verdict_matters_only_alone() -> None:
    """A timeout matters only if no other configuration of the launch compiles."""
    with_timeout = stands([record(), unknown(options={"num_warps": 8})])
    assert with_timeout.is_good
    assert [cell.code for cell in with_timeout.timed_out] == ["FC901"]
    alone = stands([record(), unknown(**OTHER)])
    assert not alone.is_good
    assert alone.obstacle == "1 cell without a verdict"


@pytest.mark.parametrize(
    ("cell_record", "reason"),
    [
        (failure("FC000", stage="ast"), "the made-up arguments may not fit the kernel"),
        (failure("FC104", stage="ast"), "the made-up arguments may not fit the kernel"),
        (failure("FC101", stage="ast"), None),
        (failure("FC107", stage="ast"), None),
        (failure("FC000", stage="ast", findings=(LACKING,)), None),
        (failure("FC603", stage="import"), None),
        (failure("FC000", stage="autotune"), "the made-up arguments may not fit the kernel"),
        (failure("FC601", stage="autotune"), None),
        (failure("FC000", stage="autotune", signal="SIGABRT"), None),
        (failure("FC000", stage="import"), "the made-up arguments may not fit the kernel"),
        (
            failure("FC401", stage="cubin"),
            "the made-up dtypes may not occur on this GPU",
        ),
        (failure("FC302", stage="ttgir"), None),
        (
            failure("FC314", stage="llir", signal="SIGABRT"),
            "the made-up dtypes do not fit the kernel's inline assembly",
        ),
        (failure("FC000", stage="ttir"), "the made-up arguments may not fit the kernel"),
        (failure("FC201", stage="ttgir"), None),
        (failure("FC000", stage="ast", signal="SIGABRT"), None),
        (failure("FC501", stage="load"), "the made-up sizes need more than the GPU has"),
        (unknown(), "time-out after 300 s"),
        (unknown("FC903", "no wheel"), None),
        (record(), None),
        (skipped(), None),
    ],
)
def test_what_made_up_arguments_may_have_caused_is_untested(
    cell_record: Record, reason: str | None
) -> None:
    """A removed API, a crash or a failing pass counts, also for invented arguments."""
    outcome = stands([cell_record], made_up=[cell_record])
    (cell,) = (*outcome.cells, *outcome.untested_cells)
    assert why_untested(cell) == reason
    assert why_untested(replace(cell, made_up=False)) is None


def test_untested_counts_neither_for_nor_against() -> None:
    """Untested cells leave a release screened, neither good nor bad."""
    cell_record = failure("FC000", stage="ast", **OTHER)
    beside = stands([record(), cell_record], made_up=[cell_record])
    assert (beside.is_good, beside.is_passing) == (False, True)
    assert beside.obstacle == "screened: 1 of 2 configurations, 1 of 2 kernels"
    assert [each.to_json() for each in group_untested(beside.untested_cells)] == [
        {
            "kernel": "m:other",
            "package": cell_record.package,
            "toolchain": "triton==3.2.0",
            "target": "sm90",
            "reason": "the made-up arguments may not fit the kernel",
            "cells": 1,
        }
    ]
    alone = stands([cell_record], made_up=[cell_record])
    assert (alone.is_good, alone.obstacle) == (False, "only untested cells")


def test_a_made_up_launch_that_compiles_counts_as_compiled() -> None:
    """An invented launch that compiles counts, with its tolerated configurations."""
    good = record()
    large = failure("FC501", tolerated=True, stage="load", options={"num_warps": 8})
    outcome = stands([good, large], made_up=[good, large])
    assert outcome.is_good
    assert outcome.untested_cells == ()


@pytest.mark.parametrize("reason", ["up to ttgir", "up to ptx"])
def test_a_compile_that_was_stopped_early_makes_nothing_good(reason: str) -> None:
    """A compile stopped by --until does not make a release good."""
    outcome = stands([record(), record(**OTHER, reason=reason)])
    assert not outcome.is_good
    assert outcome.obstacle == "1 cell compiled with --until, not to the end"


def test_a_launch_that_only_was_skipped_is_not_compiled() -> None:
    """A skipped launch leaves the release screened."""
    more: dict[str, Any] = OTHER
    assert stands([record(), skipped(**more)]).obstacle == (
        "screened: 1 of 2 configurations, 1 of 2 kernels"
    )
    assert stands([skipped()]).obstacle == "only skipped cells"


def tuned_record(split: int, verdict: str = "skipped", **more: Any) -> Record:
    """Return a configuration's record, by default one that the autotuner skips for memory."""
    plain: dict[str, Any] = {"constexprs": {"SPLIT": split}, "shape": {}, **more}
    if verdict == "skipped":
        return failure("FC501", tolerated=True, stage="load", **plain)
    return record(verdict, **plain)


def stands_by(
    records: list[Record], others: list[Record], made_up: bool = False, first: Record | None = None
) -> Standing:
    """Return the standing of a question for one configuration with these alternatives."""
    first = first or tuned_record(1)
    keys = [first.key, *(other.key for other in others)]
    invented_keys = frozenset(keys) if made_up else frozenset[str]()
    key_set = KeySet({first.key: first.kernel}, invented_keys, {first.key: keys[1:]})
    place = RequestedCells("triton==3.2.0", "sm90", 1, key_set.digest)
    return standing(Question("fla==1"), place, key_set, records)


def test_where_the_configuration_asked_is_skipped_another_answers() -> None:
    """The first alternative that compiles is the answer."""
    second, third, fourth = tuned_record(2), tuned_record(4, "compiles"), tuned_record(8)
    outcome = stands_by([tuned_record(1), second, third], [second, third, fourth])
    assert (outcome.is_passing, outcome.progress, outcome.failing) == (True, "3/3", ())
    # A scan of all configurations compiled it too, which is not counted here.
    assert stands_by([tuned_record(1), second, third, fourth], [second, third, fourth]) == outcome


def test_until_one_compiles_the_answer_is_partial() -> None:
    """Each skipped alternative requests one more."""
    second, third = tuned_record(2), tuned_record(4, "compiles")
    assert stands_by([], [second, third]).progress == "0/1"
    assert stands_by([tuned_record(1)], [second, third]).progress == "1/2"
    outcome = stands_by([tuned_record(1), second], [second, third])
    assert (outcome.is_partial, outcome.is_good, outcome.progress) == (True, False, "2/3")


def test_a_launch_that_is_skipped_in_all_its_configurations_fails() -> None:
    """A launch whose configurations are all skipped fails."""
    outcome = stands_by([tuned_record(1), tuned_record(2)], [tuned_record(2)])
    assert (len(outcome.failing), outcome.is_partial, outcome.obstacle) == (
        2,
        False,
        "2 cells fail",
    )


def test_a_configuration_that_ends_a_run_is_no_answer() -> None:
    """A configuration that ends the run is a failure; those after it do not count."""
    broken, good = failure(constexprs={"SPLIT": 2}, shape={}), tuned_record(4, "compiles")
    outcome = stands_by([tuned_record(1), broken, good], [broken, good])
    assert [cell.key for cell in outcome.failing] == [broken.key]


def test_alternatives_are_asked_for_nothing_else() -> None:
    """A first configuration that compiles or ends the run needs no alternative."""
    good = tuned_record(1, "compiles")
    assert stands_by([good], [tuned_record(2)], first=good).progress == "1/1"
    broken = failure(constexprs={"SPLIT": 1}, shape={})
    assert stands_by([broken], [tuned_record(2)], first=broken).progress == "1/1"


def test_a_made_up_launch_is_tested_by_its_alternatives_too() -> None:
    """An invented launch of which no alternative fits is untested."""
    good = tuned_record(2, "compiles")
    outcome = stands_by([tuned_record(1), good], [good], made_up=True)
    assert (outcome.is_passing, outcome.untested_cells) == (True, ())
    outcome = stands_by([tuned_record(1), tuned_record(2)], [tuned_record(2)], made_up=True)
    assert (outcome.failing, len(outcome.untested_cells)) == ((), 2)
