"""Two releases beside each other on one GPU, from measurements with made times."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.evidence.measured.comparison import (
    FIELD,
    WrongKernel,
    compare,
    stored_measurements,
    with_article,
)
from flacheck.evidence.measured.results import (
    CardFacts,
    LaunchResult,
    MeasureDocument,
    Result,
    State,
    Times,
)
from flacheck.model import Purpose, digest
from flacheck.store import Store

OLD, NEW, NEWEST = "triton==3.5.1", "triton==3.6.0", "triton==3.7.1"
PACKAGE = "package==1.0"


def launch(
    name: str, times: dict[str, float], wrong: str | None = None, spread: float = 0.0
) -> LaunchResult:
    """A launch of an operator with the microseconds of each release."""
    results = []
    for release, microseconds in times.items():
        is_wrong = release == wrong
        result = Result(
            toolchain=release,
            key=digest([name, release]),
            config={},
            state=State.DIFFERS if is_wrong else State.SAME,
            reason="half of its elements differ" if is_wrong else None,
            is_wrong=is_wrong,
            times=Times(microseconds, microseconds),
            error=None,
            registers=32,
            stack=0,
        )
        results.append(result)
    return LaunchResult(
        kernel=f"package.ops:{name}_kernel",
        package=PACKAGE,
        dtype="bf16",
        by=None,
        made_up=None,
        operators=(f"package.ops.{name}",),
        grid=(16,),
        bytes=1024,
        distribution="normal",
        spread=spread,
        results=tuple(results),
    )


def measurement(
    *launches: LaunchResult, card: str = "NVIDIA H200", date: str = "2026-11-29"
) -> MeasureDocument:
    """A measurement of these launches on a card."""
    releases = tuple(dict.fromkeys(each.toolchain for own in launches for each in own.results))
    return MeasureDocument(
        schema="flacheck.measure/1",
        about=PACKAGE,
        target="sm90",
        card=CardFacts(card, (9, 0), "13.0"),
        date=date,
        toolchains=releases,
        launches=launches,
        kernels=(),
        operators=(),
        summaries=(),
        left_out={},
    )


def test_the_clause_names_what_is_slower_and_that_nothing_is_wrong() -> None:
    """The slowest operators come first, with their ratios."""
    document = measurement(
        launch("hgrn", {OLD: 10.0, NEW: 14.0}),
        launch("gla", {OLD: 10.0, NEW: 12.0}),
        launch("delta", {OLD: 10.0, NEW: 5.0}),
        launch("retention", {OLD: 10.0, NEW: 10.1}),
    )
    (comparison,) = compare([document], OLD, NEW)
    assert comparison.clause == (
        "on an H200: 2 of 4 operators slower (hgrn 1.40, gla 1.20), 1 faster, no wrong output"
    )
    assert [each.name for each in comparison.beyond(1.2)] == ["package.ops.hgrn"]


def test_a_wrong_result_of_the_new_release_stands_in_the_clause() -> None:
    """A wrong result of the old one does not: the upgrade mends it."""
    document = measurement(launch("gla", {OLD: 10.0, NEW: 10.0}, wrong=NEW))
    (comparison,) = compare([document], OLD, NEW)
    assert comparison.clause.endswith("0 faster, 1 kernel wrong (gla_kernel)")
    assert comparison.wrong == (
        WrongKernel("package.ops:gla_kernel", "half of its elements differ"),
    )
    (back,) = compare([document], NEW, OLD)
    assert back.wrong == ()


def test_times_of_two_measurements_are_never_compared() -> None:
    """Each release was measured, but not beside the other one."""
    first = measurement(launch("gla", {OLD: 10.0, NEW: 10.0}))
    second = measurement(launch("gla", {NEW: 30.0, NEWEST: 30.0}))
    assert compare([first, second], OLD, NEWEST) == []


def test_each_card_has_its_newest_comparison() -> None:
    """Measurements of two cards are two comparisons."""
    documents = [
        measurement(launch("gla", {OLD: 10.0, NEW: 20.0})),
        measurement(launch("gla", {OLD: 10.0, NEW: 10.0}), card="NVIDIA B200"),
        measurement(launch("gla", {OLD: 10.0, NEW: 30.0}), date="2026-11-30"),
    ]
    h200, b200 = compare(documents, OLD, NEW)
    assert (h200.card, h200.date, len(h200.slower)) == ("NVIDIA H200", "2026-11-30", 1)
    assert h200.ratios[0].ratio == 3.0
    assert (b200.card, b200.slower) == ("NVIDIA B200", [])


def test_only_the_subject_counts() -> None:
    """A measurement of another package says nothing."""
    document = measurement(launch("gla", {OLD: 10.0, NEW: 20.0}))
    assert len(compare([document], OLD, NEW, PACKAGE)) == 1
    assert compare([document], OLD, NEW, "other==1.0") == []


def test_a_store_returns_its_measurements(tmp_path: Path) -> None:
    """One of another form is left out; the others are whole."""
    document = measurement(launch("gla", {OLD: 10.0, NEW: 20.0}))
    with Store.open(tmp_path) as store:
        for plain in ({"schema": "flacheck.measure/0"}, document.to_json()):
            run = store.begin_run({}, PACKAGE, purpose=Purpose.MEASURE)
            store.finish_run(run, {FIELD: plain})
        assert stored_measurements(store) == [document]


@pytest.mark.parametrize(
    ("card", "name"),
    [("NVIDIA H200", "an H200"), ("NVIDIA B200", "a B200"), ("NVIDIA RTX A6000", "an RTX A6000")],
)
def test_a_card_has_its_article(card: str, name: str) -> None:
    """Letters are read by their names."""
    assert with_article(card) == name
