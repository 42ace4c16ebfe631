"""The cases: a kernel of `kernels.py`, its launch, and where it fails."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KERNELS = Path(__file__).with_name("kernels.py")
_HEAD = "import triton\nimport triton.language as tl\n\n\n"


@dataclass(frozen=True)
class FailingLaunch:
    """A launch of a kernel on a target under a release that fails it."""

    name: str
    kernel: str
    args: dict[str, Any]
    triton: str
    target: str
    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int = 0

    def launches_file(self) -> str:
        """The text of a launches file that holds this launch alone."""
        source = _source(self.kernel)
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        if self.maxnreg:
            options["maxnreg"] = self.maxnreg
        launch = {
            "id": "0" * 16,
            "kernel": f"failures:{self.kernel}",
            "package": None,
            "qualname": self.kernel,
            "launch": {"args": self.args},
            "options": options,
            "grid": [4],
            "source": hashlib.sha256(source.encode()).hexdigest()[:16],
            "text": source,
        }
        header = {"schema": "flacheck.launches/1", "package": None, "device": "NVIDIA H100"}
        lines = [{**header, "triton": "3.7.1", "torch": "2.13"}, launch, {"end": True}]
        return "".join(json.dumps(line) + "\n" for line in lines)


@dataclass(frozen=True)
class SelectedCell:
    """A failing cell by the words that select it on the command line."""

    name: str
    words: tuple[str, ...]
    triton: str
    target: str


Case = FailingLaunch | SelectedCell


def _source(kernel: str) -> str:
    """A kernel with the helpers that it names."""
    tree = ast.parse(_KERNELS.read_text())
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    names = {node.id for node in ast.walk(functions[kernel]) if isinstance(node, ast.Name)}
    helpers = [f for name, f in functions.items() if name == kernel or name in names]
    return _HEAD + "\n\n\n".join(map(ast.unparse, helpers)) + "\n"


def _to(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "align": 16}


def _constants(**values: Any) -> dict[str, Any]:
    return {name: {"constexpr": value} for name, value in values.items()}


def _integers(**values: int) -> dict[str, Any]:
    return {name: {"int": value} for name, value in values.items()}


def _pointers(dtype: str, names: str) -> dict[str, Any]:
    return {name: _to(dtype) for name in names.split()}


def _attention(dtype: str, rows: int, columns: int, head: int) -> dict[str, Any]:
    return {
        **_pointers(dtype, "q k v o"),
        "lse": _to("fp32"),
        "seqlen": {"int": 2048},
        "scale": {"float": 0.125},
        **_integers(stride_m=head, stride_n=head),
        **_constants(BLOCK_M=rows, BLOCK_N=columns, HEAD=head, CAUSAL=True),
    }


def _matmul(dtype: str, m: int, n: int, k: int, other: str | None = None) -> dict[str, Any]:
    return {
        "a": _to(dtype),
        "b": _to(other or dtype),
        **_pointers("fp32", "c bias"),
        **_integers(M=4096, N=4096, K=4096, stride_a=4096, stride_b=4096, stride_c=4096),
        **_constants(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP=8, ACTIVATION="silu"),
    }


def _small_matmul(dtype: str, m: int, n: int, k: int) -> dict[str, Any]:
    sizes = _integers(M=1024, N=1024, K=1024)
    blocks = _constants(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k)
    return {**_pointers(dtype, "a b c"), **sizes, **blocks}


def _quantise(dtype: str) -> dict[str, Any]:
    return {
        "a": _to(dtype),
        "b": _to("i8"),
        **_pointers(dtype, "scales c"),
        **_integers(M=64, N=4096, K=4096),
        **_constants(BLOCK_M=64, BLOCK_N=64, BLOCK_K=64),
    }


def _scale() -> dict[str, Any]:
    return {
        "a": _to("fp8e4nv"),
        "a_scale": _to("u8"),
        "b": _to("fp8e4nv"),
        "b_scale": _to("u8"),
        "c": _to("fp32"),
        "K": {"int": 1024},
        **_constants(BLOCK_M=128, BLOCK_N=128, BLOCK_K=128),
    }


def _double_dot(dtype: str, head: int) -> dict[str, Any]:
    return {
        **_pointers(dtype, "q k v w o"),
        "T": {"int": 2048},
        **_constants(BLOCK=64, D=head),
    }


def _softmax(dtype: str, block: int) -> dict[str, Any]:
    sizes = _integers(columns=8192, stride=8192)
    return {**_pointers(dtype, "x y"), **sizes, **_constants(BLOCK=block)}


def _layer_norm(dtype: str) -> dict[str, Any]:
    return {
        **_pointers(dtype, "x dy w dx dw db"),
        **_pointers("fp32", "mean rstd"),
        "locks": _to("i32"),
        "N": {"int": 4096},
        "BLOCK": {"constexpr": 4096},
    }


def _count(dtype: str, bins: int) -> dict[str, Any]:
    return {
        "x": _to(dtype),
        "bins": _to("i32"),
        "N": {"int": 100_000},
        **_constants(BLOCK=1024, BINS=bins),
    }


def _state() -> dict[str, Any]:
    sizes = {"T": {"int": 2048}, **_constants(D=64, BLOCK=64)}
    return {**_pointers("fp32", "x gate y last"), **sizes}


def _top(dtype: str) -> dict[str, Any]:
    sizes = {"N": {"int": 1000}, **_constants(BLOCK=1024, K=16)}
    return {**_pointers(dtype, "x values"), "positions": _to("i32"), **sizes}


def _pack() -> dict[str, Any]:
    return {**_pointers("fp32", "x y"), "N": {"int": 4096}, "BLOCK": {"constexpr": 1024}}


def _half_norm() -> dict[str, Any]:
    sizes = {"eps": {"float": 1e-5}, "N": {"int": 1024}, "BLOCK": {"constexpr": 1024}}
    return {**_pointers("fp16", "x w y"), **sizes}


def _gather() -> dict[str, Any]:
    return {
        "table": _to("fp16"),
        "index": _to("i32"),
        "out": _to("fp32"),
        "N": {"int": 1000},
        **_constants(D=32, BLOCK=64),
    }


CASES = (
    FailingLaunch("attention-bf16", "attention", _attention("bf16", 64, 64, 64), "3.2.0", "sm75"),
    FailingLaunch("attention-fp32", "attention", _attention("fp32", 32, 32, 64), "3.2.0", "sm75"),
    FailingLaunch("matmul-bf16", "grouped_matmul", _matmul("bf16", 128, 128, 64), "3.1.0", "sm75"),
    FailingLaunch("quantised", "quantised_matmul", _quantise("bf16"), "3.3.0", "sm75"),
    FailingLaunch("double-33", "double_dot", _double_dot("bf16", 128), "3.3.0", "sm90", 8),
    FailingLaunch("matmul-i8", "grouped_matmul", _matmul("i8", 64, 64, 64), "3.6.0", "sm75"),
    FailingLaunch("histogram", "count", _count("i64", 256), "3.6.0", "sm80"),
    FailingLaunch("asm-sm75", "packed_exp", _pack(), "3.6.0", "sm75"),
    FailingLaunch("asm-sm80", "packed_exp", _pack(), "3.4.0", "sm80"),
    FailingLaunch(
        "shared-sm75", "attention", _attention("fp16", 128, 128, 128), "3.6.0", "sm75", 8
    ),
    FailingLaunch(
        "shared-sm90", "grouped_matmul", _matmul("fp16", 256, 256, 64), "3.6.0", "sm90", 8, 5
    ),
    FailingLaunch(
        "shared-sm120", "attention", _attention("fp16", 128, 64, 256), "3.4.0", "sm120", 4, 4
    ),
    FailingLaunch("threads", "softmax", _softmax("fp16", 8192), "3.5.1", "sm80", 64),
    FailingLaunch(
        "registers", "softmax", _softmax("fp32", 65536), "3.6.0", "sm90", 16, maxnreg=255
    ),
    FailingLaunch("fp8-sm80", "grouped_matmul", _matmul("fp8e4nv", 128, 128, 64), "3.6.0", "sm80"),
    FailingLaunch(
        "operands", "grouped_matmul", _matmul("fp16", 64, 64, 32, "bf16"), "3.7.1", "sm90"
    ),
    FailingLaunch("carried", "running_state", _state(), "3.8.0", "sm90"),
    FailingLaunch("fp64", "grouped_matmul", _matmul("fp64", 64, 64, 32), "3.4.0", "sm80"),
    FailingLaunch(
        "block-pointers", "block_pointer_matmul", _small_matmul("fp16", 64, 64, 32), "3.9.0", "sm90"
    ),
    FailingLaunch(
        "descriptors", "descriptor_matmul", _small_matmul("bf16", 64, 64, 64), "3.2.0", "sm90"
    ),
    FailingLaunch("tanh", "half_norm", _half_norm(), "3.6.0", "gfx942"),
    FailingLaunch("atomics", "layer_norm_backward", _layer_norm("bf16"), "3.2.0", "sm80", 8),
    FailingLaunch("gather", "gather_rows", _gather(), "3.1.0", "sm80"),
    FailingLaunch("top-bf16", "top_values", _top("bf16"), "3.1.0", "sm80"),
    FailingLaunch("scaled-sm120", "scaled_matmul", _scale(), "3.3.0", "sm120"),
    FailingLaunch(
        "attention-sm100", "attention", _attention("fp16", 128, 64, 256), "3.6.0", "sm100"
    ),
    FailingLaunch(
        "shared-gfx942", "grouped_matmul", _matmul("fp16", 256, 256, 64), "3.7.1", "gfx942", 8, 3
    ),
    FailingLaunch("histogram-sm100", "count", _count("i64", 256), "3.6.0", "sm100"),
    FailingLaunch("fp64-sm100", "grouped_matmul", _matmul("fp64", 64, 64, 32), "3.6.0", "sm100"),
    FailingLaunch("asm-gfx942", "packed_exp", _pack(), "3.6.0", "gfx942"),
    FailingLaunch("scaled-gfx942", "scaled_matmul", _scale(), "3.6.0", "gfx942"),
)
_FLA = "flash-linear-attention==0.5.0"
SELECTION = (
    SelectedCell("key-past-end", ("seeds", "--kernel", "*:layer_norm_fwd_kernel"), "3.1.0", "sm90"),
    SelectedCell(
        "key-shifted", ("seeds", "--kernel", "*:layer_norm_gated_fwd_kernel"), "3.1.0", "sm90"
    ),
    SelectedCell("removed-fla", ("--package", _FLA, "--kernel", "*layernorm*"), "3.9.0", "sm90"),
)


def arguments(case: Case, folder: Path) -> list[str]:
    """The words of a command that name the case's cell; a launch is written into the folder."""
    where = ["--triton", case.triton, "--target", case.target, "--trust"]
    if isinstance(case, SelectedCell):
        return [*case.words, *where]
    (folder / "launch.jsonl").write_text(case.launches_file())
    return [f"{folder}/launch.jsonl:2", *where]


def choose(names: list[str]) -> Iterator[Case]:
    """The cases of these names, all of them where none is given."""
    for case in (*CASES, *SELECTION):
        if not names or case.name in names:
            yield case
