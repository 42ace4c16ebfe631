"""Several releases of one package as one question: the newest that works, and its pins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.evidence.analysis.package_releases import newest_working, package_releases
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.summary import Summary, summarise
from flacheck.model import Record
from flacheck.reports import conclusions, releases
from flacheck.reports.document import Table
from tests.made_records import CONTEXT, failure, record, whole

NEW, OLD, BROKEN = "shop==1.10", "shop==1.9", "shop==2.0"


def scan_of(
    about: str, make_record: Any = record, **more: Any
) -> tuple[list[Record], list[Standing]]:
    """The records and standings of one release of the package."""
    records = [make_record(package=about, kernel="shop:k", **more)]
    return records, whole(records, about=about)


def summary(*parts: tuple[list[Record], list[Standing]]) -> Summary:
    records = [each for records, _ in parts for each in records]
    standings = [each for _, standings in parts for each in standings]
    return summarise(records, replace(CONTEXT, standings=standings))


def test_the_newest_release_that_works_is_the_answer() -> None:
    """The answer is the newest release by version, with its pins."""
    whole_summary = summary(scan_of(OLD), scan_of(BROKEN, failure), scan_of(NEW))
    assert [each.spec for each in whole_summary.package_releases] == [BROKEN, NEW, OLD]
    working = whole_summary.working_release
    assert working is not None
    assert working.spec == NEW
    assert conclusions.answer(whole_summary) == (
        "shop 1.10 is the newest of 3 releases that works on sm90 (also 1.9)."
    )
    lines = [getattr(part, "text", "") for part in conclusions.known_good(whole_summary)]
    assert '"shop==1.10"' in lines


def test_a_release_that_works_on_more_gpus_comes_first() -> None:
    """An older release on all GPUs is preferred to a newer one on fewer."""

    def both(about: str, make_record: Any) -> tuple[list[Record], list[Standing]]:
        records = [record(package=about), make_record(package=about, target="sm80")]
        return records, whole(records, about=about)

    parts = both(NEW, failure), both(OLD, record)
    standings = [each for _, own in parts for each in own]
    working = newest_working(package_releases(standings))
    assert working is not None
    assert working.spec == OLD


def test_the_table_holds_every_release() -> None:
    """The table has each release's standing and its obstacle."""
    (table,) = [
        part
        for part in releases.table(summary(scan_of(BROKEN, failure), scan_of(NEW)))
        if isinstance(part, Table)
    ]
    rows = [[str(getattr(cell, "text", cell)) for cell in row] for row in table.rows]
    assert [row[:3] for row in rows] == [
        ["2.0", "3.2.0 on sm90", "bad"],
        ["1.10", "3.2.0 on sm90", "good"],
    ]
    assert rows[0][3] == "1 cell fails"


def test_no_release_works() -> None:
    """The newest release with the fewest failing kernels is named."""
    worse = [failure(package=BROKEN, kernel=f"shop:{name}") for name in "ab"]
    failing = summary(
        (worse, whole(worse, about=BROKEN)), scan_of(NEW, failure), scan_of(OLD, failure)
    )
    assert conclusions.answer(failing).startswith(
        "None of 3 releases of shop works; 1.10 comes nearest: 1 kernel fails under 3.2.0 on sm90."
    )


@pytest.mark.parametrize("others", [[], ["other==1.0"], ["quick"]])
def test_other_questions_have_no_releases(others: list[str]) -> None:
    """One release, several packages and a matrix have no such table."""
    parts = [scan_of(about) for about in (NEW, *others)]
    assert package_releases([each for _, own in parts for each in own]) == ()
