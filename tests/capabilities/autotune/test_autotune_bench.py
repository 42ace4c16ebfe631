"""Timing configurations: our own kernels and recorded ones, in Triton's interpreter, where no card
is needed.
"""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from flacheck import reports, toolchains
from flacheck.capabilities.autotune import gathering, timeable
from flacheck.capabilities.autotune.bench import Bench, price_against, rank_correlation, spearman
from flacheck.capabilities.autotune.examination import (
    TuningPlan,
    compile_trials,
    judge_trials,
    plan_tuning,
    time_results,
)
from flacheck.capabilities.autotune.results import Timing, TunedLaunch, TunerResult
from flacheck.errors import UsageError
from flacheck.model import Attempt, Cell, Imported, Json, Launch, Record, Verdict, canonical
from flacheck.pipeline.events import drain
from flacheck.pipeline.job import RunOptions
from flacheck.reports import autotune as autotune_report
from flacheck.reports.document import Display
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.run import capture
from flacheck.subjects.inputs import corpus
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import read
from flacheck.toolchains import Resolver
from tests.capabilities.autotune.test_autotune_command import document
from tests.captured import needs_torch
from tests.made_tuned import good, result
from tests.subjects.inputs.launches.test_launches import HEAD, HEADER, launch, write

# The output depends on integers, strides, grids and heuristics of the recorded launch.
PROGRAM = """
import torch, triton, triton.language as tl

@triton.heuristics({"HALF": lambda args: args["K"] // 2})
@triton.autotune([triton.Config({"BLOCK": b}, num_warps=1) for b in (64, 32, 16)], ["K"])
@triton.heuristics({"TWICE": lambda args: 2 * args["BLOCK"]})
@triton.jit
def segments(
    x, y, ends, scale, K: tl.constexpr, BLOCK: tl.constexpr, HALF: tl.constexpr, TWICE: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, last = tl.load(ends + 0), tl.load(ends + 1)
    here = (i >= first) & (i < last)
    value = tl.load(x + i * 2, mask=here, other=0.0)
    tl.store(y + i, value * scale + HALF + TWICE // BLOCK, mask=here)

x, y = torch.empty(128, 2, device="cuda"), torch.empty(128, device="cuda")
ends = torch.tensor([[{ends}]], device="cuda").expand(3, 2)
segments[lambda meta: (triton.cdiv(128, meta["BLOCK"]),)](x[:, 1], y, ends, 0.5, K=128)
"""
FAULTS = (
    HEAD
    + """

@triton.jit
def breaks(x, FAR: tl.constexpr, LONG: tl.constexpr):
    for _ in range(LONG):
        tl.store(x, tl.load(x) + 1)
    tl.store(x + tl.cast(FAR, tl.int64), 1.0)
"""
)
CONFIG = {"num_warps": 1, "num_stages": 2}
CONFIGS_THAT_BREAK = tuple({"kwargs": {"FAR": far, "LONG": 0}, **CONFIG} for far in (0, 1))


def capture_program(folder: Path, ends: str = "3, 120") -> Path:
    """The launches file of the program."""
    script, output = folder / "program.py", folder / "l.jsonl"
    script.write_text(textwrap.dedent(PROGRAM).replace("{ends}", ends))
    assert capture([sys.executable, str(script)], output) == 0
    return output


H100 = Selection(targets=("sm90",))


def read_launch(file: Path) -> TunedLaunch:
    """The only launch of a file."""
    (timings,) = gathering.of_launches(file, H100).launches
    return timings


def breaking(folder: Path, *constants: tuple[int, int], **changes: Any) -> TunedLaunch:
    """A launch of the kernel that breaks, with a configuration for each pair of its constants."""
    configs = [{"kwargs": {"FAR": far, "LONG": long}, **CONFIG} for far, long in constants]
    line: Json = {
        "kernel": "program:breaks",
        "qualname": "breaks",
        "heuristics": {},
        "options": {},
        "launch": {
            "args": {"x": {"dtype": "fp32", "align": 16}},
            "omitted": ["FAR", "LONG"],
            "configs": configs,
        },
        "grids": [[1]] * len(configs),
        "storages": [16],
        "tensors": {"x": {"storage": 0, "shape": [4], "strides": [1], "offset": 0}},
    }
    return read_launch(write(folder, HEADER, launch(FAULTS, **{**line, **changes})))


def text(format: str, result: TunerResult) -> str:
    """The result in a format, on a wide display."""
    report = autotune_report.report("made", [result])
    return "".join(reports.render(format, report, Display(width=200)))


