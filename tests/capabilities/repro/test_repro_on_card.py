"""`flacheck repro` of a wrong result: the runner on a fake GPU is the oracle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck import toolchains
from flacheck.capabilities.repro import reproduction
from flacheck.capabilities.repro.output import card_script
from flacheck.engine import card_runner
from flacheck.errors import Exit, IncompleteError, UsageError
from flacheck.model import Record, Verdict
from flacheck.pipeline.measurement.wrong_results import stored_launch
from flacheck.store import Store
from tests.fake.family import FakeFamily
from tests.made_records import record
from tests.made_specimens import chain, shown_on
from tests.paths import TESTS
from tests.pipeline.measurement.bundles import COUNT

PLACE = {"shape": [COUNT], "strides": [1], "offset": 0, "values": None}
HEADER = {"schema": "flacheck.launches/1", "package": None, "device": "NVIDIA H100"}
RELEASES = "fake==1.0,fake==2.0,fake==3.0"


def table(**two: Any) -> dict[str, Any]:
    """Release 2.0 computes a wrong result for a kernel with a dot."""
    wrong = {"says": "tl.dot", "then": "binary wrong", "else": "binary double", **two}
    return {"*": {"==2.0": wrong, "else": "binary double"}}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that measures a launch, and returns the key of the wrong result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(card_runner, "BINDING", "fake_card")
    monkeypatch.setattr(card_runner, "_binding_folder", lambda: str(TESTS))
    monkeypatch.setattr(reproduction, "run_script", shown_on("2.0"))
    start = chain()
    tensors = {"x": {**PLACE, "storage": 0}, "y": {**PLACE, "storage": 1}}
    line = {
        "id": "a" * 16,
        "kernel": "program:kernel",
        "qualname": "kernel",
        "launch": {"args": {**start.args, "x": {"dtype": "fp32", "align": 16}}},
        "options": dict(start.options),
        "grid": [4],
        "source": hashlib.sha256(start.source.encode()).hexdigest(),
        "text": start.source,
        "storages": [4 * COUNT, 4 * COUNT],
        "tensors": tensors,
    }
    lines = [json.dumps(each) + "\n" for each in (HEADER, line, {"end": True})]
    (tmp_path / "l.jsonl").write_text("".join(lines))

    def measure(behaviour: dict[str, Any]) -> str:
        monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(behaviour))
        measurement = flacheck.measure("l.jsonl", toolchain=RELEASES, jobs=1)
        assert measurement.document is not None
        assert measurement.exit_code is Exit.FINDINGS
        ((_, wrong),) = measurement.document.wrong
        return wrong.key

    return measure


def test_a_wrong_result_is_reduced_with_the_runner_as_oracle(
    measured: Callable[..., str],
) -> None:
    """The kernel keeps the dot alone; the issue says that it needs the GPU."""
    reproduction = flacheck.repro(measured(table()), releases=RELEASES, jobs=1)
    result = reproduction.result
    assert result is not None
    assert (reproduction.exit_code, result.record.code) == (Exit.OK, "FC706")
    assert result.original.lines > 8 > result.reduction.lines
    assert "tl.dot" in result.script
    assert "tl.exp" not in result.script
    verdicts = [each.verdict for each in result.original_table.values()]
    assert verdicts == [Verdict.COMPILES, Verdict.FAILS, Verdict.COMPILES]
    compile(result.script, "repro.py", "exec")
    assert "It needs this GPU and torch." in result.script
    assert 'x=tensors["x"]' in result.original_script
    issue = (reproduction.folder / "issue.md").read_text()
    assert "computes a wrong result on a GPU (Fake GPU)" in issue
    assert "No GPU is needed" not in issue


def test_another_failure_of_a_candidate_is_not_the_wrong_result(
    measured: Callable[..., str],
) -> None:
    """A candidate that faults is rejected."""
    other = {"says": "tl.store", "then": "binary fault", "else": "binary double"}
    key = measured(table(**{"else": other}))
    result = flacheck.repro(key, releases=RELEASES, jobs=1).result
    assert result is not None
    assert "tl.dot" in result.script
    assert result.effort.slips


def test_a_reduction_needs_the_card_and_the_right_release(
    measured: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the release that `--releases` leaves out, or says that only a GPU shows a
    wrong result."""
    key = measured(table())
    with Store.open(Path(".flacheck")) as store:
        stored = stored_launch(store, key)
    assert stored is not None
    assert [each.toolchain for each in stored.launch.variants] == ["fake==1.0", "fake==2.0"]
    with pytest.raises(UsageError, match=r"fake==1\.0 is missing, whose"):
        flacheck.repro(key, releases="fake==3.0", jobs=1)

    def refuse() -> str:
        raise card_runner.NoCard("NVIDIA's cuda-bindings is not installed")

    monkeypatch.setattr(card_runner, "_binding_folder", refuse)
    with pytest.raises(IncompleteError, match="computes a wrong result, which only a GPU shows"):
        flacheck.repro(key, releases=RELEASES, jobs=1)


