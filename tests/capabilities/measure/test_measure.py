"""`flacheck measure` from a launches file to a bundle and its result, with a real compiler."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import flacheck
from flacheck.capabilities.measure.measuring import document_of
from flacheck.engine import card_runner
from flacheck.engine.card_runner import CardRunner
from flacheck.errors import Exit, IncompleteError, UsageError
from flacheck.evidence.measured.comparison import stored_measurements
from flacheck.evidence.measured.results import State
from flacheck.model import Verdict
from flacheck.pipeline.measurement import bundle as bundles
from flacheck.pipeline.measurement.running import run_launch
from flacheck.pipeline.measurement.wrong_results import WRONG, wrong_records
from flacheck.reports import measure as measure_report
from flacheck.reports import render
from flacheck.reports.display import Display
from flacheck.store import Store
from tests.made_records import record
from tests.pipeline.measurement.bundles import BINDING, COUNT, bundle, launch
from tests.schemas import validate_json

TEXT = """\
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + places, tl.load(x + places, places < n) * 2, places < n)
"""
HEADER = {"schema": "flacheck.launches/1", "package": None, "device": "NVIDIA H100 80GB HBM3"}


def recorded(grid: list[int], text: str = TEXT, **more: Any) -> dict[str, Any]:
    """A line of a launches file."""
    tensor = {"dtype": "fp32", "align": 16}
    place = {"shape": [COUNT], "strides": [1], "offset": 0, "values": None}
    args = {"x": tensor, "y": tensor, "n": {"int": COUNT}, "BLOCK": {"constexpr": 128}}
    return {
        "id": f"{grid[0]:016d}",
        "kernel": "m:kernel",
        "qualname": "kernel",
        "launch": {"args": args},
        "options": {"num_warps": 4},
        "grid": grid,
        "source": hashlib.sha256(text.encode()).hexdigest(),
        "text": text,
        "storages": [4 * COUNT, 4 * COUNT],
        "tensors": {"x": {**place, "storage": 0}, "y": {**place, "storage": 1}},
        **more,
    }


def launches_file(folder: Path, *entries: dict[str, Any]) -> Path:
    """A launches file of these lines."""
    file = folder / "launches.jsonl"
    lines = [json.dumps(each) for each in (HEADER, *entries, {"end": True})]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(folder))
    return folder


def test_a_bundle_has_the_largest_launch_with_its_binary(tmp_path: Path, cache: Path) -> None:
    """A program's own launch comes before a larger one that flacheck made up."""
    made_up = recorded([99], made_up=True)
    inferred = recorded([98], call="inner function")
    file = launches_file(tmp_path, recorded([8]), recorded([16]), made_up, inferred)
    target = tmp_path / "k.bundle"
    store = tmp_path / "store"
    written = flacheck.measure(file, toolchain="installed", bundle=target, store=store, jobs=1)
    assert (written.exit_code, written.launches) == (Exit.OK, 1)
    folder = tmp_path / "read"
    folder.mkdir()
    read = bundles.read(target, folder)
    assert read.manifest.target == "sm90"
    (measured,) = read.manifest.launches
    (variant,) = measured.variants
    assert (variant.grid, measured.made_up, measured.storages) == ((16,), None, (8_000, 8_000))
    assert variant.binary is not None
    kinds = [parameter.type for parameter in variant.binary.parameters]
    assert kinds == ["pointer", "pointer", "i32"]
    assert variant.binary.parameters[2].value == str(COUNT)


