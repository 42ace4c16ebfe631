"""How a question stands: good only as a whole, partial else, and untested is no evidence."""

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
    records: list[Record], asked: list[Record] | None = None, made_up: list[Record] | None = None
) -> Standing:
    """How a question stands that asks for `asked`, of which `records` are there."""
    wanted = records if asked is None else asked
    keys = KeySet(
        {each.key: each.kernel for each in wanted}, frozenset(r.key for r in made_up or ())
    )
    place = RequestedCells("triton==3.2.0", "sm90", len(wanted), keys.digest)
    return standing(Question("quick"), place, keys, records)


def test_a_question_with_a_cell_missing_is_partial() -> None:
    """However well the others do."""
    asked = [record(), record(**OTHER)]
    found = stands(asked[:1], asked)
    assert (found.is_partial, found.is_good, found.progress) == (True, False, "1/2")
    assert found.obstacle == "partial: 1/2 cells answered"
    assert stands(asked).is_good


def test_a_question_whose_keys_nobody_knows_is_partial() -> None:
    """An older store, or a capture that did not end."""
    place = RequestedCells("triton==3.2.0", "sm90")
    found = standing(Question("quick"), place, None, [record()], "scan again")
    assert (found.is_good, found.progress) == (False, "1/?")
    assert found.obstacle == "partial: 1/? cells answered (scan again)"
    assert standing(Question("quick"), place, None, []).progress == "?/?"


def test_a_failure_is_said_before_what_is_missing() -> None:
    """It stays one, whatever the rest comes to."""
    asked = [failure(), record(**OTHER)]
    found = stands(asked[:1], asked)
    assert [cell.key for cell in found.failing] == [asked[0].key]
    assert found.obstacle == "1 cell fails, 1/2 answered"


def test_a_configuration_without_a_verdict_matters_only_alone() -> None:
    """One slow compile does not take a release away."""
    served = stands([record(), unknown(options={"num_warps": 8})])
    assert served.is_good
    assert [cell.code for cell in served.timed_out] == ["FC901"]
    alone = stands([record(), unknown(**OTHER)])
    assert not alone.is_good
    assert alone.obstacle == "1 cell without a verdict"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (failure("FC000", stage="ast"), "the made-up arguments may not fit the kernel"),
        (failure("FC104", stage="ast"), "the made-up arguments may not fit the kernel"),
        (failure("FC101", stage="ast"), None),
        (failure("FC000", stage="ast", findings=(LACKING,)), None),
        (failure("FC603", stage="import"), None),
        (failure("FC000", stage="autotune"), "the made-up arguments may not fit the kernel"),
        (failure("FC601", stage="autotune"), None),
        (failure("FC000", stage="autotune", signal="SIGABRT"), None),
        (failure("FC000", stage="import"), "the made-up arguments may not fit the kernel"),
        (
            failure("FC401", stage="cubin"),
            "the made-up dtypes may be none that the GPU is used with",
        ),
        (failure("FC302", stage="ttgir"), None),
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
    made: Record, reason: str | None
) -> None:
    """A removed API, a crash or a failing pass is evidence; a call that was seen always is."""
    found = stands([made], made_up=[made])
    (cell,) = (*found.cells, *found.untested_cells)
    assert why_untested(cell) == reason
    assert why_untested(replace(cell, made_up=False)) is None


def test_untested_counts_neither_for_nor_against() -> None:
    """It spoils no release, and makes none good by itself."""
    made = failure("FC000", stage="ast", **OTHER)
    beside = stands([record(), made], made_up=[made])
    assert (beside.is_good, beside.is_passing) == (False, True)
    assert beside.obstacle == "screened: 1 of 2 configurations, 1 of 2 kernels"
    assert [each.to_json() for each in group_untested(beside.untested_cells)] == [
        {
            "kernel": "m:other",
            "package": made.package,
            "toolchain": "triton==3.2.0",
            "target": "sm90",
            "reason": "the made-up arguments may not fit the kernel",
            "cells": 1,
        }
    ]
    alone = stands([made], made_up=[made])
    assert (alone.is_good, alone.obstacle) == (False, "only untested cells")


def test_a_made_up_launch_that_compiles_counts_as_compiled() -> None:
    """And its configurations that do not fit are those that an autotuner skips."""
    good = record()
    large = failure("FC501", tolerated=True, stage="load", options={"num_warps": 8})
    found = stands([good, large], made_up=[good, large])
    assert found.is_good
    assert found.untested_cells == ()


