"""Shared memory of wider operands, and the largest heads that fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from typer.testing import CliRunner

from flacheck import toolchains
from flacheck.capabilities.dtypes.costs import (
    CostBench,
    LaunchOnTarget,
    Need,
    combine_needs,
    with_dtypes,
)
from flacheck.capabilities.dtypes.heads import ACTUAL_DTYPES, HeadNeeds
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.cli import app
from flacheck.errors import Exit
from flacheck.model import Launch, Purpose
from flacheck.reports import dtypes as reports
from flacheck.store import Store
from flacheck.subjects.inputs.launches import RecordedLaunch
from tests import headed_layer
from tests.captured import needs_torch
from tests.schemas import validate_json


@pytest.fixture(scope="module")
def cost_report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The layer measured on a large and on a small GPU."""
    folder = tmp_path_factory.mktemp("headed")
    file, output = headed_layer.write(folder), folder / "report.json"
    options = ["--autocast", "fp16", "--shared", "--target", "h100,t4"]
    output_options = ["--format", "json", "-o", str(output), "--store", str(folder / "store")]
    result = CliRunner().invoke(app, ["dtypes", f"{file}:Heads", *options, *output_options])
    assert result.exit_code == Exit.FINDINGS, result.output
    value: dict[str, Any] = json.loads(output.read_text())
    validate_json("dtypes", value)
    with Store.open(folder / "store") as store:
        assert {run.purpose for run in store.runs()} == {Purpose.DTYPES}
    return value


@pytest.mark.slow
@needs_torch
def test_a_finding_says_what_its_kernels_take(cost_report: dict[str, Any]) -> None:
    """A wider operand takes more shared memory at the layer's own head size."""
    (finding,) = cost_report["findings"]
    cost = finding["shared"]
    assert cost == finding["kernels"][0]["shared"]
    assert (cost["target"], cost["limit"]) == ("sm90", 232_448)
    assert 0 < cost["intended"] < cost["actual"] < cost["limit"]


@pytest.mark.slow
@needs_torch
def test_the_largest_head_that_fits(cost_report: dict[str, Any]) -> None:
    """The promotion reduces the largest head on an H100; a smaller GPU holds less anyway."""
    rows = {(row["target"], row["dtypes"]): row for row in cost_report["head_sizes"]}
    assert rows.keys() == {
        (target, which) for target in ("sm90", "sm75") for which in ("intended", "actual")
    }
    intended, mixed = rows["sm90", "intended"], rows["sm90", "actual"]
    assert list(intended["shared"]) == ["64", "128", "256"]
    assert (intended["largest"], mixed["largest"]) == (256, 128)
    assert mixed["shared"]["256"] > mixed["limit"] == 232_448
    assert mixed["why"] == {"256": "FC501"}
    assert mixed["operands"] == {"q": "fp16", "k": "fp32", "o": "fp16"}
    assert mixed["settings"]["256"] == {"head_dim": 256}
    assert rows["sm75", "actual"]["limit"] == 65_536
    assert rows["sm75", "actual"]["largest"] <= mixed["largest"]


def test_operands_get_other_dtypes() -> None:
    """Only the named operands change, tensor descriptors included."""
    descriptor = {"dtype": "fp32", "align": 16, "shape": [64], "strides": [1], "block": [64]}
    args = {
        "q": {"dtype": "fp32", "align": 8},
        "k": {"descriptor": descriptor},
        "v": {"dtype": "fp32", "align": 16},
        "T": {"int": 64},
    }
    entry = RecordedLaunch(id="1", kernel="m:k", qualname="k", launch=Launch(args))
    entry_in_fp16 = with_dtypes(entry, {"q": "fp16", "k": "fp16", "T": "fp16", "absent": "fp16"})
    assert entry_in_fp16.launch.args == {
        "q": {"dtype": "fp16", "align": 8},
        "k": {"descriptor": {**descriptor, "dtype": "fp16"}},
        "v": {"dtype": "fp32", "align": 16},
        "T": {"int": 64},
    }


def test_launches_of_one_kernel_together() -> None:
    """The launches of a kernel need their maximum; a failing one has no figure."""
    small, large = Need(1024, True), Need(4096, True)
    over, broken = Need(300_000, False, "FC501"), Need(None, False, "FC303")
    assert combine_needs([small, large]) == large
    assert combine_needs([small, over]) == over
    assert combine_needs([small, broken, over]) == broken


def test_no_head_fits() -> None:
    """If no head fits, each size has its reason."""
    row = HeadNeeds(
        kernel="m:k",
        mode=Mode("fp16", "fp32"),
        target="sm75",
        which=ACTUAL_DTYPES,
        dtypes={"q": "fp16"},
        needs={64: Need(70_000, False, "FC501")},
        missing={128: "no argument makes heads 128 wide"},
    )
    content = row.document().to_json()
    assert content["largest"] is None
    assert content["shared"] == {"64": 70_000, "128": None}
    assert content["why"] == {"64": "FC501", "128": "no argument makes heads 128 wide"}
    assert reports.largest_head(row) == "not measured"
    assert reports.largest_head(replace(row, missing={})) == "none"
    assert reports.largest_head(replace(row, needs={64: Need(7_000, True)})) == "64"


class _Bench(CostBench):
    """A bench without compilers: releases from `first_without` on lack an API of every launch."""

    first_without = Version("3.9.0")
    why = "FC101"

    def compile_one(self, queries: Sequence[LaunchOnTarget]) -> list[Need]:
        if Version(self.choice.version) >= self.first_without:
            return [Need(None, False, self.why) for _ in queries]
        return [Need(1024, True) for _ in queries]


@pytest.mark.parametrize(
    ("may_change", "first_without", "why", "release"),
    [
        (True, "3.9.0", "FC101", "3.8.0"),
        (True, "3.0.0", "FC101", "3.9.0"),
        (True, "3.9.0", "FC106", "3.9.0"),
        (False, "3.9.0", "FC101", "3.9.0"),
    ],
)
def test_an_older_release_compiles_what_the_newest_has_removed(
    may_change: bool, first_without: str, why: str, release: str
) -> None:
    """Only a removed API makes the bench choose an older release."""
    (choice,) = toolchains.resolve(["triton==3.9.0"]).choices
    bench = _Bench(Path("store"), choice, may_change_release=may_change)
    bench.first_without, bench.why = Version(first_without), why
    bench.choose_release(
        [RecordedLaunch(id="1", kernel="m:k", qualname="k", launch=Launch({}))], "sm90"
    )
    assert bench.choice.version == release


def test_gpus_are_named_for_the_table_only() -> None:
    """--target needs --shared, and an NVIDIA GPU."""
    alone = CliRunner().invoke(app, ["dtypes", "x.py:X", "--target", "h100"])
    assert (alone.exit_code, "add --shared" in alone.stderr) == (Exit.USAGE, True)
    amd = CliRunner().invoke(app, ["dtypes", "x.py:X", "--shared", "--target", "gfx942"])
    assert (amd.exit_code, "only NVIDIA" in amd.stderr) == (Exit.USAGE, True)
