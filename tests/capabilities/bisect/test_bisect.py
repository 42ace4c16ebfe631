"""Bisection over the fake toolchain: real workers, real store, nine releases in milliseconds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flacheck import reports, toolchains
from flacheck.capabilities.bisect.bisecting import bisect_cell, releases
from flacheck.capabilities.bisect.history import Bisection, Find, Kind
from flacheck.errors import UsageError
from flacheck.model import Cell, Verdict
from flacheck.pipeline.events import drain
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.resolved_cell import ResolvedCell
from flacheck.reports import bisect as bisect_report
from flacheck.reports.document import Display
from flacheck.store import Store
from flacheck.toolchains import torch_pins as pins
from tests import fake
from tests.fake.family import FakeFamily
from tests.schemas import validate_json

RESHAPE = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `size == want' failed."
STORE = "abort Layouts.cpp:7: void chooseStMatrix(int): Assertion `each == full' failed."
# The gated delta rule's history: one assertion, another, a fix, then a change of the language.
HISTORY = {
    "==3.0": RESHAPE,
    "==4.0": STORE,
    "==5.0": STORE,
    "==9.0": "raise Block pointers have been removed",
}
TORCH = {"2.0": ["2.5.0", "2.5.1"], "3.0": ["2.6.0"], "5.0": ["2.7.1"], "6.0": ["2.8.0"]}


@pytest.fixture(autouse=True)
def pin_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "torch_for", lambda version: TORCH.get(version, []))


def family(monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], **more: Any) -> FakeFamily:
    fake_family = FakeFamily(table, **more)
    monkeypatch.setitem(toolchains.FAMILIES, "fake", fake_family)
    return fake_family


def lines_of(bisection: Bisection, *torches: str) -> list[str]:
    """The lines that a person reads of a bisection, without their indentation."""
    report = bisect_report.report(replace(bisection, torches=torches))
    text = "".join(reports.render("table", report, Display(width=200)))
    return [line.strip() for line in text.splitlines()]


def bisect(
    store: Store,
    cell: Cell,
    find: Find = Find.CHANGE,
    specs: tuple[str, ...] = (),
    every: bool = False,
    **more: Any,
) -> Bisection:
    choices = releases(cell, specs).choices
    options = RunOptions(timeout=20, jobs=2, memory_mb=512, **more)
    return drain(bisect_cell(ResolvedCell(cell), choices, find, store, options, every), None)


def changes_of(bisection: Bisection) -> list[tuple[str, str, Kind]]:
    return [
        (change.before.toolchain[6:], change.after.toolchain[6:], change.kind)
        for change in bisection.changes
    ]


def releases_of(bisection: Bisection) -> list[str]:
    return [entry.toolchain[6:] for entry in bisection.history]


def test_what_broke_and_what_mended_a_cell_takes_few_compiles(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search starts at the cell's own release and passes failures of another cause."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    breaks, fixes = (
        bisect(store, fake.cell("delta", "3.0"), find) for find in (Find.FAIL, Find.PASS)
    )
    assert (changes_of(breaks), releases_of(breaks)) == (
        [("2.0", "3.0", Kind.FAIL)],
        ["2.0", "3.0"],
    )
    assert changes_of(fixes) == [("5.0", "6.0", Kind.PASS)]
    assert releases_of(fixes) == ["3.0", "4.0", "5.0", "6.0", "7.0"]


def test_changes_are_searched_by_halves_and_confirmed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends, halves, and the neighbours of each change are compiled."""
    table = {"==6.0": RESHAPE, "==7.0": RESHAPE, "==8.0": RESHAPE, "==9.0": RESHAPE}
    family(monkeypatch, {"k": {**table, "else": "compile"}})
    bisection = bisect(store, fake.cell("k", "8.0"))
    assert changes_of(bisection) == [("5.0", "6.0", Kind.FAIL)]
    assert releases_of(bisection) == ["1.0", "4.0", "5.0", "6.0", "7.0", "8.0", "9.0"]
    assert "7 of 9 releases were tested; --every tests all" in lines_of(bisection)


def test_every_release_is_compiled_on_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `every`, a change inside a range whose ends agree is found."""
    family(monkeypatch, {"k": {"==3.0": RESHAPE, "else": "compile"}})
    quick = bisect(store, fake.cell("k", "5.0"))
    assert (changes_of(quick), releases_of(quick)) == ([], ["1.0", "5.0", "9.0"])
    bisection = bisect(store, fake.cell("k", "5.0"), every=True)
    assert changes_of(bisection) == [("2.0", "3.0", Kind.FAIL), ("3.0", "4.0", Kind.PASS)]
    assert len(releases_of(bisection)) == 9


def test_a_cell_that_compiles_is_searched_the_other_way_round(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a cell that compiles, the search finds the next and the last failure."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    assert changes_of(bisect(store, fake.cell("delta", "7.0"), Find.FAIL)) == [
        ("8.0", "9.0", Kind.FAIL)
    ]
    assert changes_of(bisect(store, fake.cell("delta", "7.0"), Find.PASS)) == [
        ("5.0", "6.0", Kind.PASS)
    ]


@pytest.mark.parametrize("stage", ["trial", "keys"])
def test_what_an_autotuner_did_is_bisected(
    store: Store, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Trials of a configuration and lookups of keys can be bisected."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    cell = replace(fake.cell("delta", "3.0"), stage=stage)
    assert changes_of(bisect(store, cell, Find.FAIL)) == [("2.0", "3.0", Kind.FAIL)]


def test_releases_without_a_verdict_are_skipped_and_never_judged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change lies between the nearest releases with a verdict."""
    table = {"k": {"==1.0": "compile", "==2.0": "compile", "==4.0": "spin", "else": RESHAPE}}
    family(monkeypatch, table, wheelless=("2.0",), refused={"3.0": ("sm90",)})
    there = releases(fake.cell("k", "6.0"), ())
    for find in (Find.CHANGE, Find.FAIL):
        resolved_cell = ResolvedCell(fake.cell("k", "6.0"))
        options = RunOptions(timeout=0.5, jobs=2, memory_mb=512)
        bisection = drain(bisect_cell(resolved_cell, there.choices, find, store, options), None)
        assert changes_of(bisection) == [("1.0", "5.0", Kind.FAIL)]
        assert bisection.changes[0].between == ("fake==2.0", "fake==3.0", "fake==4.0")
    verdicts = {entry.toolchain[6:]: entry.verdict.value for entry in bisection.history}
    assert (verdicts["2.0"], verdicts["3.0"], verdicts["4.0"]) == ("unknown", "skipped", "unknown")
    message = "no verdict under fake==2.0, fake==3.0, fake==4.0: the change may be there"
    assert message in lines_of(bisection)


