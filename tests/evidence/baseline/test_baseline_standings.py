"""Baselines from standings, and standings from baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from flacheck.evidence.analysis.groups import by_signature
from flacheck.evidence.analysis.judgement import judge
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.baseline import form
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.baseline.standings import baseline_of, standings_of, update
from flacheck.model import Question, Record
from tests.made_records import DELTA, RUNS, failure, record, skipped, unknown, whole

SPEC = "shop==1.0"
OTHER = {"kernel": "m:other"}


def baseline_from(*standings: Standing, **more: Sequence[str]) -> Baseline:
    return baseline_of(standings, "1.0", **more)


def restore(*standings: Standing) -> list[Standing]:
    """Return the standings of a baseline that these standings make."""
    return standings_of(baseline_from(*standings))


def of(records: list[Record], about: str = "seeds") -> list[Standing]:
    return whole(records, about=about)


def only(standings: Sequence[Standing]) -> Standing:
    (one,) = standings
    return one


@given(RUNS)
def test_a_standing_comes_back_with_its_answer(records: list[Record]) -> None:
    """State, counts and failures of every place are restored."""
    now = sorted(of(records), key=lambda each: each.place)
    again = restore(*now)
    assert len(again) == len(now)
    for before, after in zip(now, again):
        assert after.place == before.place
        assert (after.requested_count, after.answered_count) == (
            before.requested_count,
            before.answered_count,
        )
        assert (after.is_good, after.is_partial) == (before.is_good, before.is_partial)
        assert _failing(after) == _failing(before)
        assert len(after.undecided_cells) == len(before.undecided_cells)
        assert len(after.untested_cells) == len(before.untested_cells)
        assert {cell.kernel for cell in after.cells} == {cell.kernel for cell in before.cells}
        assert after.kernels == before.kernels
        assert after.packages == before.packages


def _failing(one: Standing) -> list[tuple[str, str, int, tuple[str, ...]]]:
    return sorted(
        (group.signature, group.code, group.count, group.kernels)
        for group in by_signature(one.failing)
    )


@given(RUNS)
def test_every_baseline_that_is_written_can_be_read(records: list[Record]) -> None:
    """A restored baseline makes the same file."""
    baseline = baseline_from(*of(records))
    again = baseline_from(*standings_of(baseline))
    without_keys = [replace_keys(each) for each in (baseline, again)]
    assert without_keys[0] == without_keys[1]


def replace_keys(baseline: Baseline) -> str:
    """Return the text without the digests of keys, which need the cells themselves."""
    lines = form.text_of(baseline).splitlines()
    return "\n".join(line for line in lines if '"keys"' not in line)


def test_a_config_that_another_makes_up_for_is_no_failure() -> None:
    """A skipped or slow configuration is not a failure if another one compiles."""
    records = [
        record(),
        unknown(options={"num_warps": 8}),
        failure("FC501", options={"num_warps": 16}, tolerated=True),
    ]
    (place,) = baseline_from(*of(records)).questions[0].places
    assert (place.state, place.compiles, place.made_up_for) == ("good", 1, 2)
    assert only(restore(*of(records))).is_good


def test_skipped_and_untested_cells_make_nothing_good() -> None:
    """Skipped and untested cells are restored as such."""
    invalid_cell = only(restore(*of([skipped()])))
    assert (invalid_cell.is_good, invalid_cell.obstacle) == (False, "only skipped cells")
    made_up = failure("FC501", **OTHER)
    spoilt = whole([made_up], made_up=[made_up.key])
    assert only(spoilt).obstacle == "only untested cells"
    assert only(restore(*spoilt)).obstacle == "only untested cells"


def test_a_place_names_the_kernels_that_were_not_asked_there() -> None:
    """A place lists the kernels that it does not launch."""
    records = [record(), record(**OTHER), record(toolchain="triton==3.4.0")]
    old, new = baseline_from(*of(records)).questions[0].places
    assert (old.without, new.without) == ((), ("m:other",))
    kernels = {each.toolchain: {c.kernel for c in each.cells} for each in restore(*of(records))}
    assert kernels == {"triton==3.2.0": {DELTA, "m:other"}, "triton==3.4.0": {DELTA}}


def test_a_matrix_keeps_the_packages_that_advisories_ask_for() -> None:
    """A matrix lists its packages' versions for advisories."""
    records = [record(package=f"shop=={number}.0") for number in (1, 2)]
    (question,) = baseline_from(*of(records)).questions
    assert question.packages == ("shop==1.0", "shop==2.0")
    assert only(restore(*of(records))).packages == {"shop==1.0", "shop==2.0"}
    own = [record(package=SPEC)]
    assert baseline_from(*of(own, SPEC)).questions[0].packages == ()
    assert only(restore(*of(own, SPEC))).packages == {SPEC}


