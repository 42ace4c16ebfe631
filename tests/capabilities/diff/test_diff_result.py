"""The answer, exit code, pin and JSON of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from flacheck.capabilities.diff.package_view import PackageNotice, refusals
from flacheck.capabilities.diff.result import Comparison
from flacheck.errors import Exit
from flacheck.model import Record
from flacheck.model.answer import MOST_POINTS, MOST_WORDS
from flacheck.tables import advisories
from tests.made_diff import NEW, OLD, every_difference, kernels, result, side
from tests.made_records import failure, unknown
from tests.schemas import validate_json

REFUSAL = "refused by the package: a.ops:go: no"


def first_advisory(release: str) -> tuple[advisories.Advisory, ...]:
    return advisories.against(release, "sm90")[:1]


SHIPPED = ("fla-gated-dqkwg-hopper", "fla-delta-rule-wy-hopper", "fla-kda-wy-backward-hopper")
UNDER = "under torch 2.12.1 on sm90"


def test_the_answer_counts_the_kernels_that_compiled() -> None:
    """The answer counts kernels, not cells."""
    before = kernels(OLD, "one", "two") + kernels(OLD, "two", dtype="fp16")
    after = kernels(NEW, "one", "two") + kernels(NEW, "two", dtype="fp16")
    comparison = result(before, after)
    assert comparison.answer == f"Yes: 2 of 2 kernels still compile {UNDER}"
    assert comparison.exit_code() is Exit.OK


def test_a_kernel_that_fails_in_one_dtype_fails() -> None:
    """A kernel that fails in one dtype is named, with exit code 1."""
    before = kernels(OLD, "one", "two") + kernels(OLD, "two", dtype="fp16")
    broken = failure(toolchain=NEW, kernel="a.b:two", dtype="fp16")
    comparison = result(before, [*kernels(NEW, "one", "two"), broken])
    assert comparison.answer == (
        f"No: 1 of 2 kernels that compiled under torch 2.9.1 fails {UNDER}"
    )
    (point,) = comparison.in_words.points
    assert point.text.startswith("two (fp16) no longer compiles: FC302, ")
    assert comparison.exit_code() is Exit.FINDINGS


def test_a_lost_kernel_stands_in_the_answer() -> None:
    """A kernel that is not launched any more is incomplete under --strict."""
    comparison = result(kernels(OLD, "one", "two"), kernels(NEW, "one"))
    assert comparison.answer == (
        f"Yes, but 1 is not launched any more: 1 of 2 kernels still compile {UNDER}"
    )
    assert (comparison.exit_code(), comparison.exit_code(strict=True)) == (Exit.OK, Exit.INCOMPLETE)


def test_a_kernel_that_a_cut_capture_did_not_reach_is_not_lost() -> None:
    """A kernel missed by a cut capture is reported as not reached."""
    cut = "capture cut: the time ran out before it was called in bf16"
    comparison = result(kernels(OLD, "one", "two"), kernels(NEW, "one"), why=cut)
    assert comparison.answer == (
        f"Yes, but 1 was not reached by the capture: 1 of 2 kernels still compile {UNDER}"
    )
    assert (comparison.exit_code(), comparison.exit_code(strict=True)) == (Exit.OK, Exit.INCOMPLETE)


def test_a_kernel_that_the_package_refuses_is_a_regression() -> None:
    """A kernel that the package refuses is a finding."""
    comparison = result(kernels(OLD, "one", "two"), kernels(NEW, "one"), why=REFUSAL)
    assert comparison.answer == "No: 1 is refused by the package (two) on sm90"
    assert comparison.exit_code() is Exit.FINDINGS


def test_an_import_that_is_refused_under_to_alone_is_a_regression() -> None:
    """An import that fails on both sides is not a regression."""
    refusal = failure(
        toolchain=NEW, kernel="a:__init__", launch=None, stage="import", line="ValueError: no"
    )
    refusal = replace(refusal, cell=replace(refusal.cell, stage="import").with_key(refusal.key))
    comparison = result(kernels(OLD, "one"), kernels(NEW, "one"), refusals=refusals([], [refusal]))
    assert comparison.answer == f"No: the package refuses a:__init__ {UNDER}"
    assert comparison.exit_code() is Exit.FINDINGS
    both = result(kernels(OLD, "one"), kernels(NEW, "one"), refusals=refusals([refusal], [refusal]))
    assert both.exit_code() is Exit.OK
    (fix,) = refusals([refusal], [])
    assert fix.kind.value == "mended"


def test_what_is_unknown_or_untested_is_no_regression() -> None:
    """Kernels without a verdict and untested ones are incomplete under --strict."""
    before = kernels(OLD, "one", "two", "three")
    spoilt = failure(toolchain=NEW, kernel="a.b:three")
    after = [*kernels(NEW, "one"), unknown(toolchain=NEW, kernel="a.b:two"), spoilt]
    comparison = result(before, after, untested_keys={spoilt.key: "why"})
    assert comparison.answer == (f"Yes, but 1 has no verdict: 1 of 3 kernels still compile {UNDER}")
    assert comparison.in_words.points[1].text == "1 not tested (three)"
    assert (comparison.exit_code(), comparison.exit_code(strict=True)) == (Exit.OK, Exit.INCOMPLETE)


def test_waived_regressions_do_not_count() -> None:
    """The answer names the waiver, and the exit code is 0."""
    before, after = kernels(OLD, "one"), [failure(toolchain=NEW, kernel="a.b:one")]
    assert result(before, after).exit_code() is Exit.FINDINGS
    comparison = result(before, after, is_waived=True)
    assert comparison.exit_code() is Exit.OK
    assert comparison.answer.startswith("Yes, but 1 fails, which is waived: 0 of 1 kernel still")


def test_a_requirement_of_the_package_that_to_breaks_is_a_regression() -> None:
    """A requirement that only TO breaks is a finding."""
    same = (kernels(OLD, "one"), kernels(NEW, "one"))
    word = PackageNotice("requires", "tiny 1.0 requires triton<3.6", False, True)
    comparison = result(*same, package=(word,))
    assert comparison.answer.endswith(
        "No: tiny 1.0 requires triton<3.6, which torch 2.12.1 does not satisfy on sm90"
    )
    assert comparison.exit_code() is Exit.FINDINGS
    assert result(*same, package=(structs.replace(word, under_from=True),)).exit_code() is Exit.OK


def test_a_release_that_cannot_be_had_leaves_the_answer_incomplete() -> None:
    """A side without a verdict makes the comparison incomplete."""
    lacking = unknown("FC903", "no wheel", toolchain=NEW, kernel="a.b:one")
    assert result(kernels(OLD, "one"), [lacking]).exit_code() is Exit.INCOMPLETE
    nothing = unknown(toolchain=NEW, kernel="a.b:one")
    assert result(kernels(OLD, "one"), [nothing]).exit_code() is Exit.INCOMPLETE
    assert result([], []).exit_code() is Exit.EMPTY


def test_the_answer_says_which_side_is_advised_against() -> None:
    """The answer has the advisory's effect in a few words."""
    comparison = result(
        kernels(OLD, "one"), kernels(NEW, "one"), advisories=(first_advisory("3.5.1"), ())
    )
    assert comparison.answer.endswith(f"{UNDER}; the wrong results of torch 2.9.1 are gone")