def _wrong_record(facts: dict[str, Any], *tensors: str) -> Record:
    launch = {"args": {name: {"dtype": "fp32", "align": 16} for name in tensors}}
    wrong = record("fails", code="FC706", launch=launch)
    return wrong.with_(findings=({"code": "FC706", "title": "t", "facts": facts},))


@pytest.mark.parametrize(
    ("dtype", "text", "right", "bound"),
    [
        ("i32", str(2**32 - 7), "right = [-7]", ""),
        ("i64", str(2**62 + 1), f"right = [{2**62 + 1}]", ""),
        ("u8", "255", "right = [255]", ""),
        ("fp32", "0x1.8p+0", "right = [1.5]", " and not abs("),
    ],
)
def test_a_script_compares_integers_exactly(dtype: str, text: str, right: str, bound: str) -> None:
    """Only floats may be off by rounding; integers have their sign and all of their digits."""
    place = {"storage": 0, "shape": [3], "strides": [1], "offset": 0, "values": None}
    sample = {"places": [1], "values": [[text], ["8"]]}
    facts: dict[str, Any] = {"storages": [12], "tensors": {"a": {"dtype": dtype, **place}}}
    facts |= {"grid": [1], "seed": 0, "distribution": "normal", "samples": {"0": sample}}
    facts |= {"right_group": 0, "tolerance": 0.5}
    wrong = _wrong_record(facts, "a")
    words, _, check = card_script.parts(wrong)
    assert words == card_script.WORDS
    assert f"if each[1] != each[2]{bound}" in check
    assert right in check.splitlines()
    assert (".double()" in check) == bool(bound)
    compile(check, "check.py", "exec")


def test_a_script_has_the_inputs_of_the_runner() -> None:
    """Executed without a GPU, its storages hold the same bytes as the runner's memory.

    There are none of tensors that the kernel no longer takes.
    """
    torch = pytest.importorskip("torch")
    from flacheck.guest.card.memory import Layout
    from flacheck.guest.workers.interpreter_worker import HostMemory

    names = {"a": "fp32", "b": "bf16", "unused": "fp32", "c": "fp16", "d": "i64"}
    tensors: dict[str, Any] = {}
    for number, (name, dtype) in enumerate(names.items()):
        values = [5, -1, 7] if dtype == "i64" else None
        place = {"shape": [3], "strides": [1], "offset": 1, "values": values}
        tensors[name] = {"storage": number, "dtype": dtype, **place}
    # Integers of the program in a storage of floats.
    place = {"shape": [3], "strides": [1], "offset": 2, "values": [0, 0, 0]}
    tensors["e"] = {"storage": 0, "dtype": "i32", **place}
    storages = [4 * 100_000, 2 * 70_001, 4, 2 * 9, 8 * 4]
    form = {"storages": storages, "tensors": tensors}
    facts = {**form, "grid": [1], "seed": 3, "distribution": "negative", "samples": {}}
    _, prepare, _ = card_script.parts(_wrong_record(facts, *"abcde"))
    made: dict[str, Any] = {"torch": torch}
    exec(prepare.replace(".cuda()", "").replace('device="cuda"', 'device="cpu"'), made)
    layout = Layout(form)
    memory = HostMemory(layout.size)
    layout.fill(memory, 0, "negative", 3)
    content = bytes(memory.content)
    assert list(made["storages"]) == [0, 1, 3, 4]
    for number, storage in made["storages"].items():
        own = storage.contiguous().view(torch.uint8).numpy().tobytes()
        start = layout.offsets[number]
        assert own == content[start : start + storages[number]]
