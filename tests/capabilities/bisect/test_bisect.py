"""Bisection over the fake toolchain: real workers, real store, nine releases in milliseconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import flacheck
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

RESHAPE = "abort LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `size == want' failed."
STORE = "abort Layouts.cpp:7: void chooseStMatrix(int): Assertion `each == full' failed."
# As the gated delta rule went: one assertion, another, mended, then the language changed.
HISTORY = {
    "==3.0": RESHAPE,
    "==4.0": STORE,
    "==5.0": STORE,
    "==9.0": "raise Block pointers have been removed",
}
TORCH = {"2.0": ["2.5.0", "2.5.1"], "3.0": ["2.6.0"], "5.0": ["2.7.1"], "6.0": ["2.8.0"]}


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "torch_for", lambda version: TORCH.get(version, []))


def family(monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], **more: Any) -> FakeFamily:
    made = FakeFamily(table, **more)
    monkeypatch.setitem(toolchains.FAMILIES, "fake", made)
    return made


def shown(bisection: Bisection, *torches: str) -> list[str]:
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


def told(found: Bisection) -> list[tuple[str, str, Kind]]:
    return [
        (change.before.toolchain[6:], change.after.toolchain[6:], change.kind)
        for change in found.changes
    ]


def asked(found: Bisection) -> list[str]:
    return [entry.toolchain[6:] for entry in found.history]


def test_a_history_of_several_changes_is_shown_as_such(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another assertion is a change too; the torch releases stand on each side."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    found = bisect(store, fake.cell("delta", "3.0"))
    assert told(found) == [
        ("2.0", "3.0", Kind.FAIL),
        ("3.0", "4.0", Kind.CAUSE),
        ("5.0", "6.0", Kind.PASS),
        ("8.0", "9.0", Kind.FAIL),
    ]
    assert [(change.torch_before, change.torch_after) for change in found.changes][::2] == [
        (("2.5.0", "2.5.1"), ("2.6.0",)),
        (("2.7.1",), ("2.8.0",)),
    ]


def test_what_broke_and_what_mended_a_cell_takes_few_compiles(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its own release backwards or forwards, past failures of another cause."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    broke, mended = (
        bisect(store, fake.cell("delta", "3.0"), find) for find in (Find.FAIL, Find.PASS)
    )
    assert (told(broke), asked(broke)) == ([("2.0", "3.0", Kind.FAIL)], ["2.0", "3.0"])
    assert told(mended) == [("5.0", "6.0", Kind.PASS)]
    assert asked(mended) == ["3.0", "4.0", "5.0", "6.0", "7.0"]


def test_changes_are_searched_by_halves_and_confirmed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends and its own release, halves, then the release on either side of each change."""
    table = {"==6.0": RESHAPE, "==7.0": RESHAPE, "==8.0": RESHAPE, "==9.0": RESHAPE}
    family(monkeypatch, {"k": {**table, "else": "compile"}})
    found = bisect(store, fake.cell("k", "8.0"))
    assert told(found) == [("5.0", "6.0", Kind.FAIL)]
    assert asked(found) == ["1.0", "4.0", "5.0", "6.0", "7.0", "8.0", "9.0"]
    assert "7 of 9 releases were tested; --every tests all" in shown(found)


def test_every_release_is_compiled_on_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change inside a range whose ends agree shows only then."""
    family(monkeypatch, {"k": {"==3.0": RESHAPE, "else": "compile"}})
    searched = bisect(store, fake.cell("k", "5.0"))
    assert (told(searched), asked(searched)) == ([], ["1.0", "5.0", "9.0"])
    found = bisect(store, fake.cell("k", "5.0"), every=True)
    assert told(found) == [("2.0", "3.0", Kind.FAIL), ("3.0", "4.0", Kind.PASS)]
    assert len(asked(found)) == 9


def test_a_cell_that_compiles_is_searched_the_other_way_round(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next release that fails, and the last one before that failed."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    assert told(bisect(store, fake.cell("delta", "7.0"), Find.FAIL)) == [("8.0", "9.0", Kind.FAIL)]
    assert told(bisect(store, fake.cell("delta", "7.0"), Find.PASS)) == [("5.0", "6.0", Kind.PASS)]


@pytest.mark.parametrize("stage", ["trial", "keys"])
def test_what_an_autotuner_did_is_bisected(
    store: Store, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Its worker repeats a trial of a configuration and a lookup of keys under any release."""
    family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    cell = replace(fake.cell("delta", "3.0"), stage=stage)
    assert told(bisect(store, cell, Find.FAIL)) == [("2.0", "3.0", Kind.FAIL)]