def installed_identity() -> str:
    """The identity of the installed Triton."""
    (choice,) = toolchains.resolve(["installed"]).choices
    return choice.identity


def times(
    bench: Bench, launched_kernel: TunedLaunch, configs: list[Any] | None = None
) -> list[Timing]:
    """The timings of a launch's configurations, in their order."""
    configs = configs or list(launched_kernel.launch.configs)
    with bench:
        timings = bench._times(launched_kernel, configs, {})
    assert not isinstance(timings, str), timings
    return [timings[canonical(config)] for config in configs]


ONE_WORKER = RunOptions(jobs=1)


def compile_all(tuning: TuningPlan, store: Path) -> dict[str, Record]:
    """The records of all cells by key, each of which compiles."""
    records = drain(compile_trials(tuning, store, ONE_WORKER), None)
    assert {record.verdict for record in records.values()} == {Verdict.COMPILES}
    return records


@needs_torch
@pytest.mark.parametrize("name", ["retention.chunk_fwd_o", "simple_gla.chunk_bwd_dv"])
def test_a_kernel_is_timed_as_its_host_function_launches_it(name: str) -> None:
    """Every configuration computes the same values, and an invalid one reports its error."""
    entry = corpus.load()[name]
    sizes = {"B": 1, "T": 70, "H": 1, "K": 32, "V": 32}
    cell = Cell(entry.kernel, "triton==0", "sm90", Launch({}), dtype="fp32", shape=sizes)
    configs = entry.launches[0].configs
    bad = {**configs[0], "kwargs": {"BK": 48, "BV": 64}}
    timings = times(
        Bench("cpu"), TunedLaunch(cell, {}, (), False, None), [configs[0], configs[1], bad]
    )
    assert all(
        time.median_ms and time.low_ms and time.high_ms and time.warm_up_s for time in timings[:2]
    )
    assert timings[0].error == 0
    assert timings[1].error is not None
    assert timings[1].error < 1e-5
    assert timings[2].median_ms is None
    assert timings[2].failed
    assert "arange" in timings[2].failed


@pytest.mark.slow
@needs_torch
def test_a_timed_result_is_shown_in_every_format(tmp_path: Path) -> None:
    """A matrix's kernel gets times, their spread, and the rank of the estimate."""
    matrix = tmp_path / "small.yaml"
    shape = {"B": 1, "T": 70, "H": 1, "K": 32, "V": 32}
    matrix.write_text(json.dumps({"version": 1, "axes": {"dtype": "fp32", "shape": shape}}))
    selection = replace(H100, kernels=("retention.chunk_fwd_o",))
    tuning = plan_tuning("made", gathering.of_matrix(str(matrix), selection))
    results = judge_trials(tuning, compile_all(tuning, tmp_path), tmp_path, ONE_WORKER, 0)
    (result,) = time_results(tuning, results, Bench("cpu"))
    assert result.rank is not None
    assert -1 <= result.rank <= 1
    assert result.not_timed is None
    (page,) = document(text("json", result))["results"]
    assert [config["timing"]["error"] < 1e-5 for config in page["configs"]] == [True] * 6
    for name, words in (
        ("table", "rank correlation"),
        ("markdown", "| 6 | BK=64 BV=128 num_warps=8 num_stages=2 |"),
    ):
        assert words in text(name, result)


@needs_torch
def test_a_programs_kernel_is_timed_as_it_was_recorded(tmp_path: Path) -> None:
    """Every configuration runs on its own grid and writes the same values."""
    file = capture_program(tmp_path)
    tuning = plan_tuning("made", gathering.of_launches(file, H100))
    results = judge_trials(tuning, compile_all(tuning, tmp_path), tmp_path, ONE_WORKER, 0)
    (result,) = time_results(tuning, results, Bench("cpu"))
    assert [(each.timing.error, each.timing.failed) for each in result.configs if each.timing] == [
        (0, None)
    ] * 3
    (page,) = document(text("json", result))["results"]
    assert page["not_timed"] is None
    assert all(config["timing"]["median_ms"] for config in page["configs"])


@needs_torch
def test_a_grid_that_is_another_configurations_shows(tmp_path: Path) -> None:
    """The grid of another configuration leaves results out."""
    launched_kernel = read_launch(capture_program(tmp_path))
    assert launched_kernel.recorded_launch
    assert launched_kernel.recorded_launch.grids == ((2,), (4,), (8,))
    wrong = replace(
        launched_kernel,
        recorded_launch=structs.replace(launched_kernel.recorded_launch, grids=((2,),) * 3),
    )
    first, second, _ = times(Bench("cpu"), wrong)
    assert first.error == 0
    assert second.error is not None
    assert second.error > 0.1


