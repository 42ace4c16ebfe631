"""Timing configurations of recorded launches on a fake GPU."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from flacheck import reports
from flacheck.capabilities.autotune import gathering
from flacheck.capabilities.autotune.bench import (
    Bench,
    TimedResult,
    grid_of,
    price_against,
    rank_correlation,
    spearman,
    timed_cells,
)
from flacheck.capabilities.autotune.results import Timing, TunedLaunch, TunerResult
from flacheck.capabilities.autotune.trials import Trials, trials
from flacheck.engine.card_runner import CardRunner
from flacheck.errors import UsageError
from flacheck.model import Attempt, Json
from flacheck.reports import autotune as autotune_report
from flacheck.reports.document import Display
from flacheck.store.binaries import Binaries
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import read
from tests.capabilities.autotune.test_autotune_command import document
from tests.made_tuned import good, result
from tests.pipeline.measurement.bundles import BINDING
from tests.subjects.inputs.launches.test_launches import HEAD, HEADER, launch, write

COUNT = 64
SOURCE = (
    HEAD
    + """

@triton.jit
def doubles(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * 2, i < n)
"""
)
CONFIG = {"num_warps": 1, "num_stages": 2}
BLOCKS = (16, 32, 64)
CONFIGS = tuple({"kwargs": {"BLOCK": block}, **CONFIG} for block in BLOCKS)
TENSOR = {"dtype": "fp32", "align": 16}
ARGUMENTS = {"x": TENSOR, "y": TENSOR, "n": {"int": COUNT}}
PLACE = {"shape": [COUNT], "strides": [1], "offset": 0}
H100 = Selection(targets=("sm90",))


def tuned(folder: Path, **changes: Any) -> TunedLaunch:
    """A recorded launch with three configurations."""
    line: Json = {
        "kernel": "program:doubles",
        "qualname": "doubles",
        "heuristics": {},
        "options": {},
        "launch": {"args": ARGUMENTS, "omitted": ["BLOCK"], "configs": list(CONFIGS)},
        "grids": [[4], [2], [1]],
        "storages": [4 * COUNT, 4 * COUNT],
        "tensors": {"x": {**PLACE, "storage": 0}, "y": {**PLACE, "storage": 1}},
    }
    entry = launch(SOURCE, **{**line, **changes})
    (tuned_launch,) = gathering.of_launches(write(folder, HEADER, entry), H100).launches
    return tuned_launch


def timeable(folder: Path, own: Trials) -> TimedResult:
    """The result of an examination in which every configuration compiles."""
    configs = own.tuned_launch.launch.configs
    records = [good() for _ in configs]
    toolchain = own.tuned_launch.cell.toolchain
    compiled = result(folder, *records, configs=configs, toolchain=toolchain)
    return timed_cells(replace(compiled, target="sm90"), own, "sm90")


def add_binaries(timed: TimedResult, *behaviours: tuple[str, float]) -> None:
    """Keep a binary for the fake GPU in the cache for each configuration."""
    parameters = [{"type": "pointer", "tensor": "x"}, {"type": "pointer", "tensor": "y"}]
    parameters.append({"type": "i32", "value": str(COUNT)})
    form: Json = {"entry": "doubles", "threads": 32, "shared": 0, "cluster": [1, 1, 1]}
    form |= {"cooperative": False, "pdl": False, "parameters": parameters, "scratch": []}
    assert timed.launch is not None
    for (cell, _, _), (behaviour, microseconds) in zip(timed.launch.cells, behaviours):
        code = json.dumps({"behaviour": behaviour, "microseconds": microseconds}).encode()
        digest = cell.key.ljust(64, "0")[:64]
        packed = base64.b64encode(zlib.compress(code)).decode()
        own = {**form, "digest": digest, "code": packed, "unlaunchable": None}
        Binaries().add(cell.key, own)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    folder = tmp_path / "binaries"
    folder.mkdir()
    with CardRunner(60.0, folder, BINDING) as runner:
        yield Bench(runner, folder)


def text(format: str, result: TunerResult) -> str:
    """The result in a format, on a wide display."""
    report = autotune_report.report("made", [result])
    return "".join(reports.render(format, report, Display(width=200)))


def test_each_configuration_has_its_time_and_error(tmp_path: Path, bench: Bench) -> None:
    """A configuration that faults has a reason; the others are timed and compared."""
    timed = timeable(tmp_path, trials(tuned(tmp_path)))
    add_binaries(timed, ("double", 20.0), ("fault", 20.0), ("round", 40.0))
    timings = [each.timing for each in bench.time(timed, {}).configs]
    first, fault, last = timings
    assert first is not None and fault is not None and last is not None
    assert (first.median_ms, first.low_ms, first.high_ms, first.error) == (0.02, 0.02, 0.02, 0.0)
    assert fault.median_ms is None
    assert "ILLEGAL_ADDRESS" in (fault.failed or "")
    assert last.median_ms == 0.04
    assert last.error == pytest.approx(2.0**-12, rel=0.01)


def test_a_timed_result_is_shown_in_every_format(tmp_path: Path, bench: Bench) -> None:
    """Times, their spread and the rank of the estimate are in tables and in JSON."""
    timed = timeable(tmp_path, trials(tuned(tmp_path)))
    add_binaries(timed, ("double", 10.0), ("double", 20.0), ("double", 30.0))
    result = bench.time(timed, {})
    (page,) = document(text("json", result))["results"]
    medians = [config["timing"]["median_ms"] for config in page["configs"]]
    assert medians == [0.01, 0.02, 0.03]
    for name in ("table", "markdown"):
        assert "0.010–0.010" in text(name, result)


class InterruptedRunner(CardRunner):
    """A runner whose user presses Ctrl-C during the second launch."""

    launches = 0

    def measure(self, launch: Json, config: Json) -> Attempt:
        self.launches += 1
        if self.launches == 2:
            raise KeyboardInterrupt
        return super().measure(launch, config)


def test_an_interrupt_keeps_what_was_timed(tmp_path: Path) -> None:
    """Kernels without a time have "interrupted" as their reason."""
    timed = timeable(tmp_path, trials(tuned(tmp_path)))
    add_binaries(timed, *[("double", 20.0)] * 3)
    folder = tmp_path / "binaries"
    folder.mkdir()
    with InterruptedRunner(60.0, folder, BINDING) as runner:
        bench = Bench(runner, folder)
        results = [bench.time(timed, {}) for _ in range(3)]
    assert bench.interrupted
    assert [each.not_timed for each in results] == [None, "interrupted", "interrupted"]
    assert results[0].configs[0].timing is not None


INTEGERS = {**ARGUMENTS, "x": {"dtype": "i64", "align": 16}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        (
            {"launch": {"args": INTEGERS, "omitted": ["BLOCK"], "configs": list(CONFIGS)}},
            "the integers of x (i64) were not recorded",
        ),
        ({"grids": None, "grid": [4]}, None),
    ],
)
def test_a_launch_with_unknown_integers_is_not_timed(
    tmp_path: Path, changes: Json, reason: str | None
) -> None:
    """The reason names the tensor."""
    timed = timeable(tmp_path, trials(tuned(tmp_path, **changes)))
    if reason is None:
        assert timed.reason is None
    else:
        assert (timed.reason or "").startswith(reason)


def test_a_declared_launch_has_no_sizes(tmp_path: Path) -> None:
    """A launch declared by a matrix, without memory, or for another GPU is not timed."""
    own = tuned(tmp_path)
    declared = timeable(tmp_path, trials(replace(own, recorded_launch=None)))
    assert "declared, not recorded" in (declared.reason or "")
    assert own.recorded_launch is not None
    without = structs.replace(own.recorded_launch, memory=None)
    reason = timeable(tmp_path, trials(replace(own, recorded_launch=without))).reason
    assert "lacks the sizes" in (reason or "")
    elsewhere = timed_cells(timeable(tmp_path, trials(own)).result, trials(own), "sm80")
    assert elsewhere.reason == "the GPU that is here is sm80"


def test_what_is_not_timed_is_said_in_every_format(tmp_path: Path, bench: Bench) -> None:
    """Every format gives the reason that a kernel has no time."""
    timed = replace(timeable(tmp_path, trials(tuned(tmp_path))), reason="a made reason")
    result = bench.time(timed, {})
    (page,) = document(text("json", result))["results"]
    assert (page["not_timed"], page["configs"][0]["timing"]) == ("a made reason", None)
    for name in ("table", "markdown"):
        assert "not timed: a made reason" in text(name, result)


def test_a_fallback_takes_the_grid_of_the_same_constants(tmp_path: Path) -> None:
    """A fallback has the grid of the configuration with equal constants, or none."""
    own = tuned(tmp_path)
    other = {**CONFIGS[1], "num_warps": 8}
    assert grid_of(own, other) == (2,)
    assert grid_of(own, {**other, "kwargs": {"BLOCK": 128}}) is None


def test_timing_without_a_gpu_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before any compile."""
    from flacheck.api import autotune as api
    from flacheck.engine import card_runner

    def refuse() -> str:
        raise card_runner.NoCard("no binding")

    monkeypatch.setattr(card_runner, "_binding_folder", refuse)
    with pytest.raises(UsageError, match="--bench needs an NVIDIA GPU: no binding"):
        api.autotune("kernel", bench=True, launches=tmp_path / "l.jsonl")