def test_releases_without_a_verdict_are_skipped_and_never_judged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No wheel, a target it does not know, a time-out: the change lies between those that answered."""
    table = {"k": {"==1.0": "compile", "==2.0": "compile", "==4.0": "spin", "else": RESHAPE}}
    family(monkeypatch, table, wheelless=("2.0",), refused={"3.0": ("sm90",)})
    there = releases(fake.cell("k", "6.0"), ())
    for find in (Find.CHANGE, Find.FAIL):
        chosen = ResolvedCell(fake.cell("k", "6.0"))
        options = RunOptions(timeout=0.5, jobs=2, memory_mb=512)
        found = drain(bisect_cell(chosen, there.choices, find, store, options), None)
        assert told(found) == [("1.0", "5.0", Kind.FAIL)]
        assert found.changes[0].between == ("fake==2.0", "fake==3.0", "fake==4.0")
    verdicts = {entry.toolchain[6:]: entry.verdict.value for entry in found.history}
    assert (verdicts["2.0"], verdicts["3.0"], verdicts["4.0"]) == ("unknown", "skipped", "unknown")
    said = "no verdict under fake==2.0, fake==3.0, fake==4.0: the change may be there"
    assert said in shown(found)


def test_a_second_bisection_compiles_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are the store's, and no compiler is even made ready."""
    first = family(monkeypatch, {"delta": {**HISTORY, "else": "compile"}})
    before = bisect(store, fake.cell("delta", "3.0"))
    second = family(monkeypatch, {"delta": "raise nobody asks"})
    after = bisect(store, fake.cell("delta", "3.0"))
    assert (len(first.provided), second.provided) == (9, [])
    assert after.to_json() == before.to_json()
    assert told(bisect(store, fake.cell("delta", "3.0"), fresh=True)) == []


def test_the_last_run_of_a_store_stays_the_last_scan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report after a bisection is about what was scanned."""
    family(monkeypatch, {})
    scanned = store.begin_run({}, "quick", {})
    bisect(store, fake.cell("delta", "3.0"))
    assert [run.matrix for run in store.runs()] == [
        "quick",
        f"bisect {fake.cell('delta', '3.0').key[:8]}",
    ]
    assert store.run("last").id == scanned


def test_a_compile_that_became_slow_is_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict stays compiles."""
    family(
        monkeypatch,
        {"k": {"==1.0": "slow 2.5", "==2.0": "slow 9", "==9.0": "slow 2", "else": "slow 20"}},
    )
    found = bisect(store, fake.cell("k", "5.0"))
    assert told(found) == [("2.0", "3.0", Kind.SLOW), ("8.0", "9.0", Kind.FAST)]
    assert {entry.verdict for entry in found.history} == {Verdict.COMPILES}
    change = "fake==2.0 compiles → fake==3.0 compiles in 20.0 s, 10 times the fastest"
    said = f"{change}; torch 2.5.* | 2.6.0"
    assert said in shown(found, "2.5.0", "2.5.1", "2.6.0", "2.6.1")


@pytest.mark.parametrize(
    ("table", "find", "said"),
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
    store: Store, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], find: Find, said: str
) -> None:
    """And nothing is made up."""
    family(monkeypatch, table)
    cell = fake.cell("k", "5.0")
    options = RunOptions(timeout=0.3, jobs=9, memory_mb=512)
    choices = releases(cell, ()).choices
    found = drain(bisect_cell(ResolvedCell(cell), choices, find, store, options), None)
    assert found.changes == ()
    assert shown(found)[-1].startswith(said)


def test_specifications_narrow_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell's own is always among them; one that took part in choosing the cell narrows nothing."""
    family(monkeypatch, {})
    cell = fake.cell("k", "3.0")

    def names(*specs: str, chose: bool = False) -> list[str]:
        return [choice.version for choice in releases(cell, specs, chose).choices]

    assert names("fake>=5.0,<7.0") == ["3.0", "5.0", "6.0"]
    assert names("fake==8.0") == ["3.0", "8.0"]
    assert len(names("fake==3.0", chose=True)) == len(names()) == 9
    with pytest.raises(UsageError, match=r"only fake==3\.0 is to be looked at"):
        names("fake==3.0")


def test_the_import_of_a_package_is_refused_with_the_command_that_compares_it(store: Store) -> None:
    """It is no compile: only a capture shows it."""
    made = fake.cell("fla.ops:__init__", "3.0")
    cell = Cell(made.kernel, made.toolchain, made.target, None, stage="import")
    with pytest.raises(UsageError, match="flacheck scan --package"):
        drain(bisect_cell(ResolvedCell(cell), (), Find.CHANGE, store, RunOptions()), None)


def test_json_is_what_the_schema_says(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts, skips and changes alike; and the schema admits nothing else."""
    family(
        monkeypatch,
        {"delta": {**HISTORY, "else": "compile"}},
        wheelless=("7.0",),
        refused={"1.0": ("sm90",)},
    )
    schema = json.loads(
        (Path(flacheck.__file__).parent / "tables" / "schemas" / "bisect-1.json").read_text()
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(json.dumps(bisect(store, fake.cell("delta", "3.0")).to_json()))
    jsonschema.validate(document, schema)
    for wrong in (
        {**document, "more": 1},
        {**document, "find": "all"},
        {**document, "history": [{}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