@pytest.mark.parametrize(
    ("before", "after", "clause"),
    [
        ("3.5.1", "3.9.0", ", with fewer known wrong results (1, not 2)"),
        ("3.9.0", "3.5.1", ", with more known wrong results (2, not 1)"),
        ("3.5.1", "3.5.1", "; both have 3 advisories"),
    ],
)
def test_of_two_sides_with_advisories_the_better_one_is_named(
    before: str, after: str, clause: str
) -> None:
    """Wrong results decide before the number of advisories."""
    package = "flash-linear-attention==0.4.2"
    every = []
    for release in (before, after):
        own = advisories.against(release, "sm90", package=package)
        every.append(tuple(each for each in own if each.id in SHIPPED))
    comparison = result(kernels(OLD, "one"), kernels(NEW, "one"), advisories=tuple(every))
    assert comparison.answer == f"Yes: 1 of 1 kernel still compiles {UNDER}{clause}"


@given(
    st.lists(st.sampled_from(["compiles", "fails", "unknown", "lost", "untested"]), max_size=6),
    st.sampled_from(["3.5.1", "3.7.1", "3.9.0"]),
    st.sampled_from(["bf16", "fp32"]),
)
def test_every_answer_is_short_and_recommends(
    outcomes: list[str], advised: str, dtype: str
) -> None:
    """At most 25 words and five points, and never without a recommendation."""
    names = [f"k{number}" for number in range(len(outcomes))]
    after: list[Record] = []
    untested = {}
    for name, outcome in zip(names, outcomes):
        if outcome == "compiles":
            after += kernels(NEW, name, dtype=dtype)
        elif outcome == "unknown":
            after.append(unknown(toolchain=NEW, kernel=f"a.b:{name}", dtype=dtype))
        elif outcome != "lost":
            after.append(failure(toolchain=NEW, kernel=f"a.b:{name}", dtype=dtype))
            if outcome == "untested":
                untested[after[-1].key] = "why"
    before = kernels(OLD, *names, dtype=dtype)
    against = advisories.against(advised, "sm90"), advisories.against("3.7.1", "sm90")
    words = result(before, after, untested_keys=untested, advisories=against).in_words
    assert len(words.answer.split()) <= MOST_WORDS
    assert len(words.points) <= MOST_POINTS
    assert words.recommendation


