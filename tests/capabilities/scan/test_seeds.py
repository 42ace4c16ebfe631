"""The failures that flacheck was started for show live, on the real kernels of
flash-linear-attention's releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.paths import SCHEMAS

pytestmark = [pytest.mark.network, pytest.mark.slow]
DELTA = "fla.ops.common.chunk_delta_h:chunk_gated_delta_rule_fwd_kernel_h"
CHUNK = (
    "chunk_fwd_kernel_h",
    "chunk_fwd_kernel_o",
    "chunk_bwd_kernel_dh",
    "chunk_bwd_kernel_dqkwg",
    "chunk_bwd_kernel_dv",
)
FUSED = ("fused_recurrent_fwd_kernel", "fused_recurrent_bwd_kernel")

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seeds")


@pytest.fixture(scope="module")
def out(folder: Path) -> dict[str, Any]:
    assert scan(folder) == 1
    return read(folder)


def scan(folder: Path) -> int:
    command = [
        sys.executable,
        "-m",
        "flacheck",
        "scan",
        "seeds",
        "--format",
        "json",
        "-o",
        "out.json",
    ]
    return subprocess.run(command, cwd=folder, env={**os.environ, "COLUMNS": "80"}).returncode


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return found


def some(out: dict[str, Any], **wanted: Any) -> Records:
    return [
        r for r in out["records"] if all(_get(r, name) == value for name, value in wanted.items())
    ]


def _get(record: dict[str, Any], name: str) -> Any:
    if name == "last":
        return record["kernel"].rpartition(":")[2]
    if name == "constants":
        return {k: v["constexpr"] for k, v in record["launch"]["args"].items() if k in ("BC", "BV")}
    return record["options"].get(name) if name.startswith("num_") else record[name]


def shown(records: Iterable[dict[str, Any]]) -> set[tuple[str, str | None]]:
    return {(record["verdict"], record["code"]) for record in records}


@pytest.mark.parametrize(
    ("triton", "warps", "expected", "word"),
    [
        ("3.1.0", (2, 4, 8, 16), ("compiles", None), ""),
        ("3.2.0", (2, 4), ("compiles", None), ""),
        ("3.2.0", (8, 16), ("fails", "FC302"), "reshapeOuts"),
        ("3.3.0", (2, 4), ("compiles", None), ""),
        ("3.3.0", (8, 16), ("fails", "FC302"), "chooseStMatrixLayoutLeadingOffset"),
    ],
)
def test_delta_rule_on_hopper(
    out: dict[str, Any],
    triton: str,
    warps: tuple[int, ...],
    expected: tuple[str, str | None],
    word: str,
) -> None:
    """Eight and sixteen warps meet a layout assertion; 3.1.0 compiles all."""
    for num_warps in warps:
        found = some(
            out,
            kernel=DELTA,
            toolchain=f"triton=={triton}",
            num_warps=num_warps,
            num_stages=2,
            constants={"BC": 64, "BV": 64},
        )
        assert len(found) == 1
        assert shown(found) == {expected}
        assert word in found[0]["message"]
        assert word in (found[0]["signature"] or "")


def test_more_stages_than_shared_memory(out: dict[str, Any]) -> None:
    """245,760 of 232,448 bytes: an autotuner would skip it."""
    (found,) = some(out, kernel=DELTA, toolchain="triton==3.2.0", num_warps=2, num_stages=3)
    assert shown([found]) == {("fails", "FC501")}
    assert found["tolerated"]
    assert found["stage"] == "load"
    assert (found["resources"]["shared"], found["resources"]["shared_limit"]) == (245_760, 232_448)


def test_fallbacks_of_the_delta_rule(out: dict[str, Any]) -> None:
    """Four warps, or eight with a smaller block."""
    uses = [
        f["use"] | {"was": f["failing"]["num_warps"]}
        for f in out["summary"]["fallbacks"]
        if f["kernel"] == DELTA and f["toolchain"] == "triton==3.2.0"
    ]
    assert {"num_warps": 4, "was": 8} in uses
    assert {"BC": 32, "was": 8} in uses
    assert {"num_warps": 8, "BC": 32, "was": 16} in uses


@pytest.mark.parametrize("triton", ["3.3.0", "3.3.1"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_retention_on_v100(out: dict[str, Any], triton: str, dtype: str) -> None:
    """Chunk kernels have no conversion there, in both wordings; fused_recurrent and fp32 compile."""
    at = {"toolchain": f"triton=={triton}", "target": "sm70"}
    for kernel in CHUNK:
        for record in some(out, last=kernel, dtype=dtype, **at):
            assert (record["verdict"], record["code"]) == ("fails", "FC301")
            assert "Unsupported conversion from" in record["message"]
            assert "LLVM ERROR: Unsupported rounding mode for conversion" in record["message"]
        assert shown(some(out, last=kernel, dtype="fp32", **at)) == {("compiles", None)}
    for kernel in FUSED:
        assert shown(some(out, last=kernel, dtype=dtype, **at)) == {("compiles", None)}
    uses = [
        f["use"]
        for f in out["summary"]["fallbacks"]
        if f["toolchain"] == f"triton=={triton}" and f["target"] == "sm70"
    ]
    assert {"dtype": "fp32"} in uses
    assert {"form": "fused_recurrent"} in uses


def test_retention_under_the_neighbours(out: dict[str, Any]) -> None:
    """3.2.0 fails otherwise there; 3.4.0 compiles, one of it slowly."""
    at = {"target": "sm70", "toolchain": "triton==3.2.0"}
    assert shown(some(out, last="chunk_fwd_kernel_o", dtype="bf16", **at)) == {("fails", "FC304")}
    assert shown(some(out, last="chunk_fwd_kernel_h", dtype="bf16", **at)) == {("fails", "FC401")}
    assert shown(some(out, last="chunk_fwd_kernel_h", dtype="fp16", **at)) == {("compiles", None)}
    assert shown(some(out, target="sm70", toolchain="triton==3.4.0")) == {("compiles", None)}
    slow = [r for r in out["records"] for f in r["findings"] if f["code"] == "FC921"]
    assert all(
        r["toolchain"] == "triton==3.4.0" and r["verdict"] == "compiles" and r["seconds"] >= 10
        for r in slow
    )


def test_autotuner_keys_of_3_1_0(out: dict[str, Any]) -> None:
    """Three kernels raise, twelve read other arguments; nothing of it under 3.2.0."""
    raising = {
        r["kernel"].rpartition(":")[2] for r in some(out, toolchain="triton==3.1.0", code="FC601")
    }
    assert raising == {
        "chunk_scaled_dot_kkt_fwd_kernel",
        "chunk_dplr_bwd_kernel_dv",
        "layer_norm_fwd_kernel",
    }
    shifted = some(out, toolchain="triton==3.1.0", code="FC602")
    assert len(shifted) == 12
    for record in shifted:
        keys = record["findings"][0]["facts"]["keys"]
        assert any(key["want"] != key["got"] for key in keys)
    tuned = [r for r in out["records"] if r["options"] == {} and r["toolchain"] == "triton==3.2.0"]
    assert len(tuned) == 16
    assert shown(tuned) == {("compiles", None)}


def test_the_same_command_again_compiles_nothing(out: dict[str, Any], folder: Path) -> None:
    """Everything is cached."""
    assert scan(folder) == 1
    assert all(record["cached"] for record in read(folder)["records"])
    assert read(folder)["summary"]["fails"] == out["summary"]["fails"]


def test_the_output_is_what_the_schema_says(out: dict[str, Any]) -> None:
    """flacheck.run/1."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = SCHEMAS / "run-1.json"
    jsonschema.validate(out, json.loads(schema.read_text()))


def test_no_path_of_this_machine_is_in_the_records(out: dict[str, Any]) -> None:
    """Records travel between machines."""
    text = json.dumps(out["records"])
    assert str(Path.home()) not in text
    assert "/tmp/" not in text