def test_without_a_card_the_two_commands_are_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled before the message."""

    def refuse() -> str:
        raise card_runner.NoCard("NVIDIA's cuda-bindings is not installed")

    monkeypatch.setattr(card_runner, "_binding_folder", refuse)
    file = launches_file(tmp_path, recorded([16]))
    with pytest.raises(IncompleteError) as caught:
        flacheck.measure(file, toolchain="installed", store=tmp_path / "store")
    message = str(caught.value)
    assert "--bundle FILE.bundle`" in message
    assert "`flacheck measure FILE.bundle` on a machine with one" in message
    assert caught.value.exit_code == Exit.INCOMPLETE
    assert not cache.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subject": "quick"}, "declares launches without the memory of their tensors"),
        ({"configs": "edges"}, "expected usual or own"),
        ({"package": "p==1.0", "shape": "T8192"}, "expected symbols with sizes"),
        ({"package": "p==1.0", "shape": "T=0"}, "expected symbols with sizes"),
        ({"subject": "quick", "shape": "T=8192"}, "name one with --package"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    tmp_path: Path, cache: Path, arguments: dict[str, Any], message: str
) -> None:
    """The message names what to measure instead."""
    with pytest.raises(UsageError, match=message):
        flacheck.measure(**arguments, toolchain="installed", bundle=tmp_path / "k.bundle")


@pytest.fixture
def document(tmp_path: Path) -> Callable[..., Any]:
    def measured(*launches: Any) -> Any:
        made = bundle(tmp_path, *launches)
        folder = tmp_path / "requests"
        folder.mkdir()
        with CardRunner(60.0, folder, BINDING) as runner:
            findings = [run_launch(each, made.folder, runner, 0) for each in made.manifest.launches]
            return document_of(made.manifest, findings, runner.card)

    return measured


def test_the_report_names_what_is_wrong_and_what_is_slower(
    tmp_path: Path, document: Callable[..., Any]
) -> None:
    """The first sentence has the numbers; the JSON document matches its schema."""
    wrong = launch(tmp_path, "double", "wrong", "double")
    slow = launch(tmp_path, ("double", 20.0), ("double", 20.0), ("double", 50.0), kernel="m:b")
    result = document(wrong, slow)
    report = measure_report.report(result)
    text = "".join(render("markdown", report, Display()))
    assert "1 wrong result" in text
    assert "triton==3.7.1: 1 of 1 operators slower (operator 1.75)" in text
    assert "elements differ by more than rounding" in text
    validate_json("measure", result.to_json())


def test_a_wrong_result_is_a_failure_of_its_release(
    tmp_path: Path, document: Callable[..., Any]
) -> None:
    """The record keeps the cell of the compile, and names the card."""
    result = document(launch(tmp_path, "double", "wrong", "double"))
    ((_, wrong),) = result.wrong
    assert wrong.state is State.DIFFERS
    compiled = record(verdict=Verdict.COMPILES)
    keyed = compiled.with_(cell=compiled.cell.with_key(wrong.key))
    (failure,) = wrong_records(result, {wrong.key: keyed})
    assert (failure.key, failure.verdict, failure.code) == (wrong.key, Verdict.FAILS, WRONG)
    assert (failure.stage, failure.reason) == ("run", None)
    assert failure.message.startswith("wrong result on Fake GPU, driver 13.0: ")
    with Store.open(tmp_path / "store") as store:
        run = store.begin_run({}, "package==1.0", {})
        store.add_many(run, [failure])
        assert store.latest_verdicts([wrong.key]) == {wrong.key: Verdict.FAILS}


def test_a_report_of_another_machine_is_judged_and_stored(
    tmp_path: Path, cache: Path, document: Callable[..., Any]
) -> None:
    """The interpreter judges results that disagree; the store keeps them without samples."""
    file = launches_file(tmp_path, recorded([16]))
    bundle_file, store = tmp_path / "k.bundle", tmp_path / "store"
    more = {"toolchain": "installed", "store": store, "jobs": 1}
    flacheck.measure(file, bundle=bundle_file, **more)
    folder = tmp_path / "read"
    folder.mkdir()
    ((variant,), *_) = [
        each.variants for each in bundles.read(bundle_file, folder).manifest.launches
    ]
    made = launch(tmp_path, "wrong", "double", "wrong")
    first = structs.replace(made.variants[0], key=variant.key)
    remote = document(structs.replace(made, variants=(first, *made.variants[1:])))
    report = tmp_path / "remote.json"
    report.write_text(json.dumps(remote.to_json()))
    judged = flacheck.measure(file, results=report, **more)
    assert judged.exit_code is Exit.FINDINGS
    assert judged.document is not None
    (result,) = judged.document.launches
    with Store.open(store) as opened:
        (stored,) = stored_measurements(opened)
        # The interpreter needs torch; without it the majority, here the wrong one, is right.
        if importlib.util.find_spec("torch"):
            assert [each.is_wrong for each in result.results] == [True, False, True]
            assert opened.latest_verdicts([variant.key]) == {variant.key: Verdict.FAILS}
    assert stored.launches[0].disagreement is None
    assert stored.launches[0].judge == result.judge


@pytest.mark.parametrize("content", ["", "{}", '{"schema": "flacheck.measure/1"}', "\x00"])
def test_a_malformed_report_is_refused(tmp_path: Path, cache: Path, content: str) -> None:
    """The message says which command writes one."""
    file = launches_file(tmp_path, recorded([16]))
    report = tmp_path / "remote.json"
    report.write_text(content)
    with pytest.raises(UsageError, match="not a report of `flacheck measure"):
        flacheck.measure(file, toolchain="installed", results=report, store=tmp_path / "store")
