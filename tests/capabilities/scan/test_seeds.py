"""The failures of flash-linear-attention's releases, on their real kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import validate_json

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
    report: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return report


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


def verdicts_of(records: Iterable[dict[str, Any]]) -> set[tuple[str, str | None]]:
    return {(record["verdict"], record["code"]) for record in records}


@pytest.mark.parametrize(
    ("triton", "warps", "verdict", "word"),
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
    verdict: tuple[str, str | None],
    word: str,
) -> None:
    """Eight and sixteen warps fail with a layout assertion; 3.1.0 compiles all."""
    for num_warps in warps:
        records = some(
            out,
            kernel=DELTA,
            toolchain=f"triton=={triton}",
            num_warps=num_warps,
            num_stages=2,
            constants={"BC": 64, "BV": 64},
        )
        assert len(records) == 1
        assert verdicts_of(records) == {verdict}
        assert word in records[0]["message"]
        assert word in (records[0]["signature"] or "")


def test_more_stages_than_shared_memory(out: dict[str, Any]) -> None:
    """A launch that needs more shared memory than the GPU has is tolerated."""
    (failure,) = some(out, kernel=DELTA, toolchain="triton==3.2.0", num_warps=2, num_stages=3)
    assert verdicts_of([failure]) == {("fails", "FC501")}
    assert failure["tolerated"]
    assert failure["stage"] == "load"
    assert (failure["resources"]["shared"], failure["resources"]["shared_limit"]) == (
        245_760,
        232_448,
    )


def test_fallbacks_of_the_delta_rule(out: dict[str, Any]) -> None:
    """Four warps, or eight with a smaller block, are the fallbacks."""
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
    """Chunk kernels fail on V100 in half precision; fused_recurrent and fp32 compile."""
    at = {"toolchain": f"triton=={triton}", "target": "sm70"}
    for kernel in CHUNK:
        for record in some(out, last=kernel, dtype=dtype, **at):
            assert (record["verdict"], record["code"]) == ("fails", "FC301")
            assert "Unsupported conversion from" in record["message"]
            assert "LLVM ERROR: Unsupported rounding mode for conversion" in record["message"]
        assert verdicts_of(some(out, last=kernel, dtype="fp32", **at)) == {("compiles", None)}
    for kernel in FUSED:
        assert verdicts_of(some(out, last=kernel, dtype=dtype, **at)) == {("compiles", None)}
    uses = [
        f["use"]
        for f in out["summary"]["fallbacks"]
        if f["toolchain"] == f"triton=={triton}" and f["target"] == "sm70"
    ]
    assert {"dtype": "fp32"} in uses
    assert {"form": "fused_recurrent"} in uses


def test_retention_under_the_neighbours(out: dict[str, Any]) -> None:
    """3.2.0 fails with other codes, and 3.4.0 compiles."""
    at = {"target": "sm70", "toolchain": "triton==3.2.0"}
    assert verdicts_of(some(out, last="chunk_fwd_kernel_o", dtype="bf16", **at)) == {
        ("fails", "FC304")
    }
    assert verdicts_of(some(out, last="chunk_fwd_kernel_h", dtype="bf16", **at)) == {
        ("fails", "FC401")
    }
    assert verdicts_of(some(out, last="chunk_fwd_kernel_h", dtype="fp16", **at)) == {
        ("compiles", None)
    }
    assert verdicts_of(some(out, target="sm70", toolchain="triton==3.4.0")) == {("compiles", None)}
    slow = [r for r in out["records"] for f in r["findings"] if f["code"] == "FC921"]
    assert all(
        r["toolchain"] == "triton==3.4.0" and r["verdict"] == "compiles" and r["seconds"] >= 10
        for r in slow
    )


def test_autotuner_keys_of_3_1_0(out: dict[str, Any]) -> None:
    """Three kernels raise and twelve read wrong arguments, only under 3.1.0."""
    raising = {
        r["kernel"].rpartition(":")[2] for r in some(out, toolchain="triton==3.1.0", code="FC601")
    }
    assert raising == {
        "chunk_scaled_dot_kkt_fwd_kernel",
        "chunk_dplr_bwd_kernel_dv",
        "layer_norm_fwd_kernel",
    }
    wrong_keys = some(out, toolchain="triton==3.1.0", code="FC602")
    assert len(wrong_keys) == 12
    for record in wrong_keys:
        keys = record["findings"][0]["facts"]["keys"]
        assert any(key["want"] != key["got"] for key in keys)
    autotuned = [
        r for r in out["records"] if r["options"] == {} and r["toolchain"] == "triton==3.2.0"
    ]
    assert len(autotuned) == 16
    assert verdicts_of(autotuned) == {("compiles", None)}


def test_the_same_command_again_compiles_nothing(out: dict[str, Any], folder: Path) -> None:
    """A second run reads every record from the store."""
    assert scan(folder) == 1
    assert all(record["cached"] for record in read(folder)["records"])
    assert read(folder)["summary"]["fails"] == out["summary"]["fails"]


def test_the_output_is_what_the_schema_says(out: dict[str, Any]) -> None:
    """The JSON follows flacheck.run/1."""
    validate_json("run", out)


def test_no_path_of_this_machine_is_in_the_records(out: dict[str, Any]) -> None:
    """Records contain no local path."""
    text = json.dumps(out["records"])
    assert str(Path.home()) not in text
    assert "/tmp/" not in text