@needs_torch
def test_the_programs_integers_come_along(tmp_path: Path) -> None:
    """A program whose sequence is empty is reported as writing nothing."""
    timings = times(Bench("cpu"), read_launch(capture_program(tmp_path, ends="5, 5")))
    assert len(timings) == 3
    for time in timings:
        assert time.failed
        assert "the kernel wrote nothing" in time.failed


@needs_torch
def test_a_configuration_that_takes_its_worker_along_ends_no_other(tmp_path: Path) -> None:
    """After a second crash of the worker, the other configurations are not tried."""
    far = 1 << 45
    launched_kernel = breaking(tmp_path, (0, 0), (far, 0), (1, 0), (far + 1, 0), (2, 0))
    timings = times(Bench("cpu"), launched_kernel)
    assert [time.median_ms is not None for time in timings] == [True, False, True, False, False]
    assert timings[1].failed == timings[3].failed == "it took its worker along (SIGSEGV)"
    assert timings[4].failed
    assert timings[4].failed.startswith("not tried")


@pytest.mark.slow
@needs_torch
def test_a_configuration_that_hangs_is_ended(tmp_path: Path) -> None:
    """No configuration of the kernel is tried after a hang."""
    bench = Bench("cpu")
    bench._seconds = 25
    timings = times(bench, breaking(tmp_path, (0, 0), (0, 1 << 30), (1, 0)))
    assert timings[0].median_ms is not None
    assert timings[1].failed
    assert "had not ended after" in timings[1].failed
    assert timings[2].failed
    assert timings[2].failed.startswith("not tried")


@needs_torch
def test_a_launch_that_cannot_be_made_again_is_said_once(tmp_path: Path) -> None:
    """A tensor beyond its storage fails the launch; a missing grid fails one configuration."""
    small = {"x": {"storage": 0, "shape": [400], "strides": [1], "offset": 0}}
    launched_kernel = breaking(tmp_path, (0, 0), tensors=small)
    with Bench("cpu") as bench:
        timings = bench._times(launched_kernel, launched_kernel.launch.configs, {})
    assert isinstance(timings, str)
    assert timings.startswith("its launch cannot be made again: RuntimeError")
    launched_kernel = breaking(tmp_path, (0, 0), (1, 0), grids=[None, [1]])
    first, second = times(Bench("cpu"), launched_kernel)
    assert first.failed == "its grid was not recorded"
    assert second.median_ms is not None


class InterruptedBench(Bench):
    """A bench whose user presses Ctrl-C at the second request after the launch was prepared."""

    def __init__(self, request_count: int) -> None:
        super().__init__("cpu")
        self.allowed = request_count

        run = self._worker.run

        def run_allowed(request: Json, package: Json | None = None) -> Attempt:
            if not self.allowed:
                raise KeyboardInterrupt
            self.allowed -= 1
            return run(request, package)

        self._worker.run = run_allowed  # type: ignore[method-assign,assignment]


def time_interrupted(folder: Path, request_count: int) -> tuple[TunerResult, TunerResult]:
    """Return two results timed by a bench that is interrupted after so many requests."""
    timings = result(
        folder, good(), good(), configs=CONFIGS_THAT_BREAK, toolchain=installed_identity()
    )
    bench = InterruptedBench(request_count)
    launched_kernel = breaking(folder, (0, 0), (1, 0))
    with bench:
        first = bench.time_configs(timings, launched_kernel, {})
        second = bench.time_configs(timings, launched_kernel, {})
    assert bench.interrupted
    return first, second


@needs_torch
def test_an_interrupt_keeps_what_was_timed(tmp_path: Path) -> None:
    """Configurations and kernels without a time have "interrupted" as their reason."""
    first, second = time_interrupted(tmp_path, 2)
    one, other = (config.timing for config in first.configs)
    assert one is not None
    assert one.median_ms is not None
    assert other == Timing(failed="not timed: interrupted")
    assert (first.not_timed, second.not_timed) == (None, "interrupted")
    assert "not timed: interrupted" in text("table", first)


@needs_torch
def test_an_interrupt_before_the_first_time_is_said(tmp_path: Path) -> None:
    """An interrupt while the launch is prepared leaves both kernels without times."""
    first, second = time_interrupted(tmp_path, 0)
    assert first.not_timed == second.not_timed == "interrupted"


