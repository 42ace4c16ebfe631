"""Failures that made-up arguments may have caused, compared with newer releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.analysis.observation import observe
from flacheck.analysis.untested_cells import why_untested
from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.model import Cell, Record, Stubbed
from flacheck.store import Store
from tests import fake

_REFUSAL = "at ast raise TypeError: cannot bitcast"


def _made_up(name: str) -> Cell:
    cell = fake.cell(name)
    return replace(cell, kernel=replace(cell.kernel, origin=Stubbed("fake", name, made_up=True)))


def _compile(tmp_path: Path, cell: Cell, table: dict[str, Any], *newer: str) -> Record:
    timeouts = Timeouts(60)
    pool = LocalPool(1, timeouts)
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "fake", {})
        store.add_cells([cell])
        loop = Loop(fake.Provider(table), run, store, pool, timeouts, newer_releases=newer)
        try:
            (record,) = loop.records([cell])
        finally:
            pool.close()
    return record


@pytest.mark.parametrize(
    ("accepting", "facts", "is_evidence"),
    [
        # The newest release refuses the source as well; the next one accepts it.
        ("==2.0", {"refused_under": ["fake==3.0"], "compiles_under": "fake==2.0"}, True),
        ("none", {"refused_under": ["fake==3.0", "fake==2.0"]}, False),
    ],
)
def test_a_newer_release_that_accepts_a_launch_blames_the_older_one(
    tmp_path: Path, accepting: str, facts: dict[str, Any], is_evidence: bool
) -> None:
    """Releases older than the failing one are not compared."""
    table = {"bad": {accepting: "compile", "else": _REFUSAL}}
    record = _compile(tmp_path, _made_up("bad"), table, "fake==3.0", "fake==2.0", "fake==0.5")
    assert record.findings[0]["facts"] == facts
    (cell,) = observe([record])
    assert (why_untested(cell) is None) == is_evidence


def test_a_launch_that_a_program_made_is_not_compared(tmp_path: Path) -> None:
    """Its failure counts as it is."""
    table = {"bad": {"==2.0": "compile", "else": _REFUSAL}}
    record = _compile(tmp_path, fake.cell("bad"), table, "fake==2.0")
    assert record.findings[0]["facts"] == {}


def test_a_failure_that_an_older_flacheck_stored_is_compared_by_the_next_scan(
    tmp_path: Path,
) -> None:
    """A compared failure is reused."""
    cell = _made_up("bad")
    table = {"bad": {"==2.0": "compile", "else": _REFUSAL}}
    first = _compile(tmp_path, cell, table)
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "fake", {})
        plain = {**first.findings[0], "facts": {}}
        store.add(run, first.with_(findings=(plain,)))
    again = _compile(tmp_path, cell, table, "fake==2.0")
    assert not again.cached
    assert again.findings[0]["facts"] == {"compiles_under": "fake==2.0"}
    assert _compile(tmp_path, cell, table, "fake==2.0").cached
