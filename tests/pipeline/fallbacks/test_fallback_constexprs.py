"""Constexprs that a fallback may change, by kernels and host code."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from flacheck.model import Cell, Cut, Kernel, Launch, Stubbed
from flacheck.pipeline.fallbacks.candidates import space_of
from flacheck.pipeline.fallbacks.constexprs import constexprs
from flacheck.pipeline.package_launches import form_of
from flacheck.source.packages.package import Package

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def kernel(q, o, T, K: tl.constexpr, H: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
           BC: tl.constexpr, NC: tl.constexpr, BD: tl.constexpr):
    i_t, i_c = tl.program_id(0) // NC, tl.program_id(0) % NC
    cols = tl.arange(0, BD)
    acc = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        p_q = tl.make_block_ptr(q, (T, K), (H*K, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0))
        rows = i_t * BT + i_c * BC
        p_c = tl.make_block_ptr(q, (T, K), (H*K, 1), (rows, i_k * BK), (BC, BK), (1, 0))
        acc += tl.dot(tl.load(p_q), tl.trans(tl.load(p_q)))
    for i in range(BT // BC):
        tl.store(o + cols, 0.0)
"""
HOST = """
from .kernels import kernel

def forward(q, chunk_size: int = 64):
    B, T, H, K = q.shape
    BT = chunk_size
    BK = min(64, triton.next_power_of_2(K))
    BC = min(16, BT)
    NC = triton.cdiv(BT, BC)
    BD = triton.next_power_of_2(K)
    kernel[(triton.cdiv(T, BT) * NC,)](q, q, T, K=K, H=H, BT=BT, BK=BK, BC=BC, NC=NC, BD=BD)
"""
SIZES = {"K": 128, "H": 4, "BT": 64, "BK": 64, "BC": 16, "NC": 4, "BD": 128}


def _cell(sizes: dict[str, int] = SIZES, source: str | None = None, **more: Any) -> Cell:
    args: dict[str, Any] = {
        "q": {"dtype": "bf16", "align": 16},
        "o": {"dtype": "bf16", "align": 16},
        "T": {"int": 512},
    }
    args |= {name: {"constexpr": size} for name, size in sizes.items()}
    origin = Cut(source or KERNEL, "kernel")
    kernel = Kernel("lib.kernels:kernel", "lib==1", "0", origin)
    return Cell(kernel, "triton==3.2.0", "sm90", Launch(args), {"num_warps": 4}, "bf16", **more)


def _package(folder: Path, host: str = HOST) -> dict[str, Package]:
    place = folder / "lib"
    place.mkdir()
    (place / "__init__.py").write_text("")
    (place / "kernels.py").write_text(KERNEL)
    (place / "host.py").write_text(dedent(host))
    return {"lib==1": Package("lib", "1", str(folder), "0", {})}


def _marks(cell: Cell, packages: dict[str, Package]) -> dict[str, str]:
    return {name: each.mark for name, each in constexprs(cell, packages).by_name.items()}


def test_tiles_and_sizes_are_told_apart_by_the_host_code(tmp_path: Path) -> None:
    """Sizes of a shape stay, and blocks that hold a whole size."""
    marks = constexprs(_cell(), _package(tmp_path))
    assert {name: (each.mark, each.why) for name, each in marks.by_name.items()} == {
        "K": ("unsafe", "not a side of a tile"),
        "H": ("unsafe", "not a side of a tile"),
        "BT": ("host constant", "host code computes it"),
        "BK": ("host constant", "host code computes it"),
        "BC": ("host constant", "host code computes it"),
        "NC": ("unsafe", "not a side of a tile"),
        "BD": ("unsafe", "one block has to hold a whole size"),
    }


def test_what_the_autotuner_supplies_is_tunable(tmp_path: Path) -> None:
    """The autotuner's constexprs are tunable."""
    configs = ({"kwargs": {"BK": 32}, "num_warps": 4}, {"kwargs": {"BK": 64}, "num_warps": 8})
    assert _marks(_cell(configs=configs), _package(tmp_path))["BK"] == "tunable"


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("BK = 64", "host constant"),
        ("BK = K", "unsafe"),
        ("BK = q.shape[-1] // H", "unsafe"),
        ("BK = max(16, triton.next_power_of_2(K))", "unsafe"),
        ("BK = 64 if K > 64 else 32", "host constant"),
        ("BK = 64 if K > 64 else triton.next_power_of_2(K)", "unsafe"),
        (
            "BK = min(128, triton.next_power_of_2(K)); NK = triton.cdiv(K, BK); assert NK == 1",
            "unsafe",
        ),
        ("BK = min(128, triton.next_power_of_2(K)); NK = triton.cdiv(K, BK)", "host constant"),
    ],
)
def test_how_the_host_code_comes_to_a_block(tmp_path: Path, line: str, mark: str) -> None:
    """A chosen block may change, a size may not."""
    host = HOST.replace("BK = min(64, triton.next_power_of_2(K))", line)
    assert _marks(_cell(), _package(tmp_path, host))["BK"] == mark