TUPLES = (
    HEAD
    + """

@triton.jit
def kernel(xs, tile, n, FLAG: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, 64)
    rows = tile.load([BLOCK, 0])
    if FLAG is None:
        tl.store(xs[0] + i, (tl.load(xs[1][0] + i) * n).to(DTYPE) + tl.sum(rows, 0).to(DTYPE))
"""
)


@needs_torch
def test_tuples_descriptors_and_constants_are_made_again(tmp_path: Path) -> None:
    """Tuples, descriptors, constants and None are rebuilt from a launches file."""
    pytest.importorskip("triton.tools.tensor_descriptor")
    pointer = {"dtype": "fp16", "align": 16}
    descriptor = {**pointer, "shape": [128, 64], "strides": [64, 1], "block": [16, 64]}
    args = {
        "xs": {"tuple": [pointer, {"tuple": [{"dtype": "i32", "align": 4}]}]},
        "tile": {"descriptor": descriptor},
        "n": {"float": 0.5},
        "FLAG": None,
        "DTYPE": {"constexpr": {"dtype": "fp16"}},
    }
    flat = {"shape": [64], "strides": [1], "offset": 0}
    line = launch(
        TUPLES,
        kernel="program:kernel",
        qualname="kernel",
        heuristics={},
        options={},
        grids=[[1], [1]],
        launch={
            "args": args,
            "omitted": ["BLOCK"],
            "configs": [{"kwargs": {"BLOCK": b}, **CONFIG} for b in (0, 16)],
        },
        storages=[128, 260, 128 * 64 * 2],
        tensors={
            "xs[0]": {"storage": 0, **flat},
            "xs[1][0]": {"storage": 1, **flat, "offset": 1, "values": list(range(64))},
            "tile": {"storage": 2, "shape": [128, 64], "strides": [64, 1], "offset": 0},
        },
    )
    first, second = times(Bench("cpu"), read_launch(write(tmp_path, HEADER, line)))
    assert (first.error, first.failed, second.failed) == (0, None, None)
    # The rows of the tile differ, the integers are equal.
    assert second.error is not None
    assert 0 < second.error < 0.2


PACKAGE = {
    "tiny/__init__.py": "raise RuntimeError('the whole package was imported')\n",
    "tiny/kernels.py": """
import torch, triton, triton.language as tl
from helper import __version__

assert __version__ == "7" and torch.empty(2).zero_().tolist() == [0, 0]

@triton.heuristics({"TWICE": lambda args: 2 * args["BLOCK"]})
@triton.autotune([triton.Config({"BLOCK": 4})], [])
@triton.jit
def fill(x, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), TWICE // BLOCK)
""",
    "helper/__init__.py": "__version__ = '7'\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/RECORD": "tiny/__init__.py,sha256=AAAA,0\ntiny/kernels.py,sha256=BBBB,0\n",
}


@needs_torch
def test_a_packages_kernel_is_imported_beside_torch_as_it_is(tmp_path: Path) -> None:
    """The kernel's module is imported without the package's own `__init__`."""
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    package = Package("tiny", "1.0", str(tmp_path), "d" * 16, {})
    configs = [{"kwargs": {"BLOCK": block}, **CONFIG} for block in (4, 8)]
    line = launch(
        kernel="tiny.kernels:fill",
        package="tiny==1.0",
        heuristics={"TWICE": {"constexpr": 6}},
        options={},
        launch={
            "args": {"x": {"dtype": "fp32"}},
            "omitted": ["BLOCK", "TWICE"],
            "configs": configs,
        },
        grids=[[2], [1]],
        storages=[32],
        tensors={"x": {"storage": 0, "shape": [8], "strides": [1], "offset": 0}},
    )
    entries, folders = read(write(tmp_path, HEADER, line)).launches, {"tiny==1.0": package}
    (launched_kernel,) = gathering.of_entries(
        entries, H100, Resolver(), folders, (), is_captured=False
    )
    origin = launched_kernel.cell.kernel.origin
    assert isinstance(origin, Imported)
    assert origin.module == "tiny.kernels"
    with Bench("cpu") as bench:
        timings = bench._times(launched_kernel, configs, folders)
    assert not isinstance(timings, str), timings
    assert [time.failed for time in timings.values()] == [None, None]
    first, second = (time.error for time in timings.values())
    # 6 // 4 and 6 // 8: the heuristic's value is the recorded one.
    assert first == 0
    assert second == 1


