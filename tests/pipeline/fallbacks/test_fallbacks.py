"""The search for fallbacks: over the fake toolchain, and with a real compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.summary import summarise
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.pipeline.fallbacks import alternatives, others
from flacheck.pipeline.fallbacks.candidates import Candidate
from flacheck.pipeline.fallbacks.others import other_dtypes
from flacheck.pipeline.fallbacks.searching import LoopOracle, search
from flacheck.pipeline.plan import Plan
from flacheck.store import Store
from flacheck.toolchains.base import Choice
from tests import fake
from tests.schemas import validate_json

ASSERTION = (
    "abort f.cpp:1: int LinearLayout::reshapeOuts(int) const: Assertion `size == want' failed."
)
OTHER = "abort f.cpp:2: int LinearLayout::other(int) const: Assertion `size == other' failed."
REMOVAL = "raise Block pointers have been removed in favor of tensor descriptors"


def _search(
    store: Store, table: dict[str, Any], cells: Sequence[Cell], **more: Any
) -> list[Fallback]:
    """Scan the cells, then search."""
    choices = {
        f"fake=={v}": Choice("fake", v, f"fake=={v}", "cache") for v in ("1.0", "2.0", "3.0")
    }
    plan = Plan("fake", cells, choices)
    timeouts = Timeouts(30)
    pool = LocalPool(2, timeouts)
    provider = fake.Provider(table)
    run = store.begin_run({}, purpose=Purpose.FALLBACKS)
    try:
        scan = Loop(provider, store.begin_run({}, "fake"), store, pool, timeouts)
        records = list(scan.records(cells))
        oracle = LoopOracle(Loop(provider, run, store, pool, timeouts))
        return list(search(plan, records, oracle, **more))
    finally:
        pool.close()


def _candidates(store: Store) -> list[Record]:
    """Return the records of searches that no scan requested."""
    searches = [run for run in store.runs() if run.purpose is Purpose.FALLBACKS]
    scan_keys = {record.key for record in store.latest()}
    return [
        record
        for run in searches
        for record in store.records(run.id)
        if record.key not in scan_keys
    ]


WARPS = {"by": "num_warps", "8": ASSERTION, "4": OTHER, "16": {"==1.0": "compile", "else": OTHER}}


def test_a_fallback_compiles_on_every_release_that_was_asked(store: Store) -> None:
    """A fallback that compiles on every release is preferred to a nearer one."""
    cells = [fake.cell("warps", version, num_warps=8) for version in ("1.0", "2.0")]
    fallbacks_ = _search(store, {"warps": WARPS}, cells)
    assert [(each.toolchain, dict(each.use), each.places) for each in fallbacks_] == [
        ("fake==1.0", {"num_warps": 2}, (("fake==1.0", "sm90"), ("fake==2.0", "sm90"))),
        ("fake==2.0", {"num_warps": 2}, (("fake==2.0", "sm90"), ("fake==1.0", "sm90"))),
    ]
    assert fallbacks_[0].steps == 2.0
    assert fallbacks_[0].marks == {"num_warps": "option"}


def test_where_nothing_helps_everywhere_each_release_has_its_own(
    store: Store,
) -> None:
    """Each release has its own fallback if none compiles everywhere."""
    table = {"warps": {"==2.0": ASSERTION, "else": WARPS}}
    fallbacks_ = _search(
        store, table, [fake.cell("warps", version, num_warps=8) for version in ("1.0", "2.0")]
    )
    assert {each.toolchain: dict(each.use) for each in fallbacks_} == {
        "fake==1.0": {"num_warps": 16}
    }


def test_what_was_found_was_compiled_and_is_no_cell_of_the_scan(
    store: Store,
) -> None:
    """The store separates cells of a search from those of a scan."""
    cell = fake.cell("warps", num_warps=8)
    (fallbacks_,) = _search(store, {"warps": WARPS}, [cell])
    key = Candidate(fallbacks_.use).of(cell).key
    assert store.latest_records([key])[key].verdict is Verdict.COMPILES
    assert [record.key for record in store.latest()] == [cell.key]


def test_a_second_search_compiles_nothing_and_finds_the_same(store: Store) -> None:
    """The second search reads the store."""
    cells = [fake.cell("warps", num_warps=8)]
    first = _search(store, {"warps": WARPS}, cells)
    # Were anything compiled again, it would abort now.
    assert _search(store, {"warps": OTHER}, cells) == first


@pytest.mark.slow
def test_what_a_few_kernels_show_to_be_lost_is_given_up_sooner_for_the_others(
    store: Store,
) -> None:
    """The fourth kernel of one failure is searched less."""
    failing = {f"lost{n}": ASSERTION for n in range(4)}
    table = {**failing, "other": {"by": "num_warps", "1": "compile", "else": OTHER}}
    fallbacks_ = _search(
        store, table, [fake.cell(name, num_warps=8, num_stages=4) for name in table]
    )
    assert [(each.kernel, dict(each.use)) for each in fallbacks_] == [
        ("fake.other", {"num_warps": 1})
    ]
    compiles = Counter(record.kernel for record in _candidates(store))
    assert compiles["fake.lost3"] < min(compiles[f"fake.lost{n}"] for n in range(3))


def test_a_removed_api_wants_another_release_and_no_other_setting(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only other releases are compiled, the nearest first."""
    monkeypatch.setattr(others.triton_releases, "known_releases", lambda: ["1.0", "2.0", "3.0"])
    table = {"old": {"==3.0": REMOVAL, "else": "compile"}}
    (fallbacks_,) = _search(store, table, [fake.cell("old", "3.0", num_warps=8)])
    assert (dict(fallbacks_.use), fallbacks_.steps, fallbacks_.places) == (
        {"fake": "2.0"},
        1.0,
        (("fake==2.0", "sm90"),),
    )
    assert len(_candidates(store)) == 1