def test_what_no_host_code_passes_stays(tmp_path: Path) -> None:
    """A constexpr that host code does not pass stays."""
    host = HOST.replace("BK=BK, ", "")
    marks = constexprs(_cell(), _package(tmp_path, host)).by_name["BK"]
    assert (marks.mark, marks.why) == ("unsafe", "no host code is known to pass it")


def test_without_host_code_only_what_is_named_like_a_block_and_shapes_no_data() -> None:
    """Without host code, only block names that do not shape data may change."""
    assert {name for name, mark in _marks(_cell(), {}).items() if mark != "unsafe"} == {
        "BT",
        "BK",
        "BC",
    }
    assert _marks(_cell(shape={"BT": 64}), {})["BT"] == "unsafe"
    kernel = KERNEL.replace("(H*K, 1)", "(H*BK, 1)")
    assert _marks(_cell(source=kernel), {})["BK"] == "unsafe"


def test_a_block_that_follows_a_size_in_all_launches_is_no_choice() -> None:
    """A block that follows a size in several launches stays."""
    launches = [
        {"K": {"constexpr": size}, "BK": {"constexpr": block}}
        for size, block in ((60, 64), (100, 128))
    ]
    dependent = constexprs(_cell(), {}, launches).by_name["BK"]
    assert (dependent.mark, dependent.why) == (
        "unsafe",
        "it follows a size in every recorded launch",
    )
    assert constexprs(_cell(), {}, launches[:1]).by_name["BK"].mark == "host constant"
    launches[0]["BK"] = {"constexpr": 32}
    assert constexprs(_cell(), {}, launches).by_name["BK"].mark == "host constant"


def test_what_follows_from_a_change_goes_along(tmp_path: Path) -> None:
    """A dependent constexpr is computed like the host code does."""
    cell = _cell()
    marks = constexprs(cell, _package(tmp_path))
    assert cell.launch
    assert marks.follow(cell.launch.args, {"BT": 32}) == {"NC": 2}
    assert marks.follow(cell.launch.args, {"BK": 32}) == {}
    assert marks.follow(cell.launch.args, {"num_warps": 8}) == {}


def test_what_cannot_be_recomputed_rules_a_change_out(tmp_path: Path) -> None:
    """A dependent constexpr that cannot be computed excludes the change."""
    host = HOST.replace("NC = triton.cdiv(BT, BC)", "NC = count(BT, BC)")
    cell = _cell()
    assert cell.launch
    assert constexprs(cell, _package(tmp_path, host)).follow(cell.launch.args, {"BT": 32}) is None
    assert constexprs(cell, {}).follow(cell.launch.args, {"BC": 128}) is None


def test_tiles_are_halved_within_the_rules_of_dots(tmp_path: Path) -> None:
    """A dot's side is at least 16, and only powers of two are halved."""
    space = space_of(_cell(), constexprs(_cell(), _package(tmp_path)), 32, 1024)
    assert {name: axis for name, axis in space.axes.items() if name.startswith("B")} == {
        "BT": [32, 16],
        "BK": [32, 16],
    }
    odd = _cell({**SIZES, "BK": 48})
    assert "BK" not in space_of(odd, constexprs(odd, {}), 32, 1024).axes


def test_more_threads_than_a_block_has_are_no_candidate(tmp_path: Path) -> None:
    """A candidate has at most 1,024 threads."""
    configs = ({"kwargs": {}, "num_warps": 32},)
    cell = _cell(configs=configs)
    assert 32 not in space_of(cell, constexprs(cell, {}), 64, 1024).axes["num_warps"]
    assert 32 in space_of(cell, constexprs(cell, {}), 32, 1024).axes["num_warps"]


@pytest.mark.parametrize(
    ("module", "form"),
    [
        ("fla.ops.gla.fused_recurrent", ("fla.ops.gla", "fused_recurrent")),
        ("fla.ops.gla.fused_chunk", ("fla.ops.gla", "fused_chunk")),
        ("fla.ops.common.chunk_o", ("fla.ops.common", "chunk")),
        ("fla.modules.layernorm", None),
    ],
)
def test_a_packages_module_says_its_kernels_form(module: str, form: tuple[str, str] | None) -> None:
    """The form follows from the module's name."""
    name = f"{module}:kernel"
    assert form_of(Kernel(name, "lib==1", "0", Stubbed(module, "kernel"))) == form
