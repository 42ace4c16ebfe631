"""The records that a gate judges by, and the scan that adds to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.gate import evidence
from flacheck.capabilities.gate.evidence import RecordFilter, of_store
from flacheck.engine import judge
from flacheck.errors import Exit, UsageError
from flacheck.model import Attempt, Outcome
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.made_gate import (
    BROKEN,
    gate,
    on,
)
from tests.made_records import DELTA, PACKAGE, record, scanned, whole
from tests.paths import TESTS


def test_only_the_questions_that_are_asked_about_count(tmp_path: Path) -> None:
    """Records are selected by matrix, package, kernels and targets."""
    other = record(**on("3.4.0"), kernel="retention.chunk_fwd_o", package=None, target="sm80")
    with Store.open(tmp_path) as store:
        scanned(store, [BROKEN], "seeds")
        scanned(store, [other], "mine")

        def kernels(**asked: Any) -> set[str]:
            evidence = of_store(store, RecordFilter(**asked))
            assert {each.key for each in evidence.records} == {
                cell.key for each in evidence.standings for cell in each.cells
            }
            return {record.kernel for record in evidence.records}

        assert kernels() == {DELTA, other.kernel}
        assert (
            kernels(matrix="seeds")
            == kernels(package=PACKAGE)
            == kernels(targets=("sm90",))
            == {DELTA}
        )
        assert (
            kernels(matrix="matrices/mine.yaml")
            == kernels(kernels=("chunk_fwd_o",))
            == {other.kernel}
        )
        assert kernels(matrix="quick") == set()
        # A package comes before a matrix, as it does for a scan.
        assert kernels(matrix="mine", package=PACKAGE) == {DELTA}


def test_with_operators_only_a_question_with_the_same_counts(tmp_path: Path) -> None:
    """With --op, only a scan of the same operators counts."""
    with Store.open(tmp_path) as store:
        scanned(store, [record(**on("3.4.0"))], PACKAGE)
        narrow = {"ops": ["retention"]}
        scanned(store, [record(**on("3.5.0"))], PACKAGE, selection=narrow)

        def places(**asked: Any) -> list[tuple[str, str]]:
            evidence = of_store(store, RecordFilter(**asked)).standings
            return [(each.question.name, each.toolchain) for each in evidence]

        through = [(f"{PACKAGE} --op retention", "triton==3.5.0")]
        assert places(package=PACKAGE, ops=("retention",)) == through
        assert places(ops=("retention",)) == through
        assert places(ops=("gla",)) == []
        assert (PACKAGE, "triton==3.4.0") in places(package=PACKAGE)


MATRIX = """
version: 1
axes:
  kernel: ["retention.*"]
  dtype: [bf16]
  target: [sm90]
  triton: ["==3.4.0"]
"""


def test_a_file_is_asked_as_it_is_now(here: Path) -> None:
    """A scan of a part of a matrix file is partial for the file."""
    (here / "mine.yaml").write_text(MATRIX)
    part = planning.plan_job(Job(Subject("mine.yaml"), Selection(kernels=("*fwd_o",))))
    whole = planning.plan_job(Job(Subject("mine.yaml"), Selection()))
    assert 0 < len(part.cells) < len(whole.cells)
    with Store.open(here / "store") as store:
        question, sets = part.asks()
        run = store.begin_run({}, part.name, {}, question=question, key_sets=sets.values())
        attempt = Attempt(Outcome.FINISHED, stage="cubin")
        store.add_many(run, [judge.judge(cell, attempt) for cell in part.cells])
        (evidence,) = of_store(store, RecordFilter("mine.yaml")).standings
        assert evidence.progress == f"{len(part.cells)}/{len(whole.cells)}"
        # Without the file only the scan's own question is known.
        (own_question,) = of_store(store, RecordFilter("mine")).standings
        assert own_question.progress == f"{len(part.cells)}/?"


def test_where_there_is_no_store_nothing_is_known(tmp_path: Path) -> None:
    """A missing store has no evidence and is not made."""
    with evidence.open_evidence(tmp_path / "no", RecordFilter()) as no_evidence:
        assert (no_evidence.records, no_evidence.standings) == ((), ())
    assert not (tmp_path / "no").exists()
    assert gate([], "triton==3.4.0").exit_code() is Exit.INCOMPLETE


def test_the_gaps_are_the_admitted_releases_without_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """--scan compiles the missing releases of the same subject."""
    jobs: list[Any] = []
    monkeypatch.setattr(
        evidence.planning,
        "plan_job",
        lambda job: jobs.append((job.subject, job.selection)),
    )
    RecordFilter("mine.yaml", None, ("chunk_*",), ("sm90",)).plan(["3.3.1", "3.9.0"])
    RecordFilter("mine.yaml", PACKAGE).plan(["3.3.1"])
    RecordFilter().plan(["3.3.1"])
    assert [subject for subject, _ in jobs] == [
        Subject("mine.yaml"),
        Subject("mine.yaml", PACKAGE),
        Subject(),
    ]
    first = jobs[0][1]
    assert (first.toolchains, first.kernels, first.targets) == (
        ("triton==3.3.1", "triton==3.9.0"),
        ("chunk_*",),
        ("sm90",),
    )


def test_a_scan_for_more_asks_the_question_that_decides() -> None:
    """--scan takes the package, checkout or matrix of the stored question."""
    records = [record(**on("3.4.0"))]
    own_filter = RecordFilter(kernels=("chunk_*",))
    assert own_filter.of_only_question(()) == own_filter

    def filter_for(about: str, **more: Any) -> RecordFilter:
        return RecordFilter().of_only_question(whole(records, about=about, **more))

    on_target = {"targets": ("sm90",)}
    assert filter_for(PACKAGE) == RecordFilter(package=PACKAGE, **on_target)
    assert filter_for("seeds", source="seeds") == RecordFilter("seeds", **on_target)
    folder = str(TESTS)
    assert filter_for("mine==1+h0", source=folder) == RecordFilter(package=folder, **on_target)
    narrow = filter_for(PACKAGE, selection={"kernels": ["a*"], "targets": ["sm90"]})
    assert narrow == RecordFilter(package=PACKAGE, kernels=("a*",), **on_target)


def test_a_scan_for_more_does_not_guess_between_questions() -> None:
    """Several stored questions are a usage error."""
    records = [record(**on("3.4.0"))]
    several = [*whole(records, about="one==1"), *whole(records, about="two==2")]
    with pytest.raises(UsageError, match=r"several questions decide \(one==1, two==2\)"):
        RecordFilter().of_only_question(several)
    narrow = whole(records, about="one==1", selection={"dtypes": ["bf16"]})
    with pytest.raises(UsageError, match="--scan cannot ask one==1 --dtype bf16 again"):
        RecordFilter().of_only_question(narrow)