@pytest.mark.parametrize("reason", ["up to ttgir", "up to ptx"])
def test_a_compile_that_was_stopped_early_makes_nothing_good(reason: str) -> None:
    """`--until` answers another question."""
    found = stands([record(), record(**OTHER, reason=reason)])
    assert not found.is_good
    assert found.obstacle == "1 cell compiled with --until, not to the end"


def test_a_launch_that_only_was_skipped_is_not_compiled() -> None:
    """Nothing is known of it."""
    more: dict[str, Any] = OTHER
    assert stands([record(), skipped(**more)]).obstacle == (
        "screened: 1 of 2 configurations, 1 of 2 kernels"
    )
    assert stands([skipped()]).obstacle == "only skipped cells"


def tuned(split: int, verdict: str = "skipped", **more: Any) -> Record:
    """One configuration of a launch, by a constant that is not called like a block: skipped by the
    autotuner for want of memory where nothing else is said."""
    plain: dict[str, Any] = {"constexprs": {"SPLIT": split}, "shape": {}, **more}
    if verdict == "skipped":
        return failure("FC501", tolerated=True, stage="load", **plain)
    return record(verdict, **plain)


def stands_by(
    records: list[Record], others: list[Record], made_up: bool = False, first: Record | None = None
) -> Standing:
    """How a question stands that asks one configuration, with these as its alternatives."""
    first = first or tuned(1)
    keys = [first.key, *(other.key for other in others)]
    invented = frozenset(keys) if made_up else frozenset[str]()
    asked = KeySet({first.key: first.kernel}, invented, {first.key: keys[1:]})
    place = RequestedCells("triton==3.2.0", "sm90", 1, asked.digest)
    return standing(Question("fla==1"), place, asked, records)


def test_where_the_configuration_asked_is_skipped_another_answers() -> None:
    """It may be one of any constants; those after the first that compiles are not asked."""
    second, third, fourth = tuned(2), tuned(4, "compiles"), tuned(8)
    found = stands_by([tuned(1), second, third], [second, third, fourth])
    assert (found.is_passing, found.progress, found.failing) == (True, "3/3", ())
    # A scan of all configurations has met it: it is no part of this answer.
    assert stands_by([tuned(1), second, third, fourth], [second, third, fourth]) == found


def test_until_one_compiles_the_answer_is_partial() -> None:
    """Each that is skipped asks for one more."""
    second, third = tuned(2), tuned(4, "compiles")
    assert stands_by([], [second, third]).progress == "0/1"
    assert stands_by([tuned(1)], [second, third]).progress == "1/2"
    found = stands_by([tuned(1), second], [second, third])
    assert (found.is_partial, found.is_good, found.progress) == (True, False, "2/3")


def test_a_launch_that_is_skipped_in_all_its_configurations_fails() -> None:
    """An autotuner has nothing left to launch."""
    found = stands_by([tuned(1), tuned(2)], [tuned(2)])
    assert (len(found.failing), found.is_partial, found.obstacle) == (2, False, "2 cells fail")


def test_a_configuration_that_ends_a_run_is_no_answer() -> None:
    """The autotuner does not get to the one behind it."""
    broken, good = failure(constexprs={"SPLIT": 2}, shape={}), tuned(4, "compiles")
    found = stands_by([tuned(1), broken, good], [broken, good])
    assert [cell.key for cell in found.failing] == [broken.key]


def test_alternatives_are_asked_for_nothing_else() -> None:
    """One that compiles needs none, and one that fails has none to hope for."""
    good = tuned(1, "compiles")
    assert stands_by([good], [tuned(2)], first=good).progress == "1/1"
    broken = failure(constexprs={"SPLIT": 1}, shape={})
    assert stands_by([broken], [tuned(2)], first=broken).progress == "1/1"


def test_a_made_up_launch_is_tested_by_its_alternatives_too() -> None:
    """Where none fits, its sizes may be too large."""
    good = tuned(2, "compiles")
    found = stands_by([tuned(1), good], [good], made_up=True)
    assert (found.is_passing, found.untested_cells) == (True, ())
    found = stands_by([tuned(1), tuned(2)], [tuned(2)], made_up=True)
    assert (found.failing, len(found.untested_cells)) == ((), 2)