@pytest.mark.parametrize(
    ("torch", "releases", "beginning"),
    [
        ((None, None), (OLD, NEW), "Upgrading Triton 3.5.1 → 3.7.1"),
        ((None, None), (NEW, OLD), "Downgrading Triton 3.7.1 → 3.5.1"),
        (
            ("2.12.1", "2.13.0"),
            (NEW, NEW),
            "Upgrading torch 2.12.1 → 2.13.0 (Triton 3.7.1 in both)",
        ),
    ],
)
def test_the_change_names_the_direction(
    torch: tuple[str | None, str | None], releases: tuple[str, str], beginning: str
) -> None:
    """It names torch if the user did."""
    before, after = kernels(releases[0], "one"), kernels(releases[1], "one")
    comparison = replace(
        result(before, after),
        before=side(releases[0], torch[0], before),
        after=side(releases[1], torch[1], after),
    )
    assert comparison.change == beginning


def test_the_pin_is_to_when_nothing_speaks_against_it() -> None:
    """The pin is TO, else FROM, else another stored release, else none."""
    same = (kernels(OLD, "one"), kernels(NEW, "one"))
    broken = (kernels(OLD, "one"), [failure(toolchain=NEW, kernel="a.b:one")])
    against = first_advisory("3.5.1")
    assert pin_of(result(*same)) == ("to", "torch==2.12.1", "triton==3.7.1")
    assert pin_of(result(*same, advisories=((), against))) == (
        "from",
        "torch==2.9.1",
        "triton==3.5.1",
    )
    assert pin_of(result(*broken)) == ("from", "torch==2.9.1", "triton==3.5.1")
    assert pin_of(result(*broken, advisories=(against, ()))) == ("none", None, None)
    others = (("3.3.0", ("2.7.0",)), ("3.6.0", ("2.10.0", "2.11.0")))
    assert pin_of(result(*broken, advisories=(against, ()), others=others)) == (
        "other",
        "torch==2.11.0",
        "triton==3.6.0",
    )
    assert pin_of(result(*same, advisories=(against, against)))[0] == "to"


def _failing(toolchain: str, *names: str) -> list[Record]:
    return [failure(toolchain=toolchain, kernel=f"a.b:{name}") for name in names]


def test_a_release_under_which_nothing_compiles_is_never_pinned() -> None:
    """A release under which no kernel compiles is never the pin."""
    fails = (_failing(OLD, "one", "two"), _failing(NEW, "one", "two"))
    none = result(*fails)
    assert pin_of(none) == ("none", None, None)
    assert none.pin.why == "no kernel compiles under either release"
    assert pin_of(result(*fails, advisories=((), first_advisory("3.5.1")))) == ("none", None, None)
    timed_out = [unknown(toolchain=NEW, kernel="a.b:one")]
    assert pin_of(result(_failing(OLD, "one"), timed_out)) == ("none", None, None)


def test_a_release_that_compiles_what_failed_before_is_pinned() -> None:
    """The pin's reason counts the cells that compile under TO alone."""
    comparison = result(_failing(OLD, "one"), kernels(NEW, "one"))
    assert pin_of(comparison)[0] == "to"
    assert (
        comparison.pin.why
        == "nothing compiled under torch 2.9.1, and 1 cell compiles under torch 2.12.1"
    )


def test_the_reason_for_a_pin_counts_kernels() -> None:
    """The reason counts the kernels that still compile."""
    before = kernels(OLD, "one", "two")
    after = [*kernels(NEW, "one"), unknown(toolchain=NEW, kernel="a.b:two")]
    partly = result(before, after)
    assert pin_of(partly)[0] == "to"
    assert partly.pin.why == "1 of 2 kernels that compiled still compile"


def test_the_reason_against_a_release_without_a_verdict_is_no_advisory() -> None:
    """FROM is pinned if no kernel is known to compile under TO."""
    before = kernels(OLD, "one")
    comparison = result(before, [unknown(toolchain=NEW, kernel="a.b:one")])
    assert pin_of(comparison)[0] == "from"
    assert comparison.pin.why == "no kernel that compiled is known to compile under torch 2.12.1"


def pin_of(comparison: Comparison) -> tuple[str, str | None, str | None]:
    return comparison.pin.side, comparison.pin.torch, comparison.pin.triton


def test_json_is_what_the_schema_says() -> None:
    """Every list of the JSON is filled and follows the schema."""
    comparison = every_difference()
    document = json.loads(json.dumps(comparison.to_json()))
    validate_json("diff", document)
    lists = ["regressed", "mended", "changed_cause", "slower", "more_resources", "unknown"]
    lists += ["untested", "only_from", "only_to", "unchanged"]
    assert {name: len(document[name]) for name in lists} == dict.fromkeys(lists, 1)
