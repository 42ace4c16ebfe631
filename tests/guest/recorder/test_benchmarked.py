"""The surroundings of launches in programs: timing, warming up, compiling."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captured import exit_code, needs_torch, recorded

TIMING = """
import triton.testing
from triton.testing import do_bench

x = torch.zeros(64, device="cuda")
for how in ({}, {"quantiles": [0.5, 0.2, 0.8]}, {"quantiles": [0.5]}, {"return_mode": "all"}):
    time = do_bench(lambda: launch(x, 4), **how)
    wanted = {"quantiles": list, "return_mode": list}.get(next(iter(how), ""), float)
    if how.get("quantiles") == [0.5]:
        wanted = float
    assert isinstance(time, wanted), (how, time)
"""


@needs_torch
def test_a_benchmark_runs_what_it_times_once(tmp_path: Path) -> None:
    """The function runs once for each call of the benchmark, whatever it returns."""
    (launch,) = recorded(tmp_path, TIMING).launches
    assert launch.count == 4


OCCUPANCY = """
kernel = double.warmup(torch.zeros(64, device="cuda"), 4, BLOCK=64, num_warps=8, grid=(1,))
kernel._init_handles()
blocks = 65536 // (kernel.n_regs * 32 * kernel.num_warps)
blocks = min(blocks, 232448 // kernel.metadata.shared)
assert blocks > 0 and kernel.num_warps == 8
kernel[(blocks, 1, 1)](torch.zeros(64, device="cuda"), 4)
"""


@needs_torch
def test_a_warmed_up_kernel_says_what_programs_compute_with(tmp_path: Path) -> None:
    """A warmed-up kernel has the resources that programs divide by to compute its occupancy."""
    assert exit_code(tmp_path, OCCUPANCY) == 0


CACHED = """
cache = {}
for dtype in (torch.float32, torch.float16):
    x = torch.zeros(64, device="cuda", dtype=dtype)
    if "kernel" in cache:
        # Releases differ in whether a compiled kernel takes its constants again.
        cache["kernel"][(1,)](x, 4)
        cache["kernel"][(1,)](x, 4, 64, stream=None)
        cache["kernel"][(1,)](x)
    else:
        cache["kernel"] = double[(1,)](x, 4, BLOCK=64, num_warps=8)
"""


@needs_torch
def test_a_compiled_kernel_that_a_program_keeps_is_launched(tmp_path: Path) -> None:
    """The launch has the constants and options of its compile; a wrong call is not recorded."""
    first, again = recorded(tmp_path, CACHED).launches
    assert [each.launch.args["x"]["dtype"] for each in (first, again)] == ["fp32", "fp16"]
    assert (first.count, again.count) == (1, 2)
    assert again.options["num_warps"] == 8
    assert again.launch.args["BLOCK"] == {"constexpr": 64}


COMPILATION = """
@torch.compile
def first(x):
    launch(x, 1)
    return x

@torch.compile(dynamic=True)
def second(x):
    return first(x)

second(torch.zeros(64, device="cuda"))
"""


@needs_torch
def test_a_kernel_called_inside_torch_compile_is_recorded_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The capture records what Inductor launches, so it warns of nothing that is missing."""
    assert len(recorded(tmp_path, COMPILATION).launches) == 1
    assert "are not recorded" not in capfd.readouterr().err


PLACEMENT = """
import triton
device = triton.runtime.driver.active.get_active_torch_device()
x = torch.zeros(64, device=device)
assert x.device == device and torch.empty_like(x).device == device and device.index == 0
launch(x, 4)
"""


@needs_torch
def test_triton_names_the_device_that_tensors_are_on(tmp_path: Path) -> None:
    """Triton and the tensors name the same device, because programs compare the two."""
    assert exit_code(tmp_path, PLACEMENT) == 0


COMPARISON = """
from triton._C.libtriton import nvidia
import triton.profiler as profiler

blas = nvidia.cublas.CublasLt(torch.empty(32, device="cuda", dtype=torch.uint8))
x = torch.zeros(64, device="cuda")
profiler.start("times", hook="triton")
profiler.deactivate(0)
with profiler.scope("multiplied", {"flops": 8}):
    blas.matmul(x, x, x)
    launch(x, 4)
profiler.finalize()
"""


@needs_torch
def test_cublas_and_the_profiler_need_no_card(tmp_path: Path) -> None:
    """The other libraries that a program compares with launch nothing, and the program goes on."""
    launches = recorded(tmp_path, COMPARISON).launches
    # Newer profilers warm up kernels of their own.
    mine = [each for each in launches if not each.kernel.startswith("triton.")]
    assert [each.count for each in mine] == [1]