def test_another_dtype_and_another_release_where_no_setting_helps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other dtype comes before the other release."""
    monkeypatch.setattr(others.triton_releases, "known_releases", lambda: ["1.0", "2.0", "3.0"])
    table = {
        "bad": {"==1.0": {"by": "dtype", "fp32": "compile", "else": ASSERTION}, "else": "compile"}
    }
    fallbacks_ = _search(store, table, [fake.cell("bad", target="sm70", num_warps=8)])
    assert [dict(each.use) for each in fallbacks_] == [{"dtype": "fp32"}, {"fake": "2.0"}]


def test_another_dtype_works_wherever_the_call_was_asked(store: Store) -> None:
    """A dtype that compiles on both releases is preferred."""
    in_fp16 = {"==1.0": "compile", "else": OTHER}
    table = {"bad": {"by": "dtype", "fp32": "compile", "fp16": in_fp16, "else": ASSERTION}}
    cells = [fake.cell("bad", version, num_warps=8) for version in ("1.0", "2.0")]
    fallbacks_ = _search(store, table, cells)
    assert [dict(each.use) for each in fallbacks_] == [{"dtype": "fp32"}] * 2
    assert fallbacks_[0].places == (("fake==1.0", "sm90"), ("fake==2.0", "sm90"))


def test_another_dtype_may_want_other_settings_too(store: Store) -> None:
    """The nearest of these settings is taken, counted with the dtype."""
    in_fp32 = {"by": "num_warps", "2": "compile", "else": OTHER}
    table = {"bad": {"by": "dtype", "fp32": in_fp32, "else": ASSERTION}}
    (fallbacks_,) = _search(store, table, [fake.cell("bad", target="sm70", num_warps=8)])
    assert dict(fallbacks_.use) == {"num_warps": 2, "dtype": "fp32"}
    assert fallbacks_.changes == 2


def test_dtypes_are_the_widest_that_the_gpu_has() -> None:
    """The widest dtypes of the GPU come first."""
    assert other_dtypes("bf16", "sm70") == ["fp32", "fp16"]
    assert other_dtypes("fp16", "sm70") == ["fp32"]
    assert other_dtypes("fp16", "sm90") == ["bf16", "fp32"]
    assert other_dtypes("bf16", "sm90") == [
        "fp32",
        "fp16",
    ]
    assert other_dtypes(None, "sm90") == []


def test_a_report_shows_again_what_was_found(store: Store) -> None:
    """A report prefers the stored search to fallbacks among the records."""
    advice = _search(store, {"warps": WARPS}, [fake.cell("warps", num_warps=n) for n in (8, 1)])
    (scan,) = [run.id for run in store.runs() if run.purpose is Purpose.SCAN]
    run = store.begin_run({}, purpose=Purpose.FALLBACKS)
    rows = [[each.package, each.to_json()] for each in advice]
    store.finish_run(run, {"of": scan, "fallbacks": rows})
    assert store.fallbacks(["another"]) == []
    stored_fallbacks = [
        Fallback.from_json(plain, package) for package, plain in store.fallbacks([scan])
    ]
    assert stored_fallbacks == advice
    alone = summarise(store.records(scan), Context(fallbacks=alternatives.fallbacks))
    assert [each.use for each in alone.fallbacks] == [{"num_warps": 1}]
    assert alone.with_searched(advice).fallbacks == tuple(advice)
    assert alone.with_searched([]) is alone
    assert [each.use for each in advice] == [{"num_warps": 16}]


@pytest.mark.network
def test_scan_says_what_was_searched(tmp_path: Path) -> None:
    """--fallbacks finds 4 warps for the gated delta rule."""
    command = [
        "scan",
        "-k",
        "gated_delta_rule.chunk_fwd_h",
        "--triton",
        "3.2.0",
        "--target",
        "sm80,sm90",
        "--dtype",
        "bf16",
        "--num-warps",
        "8",
        "--num-stages",
        "2",
        "--fallbacks",
        "--format",
        "json",
        "-o",
        "out.json",
    ]
    outcome = subprocess.run(
        [sys.executable, "-m", "flacheck", *command],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 1, outcome.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    validate_json("run", document)
    with_places = [each for each in document["summary"]["fallbacks"] if each.get("places")]
    failing = [each for each in document["records"] if each["verdict"] == "fails"]
    assert len(with_places) == len(failing) > 0
    assert all(
        each["use"] == {"num_warps": 4} and each["marks"] == {"num_warps": "option"}
        for each in with_places
    )
    assert {place["target"] for each in with_places for place in each["places"]} == {"sm80", "sm90"}
