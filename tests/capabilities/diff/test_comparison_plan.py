"""The plan of a comparison: the same cells under both compilers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.diff import comparison_plan
from flacheck.capabilities.diff.comparison_plan import one_each
from flacheck.capabilities.diff.sides import ReleaseSide, StoredSide
from flacheck.errors import EmptySelection, UsageError
from flacheck.model import Cell, Kernel, Launch, Purpose, Stubbed
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.launches import RecordedLaunch
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains import triton_releases
from tests.made_records import record

OLD, NEW = "triton==3.5.1", "triton==3.7.1"


def cell(toolchain: str, warps: int, dtype: str = "bf16", made_up: bool = False) -> Cell:
    kernel = Kernel("a.b:k", "tiny==1.0", "0", Stubbed("a.b", "k", made_up))
    launch = Launch({"x": {"dtype": dtype, "align": 16}})
    return Cell(kernel, toolchain, "sm90", launch, {"num_warps": warps}, dtype)


def warps(cells: list[Cell]) -> list[tuple[str, str | None, int]]:
    return [(one.toolchain, one.dtype, one.options["num_warps"]) for one in cells]


def test_both_sides_compile_the_same_configuration() -> None:
    """Both sides compile the first configuration that they share, for each dtype."""
    cells = [cell(OLD, 2), cell(OLD, 4), cell(OLD, 8), cell(NEW, 8), cell(NEW, 4)]
    cells += [cell(OLD, 1, "fp16"), cell(NEW, 1, "fp16")]
    assert warps(one_each(cells)) == [
        (OLD, "bf16", 4),
        (NEW, "bf16", 4),
        (OLD, "fp16", 1),
        (NEW, "fp16", 1),
    ]


def test_without_a_common_configuration_each_side_has_its_own() -> None:
    """Without a shared configuration each side compiles its own first one."""
    cells = [cell(OLD, 2), cell(OLD, 4), cell(NEW, 8), cell(OLD, 4, "fp32")]
    assert warps(one_each(cells)) == [(OLD, "bf16", 2), (NEW, "bf16", 8), (OLD, "fp32", 4)]


def test_what_a_program_launched_comes_before_what_was_made_up() -> None:
    """A recorded launch is preferred to an invented one."""
    cells = [cell(OLD, 2, made_up=True), cell(OLD, 4), cell(NEW, 2, made_up=True), cell(NEW, 4)]
    assert warps(one_each(cells)) == [(OLD, "bf16", 4), (NEW, "bf16", 4)]


def test_an_import_without_a_launch_is_always_asked() -> None:
    """Imports and calls without a launch are always compiled."""
    cells = [
        replace(cell(OLD, 4), launch=None, stage="import", options={}),
        replace(cell(OLD, 4), launch=None, stage="call", options={}),
    ]
    assert one_each(cells) == cells


def recorded_launch(block: int, made_up: bool = False, dtype: str = "bf16") -> RecordedLaunch:
    args: dict[str, Any] = {"x": {"dtype": dtype, "align": 16}, "B": {"constexpr": block}}
    name = f"{block}{dtype}{made_up}"
    return RecordedLaunch(
        id=name, kernel="a.b:k", qualname="k", launch=Launch(args), made_up=made_up
    )


def blocks(choices: list[list[RecordedLaunch]]) -> list[list[tuple[int, str | None]]]:
    return [
        [(one.launch.args["B"]["constexpr"], one.launch.dtype) for one in own] for own in choices
    ]


def test_of_two_recordings_the_same_launch_is_chosen() -> None:
    """Two recordings share a recorded launch first, then the smallest."""
    first = [
        recorded_launch(16, made_up=True),
        recorded_launch(32),
        recorded_launch(128),
        recorded_launch(64),
    ]
    second = [recorded_launch(128), recorded_launch(64), recorded_launch(16, made_up=True)]
    first += [recorded_launch(8, dtype="fp16")]
    second += [recorded_launch(4, dtype="fp16"), recorded_launch(2, dtype="fp16")]
    assert blocks(launches.shared([first, second])) == [
        [(64, "bf16"), (8, "fp16")],
        [(64, "bf16"), (2, "fp16")],
    ]
    assert blocks(launches.shared([[recorded_launch(2)], []])) == [[(2, "bf16")], []]


def stored_side(*toolchains: str, **more: Any) -> StoredSide:
    records = tuple(record(toolchain=toolchain, **more) for toolchain in toolchains)
    return StoredSide("run:x", "run x", records)


def release(version: str) -> ReleaseSide:
    choice = triton_releases.release(Version(version))
    return ReleaseSide(f"triton=={version}", f"triton=={version}", choice)


def ask(
    before: Any, after: Any, is_chosen: bool = False, configs: str | None = None, **selected: Any
) -> comparison_plan.ComparisonPlan:
    subject, selection = Subject(configs=configs), Selection(**selected)
    return comparison_plan.plan_comparison(before, after, subject, is_chosen, selection)


def test_two_stored_results_compile_nothing() -> None:
    """Two stored results are compared without a plan."""
    comparison = ask(stored_side(OLD), stored_side(NEW), dtypes=("bf16",))
    assert comparison.plan is None
    assert [len(comparison.records(side, {})) for side in comparison.sides] == [1, 1]
    with pytest.raises(EmptySelection, match="run x: no record matches the selection"):
        ask(stored_side(OLD), stored_side(NEW), dtypes=("fp32",))


def test_results_of_several_compilers_are_no_side() -> None:
    """A result of several compilers needs --triton to choose one."""
    with pytest.raises(UsageError, match=r"run x holds results of triton==3\.5\.1, triton==3\.7"):
        ask(stored_side(OLD, NEW), stored_side(NEW))
    plan = ask(stored_side(OLD, NEW), stored_side(OLD, NEW), toolchains=("triton==3.5.1",))
    assert [side.toolchains for side in (plan.before, plan.after) if isinstance(side, StoredSide)]
    with pytest.raises(UsageError, match="choose one with --triton"):
        ask(stored_side(OLD, NEW), release("3.9.0"))


def test_results_without_sources_cannot_be_compiled_again() -> None:
    """The error names --package and --matrix."""
    with pytest.raises(UsageError, match="name the subject with --package or --matrix"):
        ask(stored_side(OLD, how="cut", package=None, kernel="a:b"), release("3.7.1"))


def test_more_configurations_are_compared_by_their_number() -> None:
    """A kernel with few configurations is compared with all of them by default."""
    both = release("3.5.1"), release("3.7.1")
    kernel: dict[str, Any] = {"kernels": ("gated_delta_rule.chunk_fwd_h",), "targets": ("h100",)}
    usual, edges, own = (ask(*both, configs=name, **kernel) for name in ("usual", "edges", "own"))
    assert usual.plan and edges.plan and own.plan
    assert usual.plan.purpose is Purpose.DIFF
    groups = [(one.kernel.name, one.dtype, one.toolchain) for one in usual.plan.cells]
    assert len(groups) == len(set(groups))
    assert ask(*both, **kernel).configs == own.configs == "own"
    usual_keys = {one.key for one in usual.plan.cells}
    edge_keys = {one.key for one in edges.plan.cells}
    assert usual_keys < edge_keys < {one.key for one in own.plan.cells}
    sides = [
        {one.identity(["toolchain"]) for one in edges.plan.cells if one.toolchain == toolchain}
        for toolchain in (OLD, NEW)
    ]
    assert sides[0] == sides[1]


def test_a_launches_file_is_what_is_compared(tmp_path: Path) -> None:
    """A launches file is compiled under its own release and under the other one."""
    text = "import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n"
    file = tmp_path / "launches.jsonl"
    header = {"schema": "flacheck.launches/1", "package": None, "device": "NVIDIA H100 80GB HBM3"}
    launch = {
        "id": "1",
        "kernel": "m:k",
        "qualname": "k",
        "launch": {"args": {"x": {"dtype": "bf16", "align": 16}}},
        "source": hashlib.sha256(text.encode()).hexdigest()[:16],
        "text": text,
    }
    lines = [{**header, "triton": "3.5.1", "torch": "2.9.1"}, launch, {"end": True}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = replace(release("3.5.1"), launches=str(file))
    comparison = ask(before, release("3.7.1"))
    assert comparison.plan is not None
    assert [(one.kernel.name, one.toolchain) for one in comparison.plan.cells] == [
        ("m:k", OLD),
        ("m:k", NEW),
    ]