def test_a_second_bisection_compiles_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second bisection reads the store and provides no compiler."""
    first = family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    before = bisect(store, fake.cell("delta", "3.0"))
    second = family(monkeypatch, {"delta": "raise this compiler is not to run"})
    after = bisect(store, fake.cell("delta", "3.0"))
    assert (len(first.provided), second.provided) == (9, [])
    assert after.to_json() == before.to_json()
    assert changes_of(bisect(store, fake.cell("delta", "3.0"), fresh=True)) == []


def test_the_last_run_of_a_store_stays_the_last_scan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bisection does not become the store's last run."""
    family(monkeypatch, {})
    scan_id = store.begin_run({}, "quick", {})
    bisect(store, fake.cell("delta", "3.0"))
    assert [run.matrix for run in store.runs()] == [
        "quick",
        f"bisect {fake.cell('delta', '3.0').key[:8]}",
    ]
    assert store.run("last").id == scan_id


def test_a_compile_that_became_slow_is_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compile that became ten times slower is a change."""
    family(
        monkeypatch,
        {"k": {"==1.0": "slow 2.5", "==2.0": "slow 9", "==9.0": "slow 2", "else": "slow 20"}},
    )
    bisection = bisect(store, fake.cell("k", "5.0"))
    assert changes_of(bisection) == [("2.0", "3.0", Kind.SLOW), ("8.0", "9.0", Kind.FAST)]
    assert {entry.verdict for entry in bisection.history} == {Verdict.COMPILES}
    change = "fake==2.0 compiles → fake==3.0 compiles in 20.0 s, 10 times the fastest"
    message = f"{change}; torch 2.5.* | 2.6.0"
    assert message in lines_of(bisection, "2.5.0", "2.5.1", "2.6.0", "2.6.1")


@pytest.mark.parametrize(
    ("table", "find", "message"),
    [
        ({}, Find.CHANGE, "nothing changes: all 3 releases"),
        ({"k": RESHAPE}, Find.FAIL, "not found: no older release compiles"),
        ({"k": RESHAPE}, Find.PASS, "not found: no newer release compiles"),
        ({}, Find.FAIL, "not found: no newer release fails"),
        ({}, Find.PASS, "not found: no older release fails"),
        ({"k": {"==5.0": "spin", "else": RESHAPE}}, Find.FAIL, "fake==5.0 itself gave no verdict"),
        pytest.param(
            {"k": "spin"},
            Find.CHANGE,
            "undecidable: fewer than two",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_where_nothing_is_found_the_reason_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], find: Find, message: str
) -> None:
    """A bisection without a change ends with its reason."""
    family(monkeypatch, table)
    cell = fake.cell("k", "5.0")
    options = RunOptions(timeout=0.3, jobs=9, memory_mb=512)
    choices = releases(cell, ()).choices
    bisection = drain(bisect_cell(ResolvedCell(cell), choices, find, store, options), None)
    assert bisection.changes == ()
    assert lines_of(bisection)[-1].startswith(message)


def test_specifications_narrow_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell's own release is always among the searched ones."""
    family(monkeypatch, {})
    cell = fake.cell("k", "3.0")

    def names(*specs: str, chose: bool = False) -> list[str]:
        return [choice.version for choice in releases(cell, specs, chose).choices]

    assert names("fake>=5.0,<7.0") == ["3.0", "5.0", "6.0"]
    assert names("fake==8.0") == ["3.0", "8.0"]
    assert len(names("fake==3.0", chose=True)) == len(names()) == 9
    with pytest.raises(UsageError, match=r"only fake==3\.0 is selected"):
        names("fake==3.0")


def test_the_import_of_a_package_is_refused_with_the_command_that_compares_it(store: Store) -> None:
    """A cell of an import is refused, and the message names `flacheck scan --package`."""
    imported_cell = fake.cell("fla.ops:__init__", "3.0")
    cell = Cell(
        imported_cell.kernel, imported_cell.toolchain, imported_cell.target, None, stage="import"
    )
    with pytest.raises(UsageError, match="flacheck scan --package"):
        drain(bisect_cell(ResolvedCell(cell), (), Find.CHANGE, store, RunOptions()), None)


def test_json_is_what_the_schema_says(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts, skips and changes follow the schema."""
    family(
        monkeypatch,
        {"delta": {**HISTORY, "else": "compile"}},
        wheelless=("7.0",),
        refused={"1.0": ("sm90",)},
    )
    document = json.loads(json.dumps(bisect(store, fake.cell("delta", "3.0")).to_json()))
    validate_json("bisect", document)