def test_the_order_of_what_is_known_is_no_content() -> None:
    """Releases are ordered by version, targets by number."""
    records = [
        failure(toolchain=f"triton=={release}", target=target)
        for release in ("3.10.0", "3.2.0")
        for target in ("sm100", "sm80")
    ]
    one, other = baseline_from(*of(records)), baseline_from(*reversed(of(records[::-1])))
    assert form.text_of(one) == form.text_of(other)
    places = [place.place for place in one.questions[0].places]
    assert places == [
        ("triton==3.2.0", "sm80"),
        ("triton==3.2.0", "sm100"),
        ("triton==3.10.0", "sm80"),
        ("triton==3.10.0", "sm100"),
    ]


def test_an_update_replaces_what_was_asked_again_and_keeps_the_rest() -> None:
    """An update keeps the entries of other releases and questions."""
    before = baseline_from(*of([failure(), record(toolchain="triton==3.4.0", **OTHER)], SPEC))
    other = baseline_from(*of([record()], "quick"))
    after = baseline_from(*of([record()], "shop==1.1"), accepted_releases=["3.2.0"])
    new = update(update(before, other), after)
    assert new.accepted_releases == ("3.2.0",)
    assert [question.about for question in new.questions] == ["quick", "shop"]
    shop = new.questions[1]
    assert [(place.place, place.version, place.state) for place in shop.places] == [
        (("triton==3.2.0", "sm90"), "1.1", "good"),
        (("triton==3.4.0", "sm90"), "1.0", "good"),
    ]
    assert shop.kernels == (DELTA, "m:other")
    assert [place.without for place in shop.places] == [("m:other",), (DELTA,)]
    assert update(new, new) == new


def test_a_narrower_question_is_another_one() -> None:
    """A selection of kernels makes another question; one of GPUs does not."""
    question = Question(SPEC, {"kernels": ["*fwd*"], "targets": ["sm90"]})
    narrow = [replace(each, question=question) for each in of([record()], SPEC)]
    baseline = baseline_from(*narrow, *of([record()], SPEC))
    assert [each.selection for each in baseline.questions] == [{}, {"kernels": ["*fwd*"]}]
    assert only(restore(*narrow)).question.name == f"{SPEC} --kernel *fwd*"


@pytest.mark.parametrize("count", [1, 5])
def test_cells_made_of_counts_have_keys_of_their_own(count: int) -> None:
    """Restored cells have distinct keys."""
    records = [failure(options={"num_warps": number}) for number in range(1, count + 1)]
    again = restore(*of([record(), *records]), *of([record(**OTHER)], "quick"))
    keys = Counter(cell.key for each in again for cell in each.cells)
    assert set(keys.values()) == {1}
    assert len(keys) == count + 2


def test_a_kernel_without_a_compile_frees_no_release() -> None:
    """A restored timeout is not evidence that a kernel compiles."""
    records = [record(toolchain="triton==3.6.0"), unknown(toolchain="triton==3.6.0", **OTHER)]
    for release in ("triton==3.4.0", "triton==3.5.1"):
        invalid_cell = failure("FC111", "no", stage="ast", toolchain=release, **OTHER)
        records += [record(toolchain=release), invalid_cell]
    again = judge(standings_of(baseline_from(*of(records, SPEC))))
    assert [each.state.value for each in again] == ["screened", "screened", "screened"]


def test_a_failure_that_other_scans_found_is_counted_beside_the_question() -> None:
    """The requested and the answered cells include another scan's failure."""
    (usual,) = whole([record()], about=SPEC, selection={"configs": ["usual"]})
    (wider,) = whole(
        [failure(options={"num_warps": 8})], about=SPEC, selection={"configs": ["edges"]}
    )
    (standings,) = judge([usual], [wider])
    ((place,),) = (question.places for question in baseline_from(standings).questions)
    assert (place.state, place.requested_count, place.answered_count) == ("bad", 2, 2)
