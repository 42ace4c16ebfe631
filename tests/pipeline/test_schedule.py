"""The order of a run's compiles and the time left, by stored times."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.model import Cell, Launch, Record, canonical
from flacheck.pipeline import run as runs
from flacheck.pipeline.events import RecordSettled
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.pipeline.schedule import (
    Costs,
    RemainingWork,
    StoredCost,
    most_telling_first,
    stored_cost,
)
from flacheck.store import FILE, Store
from tests import fake
from tests.made_records import failure, record

LAUNCH = canonical(fake.cell("any").launch.to_json())


def cost(name: str, seconds: float, has_failed: bool = False, **more: Any) -> StoredCost:
    plain = StoredCost(
        *(f"fake.{name}", None, "sm90", "bf16"),
        *(LAUNCH, canonical({"num_warps": 4}), seconds, has_failed),
    )
    return replace(plain, **more)


def cells(*names: str) -> list[Cell]:
    return [fake.cell(name, num_warps=4) for name in names]


def order(costs: Costs, of: list[Cell]) -> list[str]:
    ordered = most_telling_first(of, costs)
    return [cell.kernel.name.removeprefix("fake.") for cell in ordered]


def test_failures_come_first_then_the_quick_ones() -> None:
    """A run that is ended early has verdicts of as many kernels as possible."""
    costs = Costs.of([cost("short", 1), cost("long", 9), cost("bad", 2, True), cost("middle", 5)])
    assert order(costs, cells("short", "long", "bad", "middle")) == [
        "bad",
        "short",
        "middle",
        "long",
    ]


def test_without_stored_times_the_order_remains() -> None:
    """All cells are expected to take the same time."""
    assert order(Costs(), cells("b", "a", "c")) == ["b", "a", "c"]


def test_a_partial_answer_sees_every_kernel_in_bf16_at_its_largest_size() -> None:
    """Each kernel comes once before any comes twice, forward before backward."""
    cells_by_size = []
    for name in ("a_bwd", "a_fwd"):
        for dtype, size in (("fp32", 256), ("bf16", 64), ("bf16", 256)):
            cell = fake.cell(name, num_warps=4)
            launch = Launch.from_json({"args": {"K": {"constexpr": size}}})
            cells_by_size.append(replace(cell, dtype=dtype, launch=launch))
    seen = []
    for cell in most_telling_first(cells_by_size, Costs()):
        assert cell.launch is not None
        size = cell.launch.to_json()["args"]["K"]["constexpr"]
        seen.append((cell.kernel.name.removeprefix("fake."), cell.dtype, size))
    assert seen == [
        ("a_fwd", "bf16", 256),
        ("a_bwd", "bf16", 256),
        ("a_fwd", "bf16", 64),
        ("a_bwd", "bf16", 64),
        ("a_fwd", "fp32", 256),
        ("a_bwd", "fp32", 256),
    ]


def test_the_nearest_times_count() -> None:
    """Times of other launches, of other options and of all kernels have less weight, in this
    order."""
    costs = Costs.of(
        [
            cost("a", 2),
            cost("a", 4),
            cost("a", 30, options="{}"),
            cost("b", 4),
            cost("b", 9, launch="{}"),
            cost("b", 9, package="fla==1"),
        ]
    )
    a, b, unknown = cells("a", "b", "c")
    assert [costs.seconds(a), costs.seconds(b), costs.seconds(unknown)] == [
        3,
        4,
        pytest.approx(58 / 6),
    ]
    assert costs.seconds(fake.cell("a", num_warps=16)) == 12


def test_the_work_done_goes_by_expected_seconds() -> None:
    """A cell that is not expected, such as an alternative or a cached one, adds nothing."""
    costs = Costs.of([cost("a", 1), cost("b", 3)])
    a, b, other = cells("a", "b", "c")
    work = RemainingWork.of([a, b], costs)
    results = [record().with_(cell=cell) for cell in (a, other, b)]
    assert [work.settle(each) for each in results] == [0.25, 0.25, 1.0]
    assert RemainingWork.of([], costs).settle(results[0]) is None


def test_the_store_returns_the_costs_of_verdicts(store: Store) -> None:
    """A cell without a verdict may have been cut off."""
    run = store.begin_run({})
    assert store.recent_costs() == []
    good, bad = record(seconds=2.0), failure(toolchain="triton==3.3.0", seconds=4.0)
    store.add_many(run, [good, bad, record("unknown", target="sm80")])
    costs = [stored_cost(row) for row in store.recent_costs()]
    assert [(each.seconds, each.has_failed) for each in costs] == [(2.0, False), (4.0, True)]
    launches = {each.launch for each in costs}
    assert launches == {canonical(good.launch.to_json())}
    assert {each.options for each in costs} == {'{"num_stages":2,"num_warps":4}'}
    assert Costs.of(costs).seconds(good.cell) == 3.0


def test_a_run_of_the_next_release_is_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that failed in the previous release come first, and the order covers all of them."""
    table: dict[str, Any] = {"bad": "shared 245760"}
    monkeypatch.setattr(runs, "Provider", lambda *_: fake.Provider(table))
    monkeypatch.setattr(runs.torch_pins, "refresh", lambda: None)

    def records_of(version: str) -> list[RecordSettled]:
        of = [fake.cell(name, version, num_warps=4) for name in ("a", "b", "bad")]
        events = run_plan(Plan("mine", of, {}), store, RunOptions(jobs=1))
        return [event for event in events if isinstance(event, RecordSettled)]

    with Store.open(tmp_path) as store:
        first: list[Record] = [event.record for event in records_of("1.0")]
        second = records_of("2.0")
        again = records_of("2.0")
    assert [each.kernel for each in first] == ["fake.a", "fake.b", "fake.bad"]
    assert second[0].record.kernel == "fake.bad"
    assert second[-1].work_done == pytest.approx(1.0)
    assert [event.work_done for event in again] == [None] * 3


def test_damaged_records_cost_nothing(tmp_path: Path) -> None:
    """A failing estimate never stops a scan."""
    with Store.open(tmp_path) as store:
        run = store.begin_run({})
        store.add_many(run, [record(seconds=2.0), record(target="sm80")])
    for body in ("{", '{"kernel": 3}', '{"kernel": "k", "options": [], "seconds": 1}'):
        with sqlite3.connect(tmp_path / FILE) as db:
            db.execute("DROP TRIGGER IF EXISTS records_stay")
            db.execute("UPDATE records SET body = ? WHERE id = 2", (body,))
        db.close()
        with Store.open(tmp_path) as store:
            assert [row[-2] for row in store.recent_costs()] == [2.0]
