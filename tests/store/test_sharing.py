"""Several scans of one question at once, and a store that goes away under them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.errors import StoreError
from flacheck.store import FILE, Store
from tests import fake
from tests.engine.test_scan import run
from tests.forked import Script
from tests.made_records import record

CELLS = 160
SCAN = """
import sys
from pathlib import Path
from flacheck.store import Store
from tests import fake
from tests.engine.test_scan import run
folder, marks = sys.argv[1:]
with Store.open(folder) as store:
    cells = [fake.cell("k", num_warps=n) for n in range({cells})]
    found = run(store, cells, {{"k": f"count {{marks}}"}}, jobs=2)
    assert len(found) == {cells}
    assert len({{record.key for record in found}}) == {cells}
"""


@pytest.mark.slow
def test_four_scans_at_once_share_the_work(tmp_path: Path) -> None:
    """Each has all records in its run; few cells are compiled twice."""
    marks = tmp_path / "marks"
    script = SCAN.format(cells=CELLS)
    scans = [Script(script, tmp_path / "s", marks) for _ in range(4)]
    assert [scan.wait(200) for scan in scans] == [0] * 4
    with Store.open(tmp_path / "s") as store:
        assert [len(list(store.records(each.id))) for each in store.runs()] == [CELLS] * 4
    # Four times as many without sharing.
    size = marks.stat().st_size
    assert CELLS <= size < 2 * CELLS, size


def test_one_scan_alone_keeps_its_order(store: Store) -> None:
    """No other process writes, so nothing is looked up again."""
    cells = [fake.cell("k", num_warps=n) for n in range(30)]
    records = run(store, cells, {"k": "compile"}, jobs=1)
    assert [r.options["num_warps"] for r in records] == list(range(30))
    assert not any(record.cached for record in records)


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
def test_a_store_that_goes_away_is_an_error_at_once(tmp_path: Path, how: str) -> None:
    """SQLite itself would continue to write into the deleted file."""
    with Store.open(tmp_path / "s") as store:
        name = store.begin_run({})
        store.add(name, record(key="0" * 32))
        file = tmp_path / "s" / FILE
        if how == "moved":
            file.parent.rename(tmp_path / "t")
        else:
            file.unlink()
        if how == "replaced":
            file.write_bytes(b"")
        with pytest.raises(StoreError, match="was deleted or replaced"):
            store.add(name, record(key="1" * 32))
        with pytest.raises(StoreError, match="was deleted or replaced"):
            store.finish_run(name)