def test_files_of_an_earlier_recorder_are_read(tmp_path: Path) -> None:
    """A launches file without sizes and grids is read."""
    tuned(tmp_path)
    file = tmp_path / "l.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    current = read(file).launches[0]
    for line in lines:
        for name in ("grids", "tensors", "storages"):
            line.pop(name, None)
    (old,) = read(write(tmp_path, *lines)).launches
    assert (old.memory, old.grids) == (None, None)
    assert (old.id, old.launch, old.text) == (current.id, current.launch, current.text)


def test_ranks_share_their_mean_where_values_tie() -> None:
    """Rank correlations equal values computed by hand."""
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == 1.0
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert spearman([1, 1, 2, 3], [1, 2, 3, 4]) == 0.949
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_a_price_is_a_multiple_of_the_best(tmp_path: Path) -> None:
    """The rank correlation covers only configurations with a time."""
    timings = result(tmp_path, good(), good(), good())
    times = [Timing(ms, ms, ms, 0.0) for ms in (2.0, 1.0, 4.0)]
    timed_configs = [replace(each, timing=time) for each, time in zip(timings.configs, times)]
    assert price_against(Timing(3.0, 3.0, 3.0, 0.0), timed_configs) == (3.0, 3.0)
    assert rank_correlation(timed_configs) == 0.5
    assert rank_correlation([*timed_configs[:2], replace(timed_configs[2], timing=None)]) is None
