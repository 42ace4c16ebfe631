"""Which records a gate goes by, and the scan that adds to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import Exit
from flacheck.gate import evidence
from flacheck.gate.evidence import RecordFilter, of_store
from flacheck.inputs.subject import Subject
from flacheck.model import Record
from flacheck.store import Store
from tests.made_gate import (
    BROKEN,
    gate,
    on,
)
from tests.made_records import DELTA, PACKAGE, failure, record


def test_only_the_records_that_are_asked_for_count(tmp_path: Path) -> None:
    """A matrix by its runs, a package, kernels and targets by what the record says."""
    other = record(**on("3.4.0"), kernel="retention.chunk_fwd_o", package=None, target="sm80")
    with Store.open(tmp_path) as store:
        store.add_many(store.begin_run({}, "seeds", {}), [BROKEN])
        store.add_many(store.begin_run({}, "mine", {}), [other])

        def kernels(**asked: Any) -> set[str]:
            return {found.kernel for found in of_store(store, RecordFilter(**asked)).records}

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


def of_edited_kernel(old: Record) -> Record:
    """The record of the same cell after its kernel's source was edited."""
    kernel = replace(old.cell.kernel, digest="edited")
    return replace(old, cell=replace(old.cell, kernel=kernel))


def test_the_newest_record_of_a_cell_counts_whatever_its_source_was(tmp_path: Path) -> None:
    """An edited kernel has other keys; a compile that was stopped on request proves nothing."""
    mended = of_edited_kernel(record(**on("3.2.0"), options={"num_warps": 8}))
    stopped = of_edited_kernel(failure(**on("3.3.0")))
    stopped = replace(stopped, verdict=mended.verdict, reason="up to ttgir", code=None)
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "seeds", {})
        store.add_many(run, [BROKEN, failure(**on("3.3.0"))])
        store.add_many(run, [mended, stopped])
        found = of_store(store, RecordFilter())
        assert [(r.toolchain, r.verdict.value) for r in found.records] == [
            ("triton==3.2.0", "compiles"),
            ("triton==3.3.0", "fails"),
        ]
        assert [r.key for r in found.failed_with(BROKEN.signature or "")] == [
            BROKEN.key,
            failure(**on("3.3.0")).key,
        ]


def test_where_there_is_no_store_nothing_is_known(tmp_path: Path) -> None:
    """And none is made."""
    with evidence.opened(tmp_path / "no", RecordFilter()) as known:
        assert known.records == []
    assert not (tmp_path / "no").exists()
    assert gate([], "triton==3.4.0").exit_code() is Exit.INCOMPLETE


def test_the_gaps_are_the_admitted_releases_without_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scan is asked for those alone, of the same matrix, kernels, targets or package."""
    asked: list[Any] = []
    monkeypatch.setattr(
        evidence.planning,
        "plan",
        lambda subject, selection: asked.append((subject, selection)),
    )
    RecordFilter("mine.yaml", None, ("chunk_*",), ("sm90",)).plan(["3.3.1", "3.9.0"])
    RecordFilter("mine.yaml", PACKAGE).plan(["3.3.1"])
    RecordFilter().plan(["3.3.1"])
    assert [subject for subject, _ in asked] == [
        Subject("mine.yaml"),
        Subject("mine.yaml", PACKAGE),
        Subject(),
    ]
    first = asked[0][1]
    assert (first.toolchains, first.kernels, first.targets) == (
        ("triton==3.3.1", "triton==3.9.0"),
        ("chunk_*",),
        ("sm90",),
    )