INTEGERS = {
    "launch": {"args": {"x": {"dtype": "i64", "align": 16}}, "configs": [{"kwargs": {}, **CONFIG}]},
    "grids": [[1]],
}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        (INTEGERS, "x holds integers (i64)"),
        (
            {
                **INTEGERS,
                "tensors": {
                    "x": {"storage": 0, "shape": [2], "strides": [1], "offset": 0, "values": [1, 2]}
                },
            },
            None,
        ),
        ({"tensors": {}}, "the size of x is unknown"),
        ({"tensors": None}, "the launches file lacks the sizes of its tensors"),
    ],
)
def test_what_is_not_known_of_a_launch_is_the_reason(
    tmp_path: Path, changes: Json, why: str | None
) -> None:
    """A launch with unknown integers or sizes is not timed."""
    launched_kernel = breaking(
        tmp_path, (0, 0), **{name: value for name, value in changes.items() if value is not None}
    )
    if "tensors" in changes and changes["tensors"] is None:
        assert launched_kernel.recorded_launch
        launched_kernel = replace(
            launched_kernel,
            recorded_launch=structs.replace(launched_kernel.recorded_launch, memory=None),
        )
    reason = timeable.untimeable(launched_kernel)
    if why is None:
        assert reason is None
    else:
        assert reason is not None
        assert reason.startswith(why)


def test_a_declared_launch_has_no_sizes(tmp_path: Path) -> None:
    """A launch declared by a matrix is not timed."""
    reason = timeable.untimeable(replace(breaking(tmp_path, (0, 0)), recorded_launch=None))
    assert reason
    assert "declared, not recorded" in reason


def test_a_fallback_takes_the_grid_of_the_same_constants(tmp_path: Path) -> None:
    """A fallback has the grid of the configuration with equal constants, or none."""
    launched_kernel = breaking(tmp_path, (0, 0), (1, 0), grids=[[3], [4, 5]])
    other = {**launched_kernel.launch.configs[1], "num_warps": 8}
    assert timeable.own_grid(launched_kernel, other) == {"grid": [4, 5]}
    assert timeable.own_grid(launched_kernel, {**other, "kwargs": {"FAR": 7, "LONG": 0}}) is None


@needs_torch
def test_what_is_not_timed_is_said_in_every_format(tmp_path: Path) -> None:
    """Every format gives the reason that a kernel has no time."""
    args = {"x": {"dtype": "i32", "align": 16}}
    configs = [{"kwargs": {"FAR": 0, "LONG": 0}, **CONFIG}]
    breaking(
        tmp_path, (0, 0), launch={"args": args, "omitted": ["FAR", "LONG"], "configs": configs}
    )
    launches = gathering.of_launches(tmp_path / "l.jsonl", H100)
    tuning = plan_tuning("made", launches)
    records = compile_all(tuning, tmp_path)
    assert len(records) == 1
    results = judge_trials(tuning, records, tmp_path, ONE_WORKER, 0)
    bench = Bench("cpu")
    (result,) = time_results(tuning, results, bench)
    assert result.not_timed
    assert result.not_timed.startswith("x holds integers (i32)")
    (page,) = document(text("json", result))["results"]
    assert page["not_timed"] == result.not_timed
    assert page["configs"][0]["timing"] is None
    for name in ("table", "markdown"):
        assert "not timed: x holds integers" in text(name, result)
    bench.card = replace(bench.card, target="sm80")
    (elsewhere,) = time_results(tuning, results, bench)
    assert elsewhere.not_timed
    assert "on sm80 is what is here" in elsewhere.not_timed


def test_timing_without_torch_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names torch."""
    monkeypatch.setattr("flacheck.engine.card.torch_folder", lambda: None)
    with pytest.raises(UsageError, match="torch"):
        Bench()


@needs_torch
def test_files_of_an_earlier_recorder_are_read(tmp_path: Path) -> None:
    """A launches file without sizes and grids is read."""
    file = capture_program(tmp_path)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    current = read(file).launches[0]
    for line in lines:
        for name in ("grids", "tensors", "storages"):
            line.pop(name, None)
    (old,) = read(write(tmp_path, *lines)).launches
    assert (old.memory, old.grids) == (None, None)
    assert (old.id, old.launch, old.grid, old.text) == (
        current.id,
        current.launch,
        current.grid,
        current.text,
    )


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
    times = [Timing(ms, ms, ms, 1.0, 0.0) for ms in (2.0, 1.0, 4.0)]
    timed_configs = [replace(each, timing=time) for each, time in zip(timings.configs, times)]
    assert price_against(Timing(3.0, 3.0, 3.0, 1.0, 0.0), timed_configs) == (3.0, 3.0)
    assert rank_correlation(timed_configs) == 0.5
    assert rank_correlation([*timed_configs[:2], replace(timed_configs[2], timing=None)]) is None
