"""Time the corpus's chunked operators beside FLA's, forward and backward: `python -m tests.gpu.compare_speed`.

Needs a GPU and fla-core. B=8, T=4096, H=16, K=V=128, bf16. Each operator runs until its autotuners
have chosen; then the median of 20 runs is printed in ms, ours over theirs, with the memory of a run.
`--lengths` times fused_recurrent against chunk over lengths from 64 to 16,384 instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from tests import numerics
from tests.gpu.check_numerics import FOLDER


def fla_operators() -> dict[str, Callable[..., Any]]:
    """Return FLA's operators by the names of our families."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    def gla(q: Any, k: Any, v: Any, g: Any, scale: float, h0: Any) -> Any:
        return chunk_gla(q, k, v, g, scale=scale, initial_state=h0, output_final_state=True)

    def simple(q: Any, k: Any, v: Any, g: Any, scale: float, h0: Any) -> Any:
        return chunk_simple_gla(q, k, v, g, scale=scale, initial_state=h0, output_final_state=True)

    def delta(q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float, h0: Any) -> Any:
        return chunk_gated_delta_rule(
            q, k, v, g, beta.to(q.dtype), scale=scale, initial_state=h0, output_final_state=True
        )

    return {"simple_gla": simple, "gated_delta_rule": delta, "gla": gla}


def measure(operator: Callable[..., Any], arguments: dict[str, Any]) -> tuple[float, ...]:
    """Return seconds of the first run, and the median, least and greatest ms and the peak GiB of a run."""
    leaves = {}
    for name, value in arguments.items():
        leaves[name] = value
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            leaves[name] = value.detach().requires_grad_()

    def run() -> None:
        outputs = operator(**leaves)
        torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])

    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(22):
        for leaf in leaves.values():
            if isinstance(leaf, torch.Tensor):
                leaf.grad = None
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    peak = torch.cuda.max_memory_allocated() / 2**30
    times = times[2:]
    return first, statistics.median(times), min(times), max(times), peak


def report(name: str, operator: Callable[..., Any], arguments: dict[str, Any]) -> float:
    """Print one line of figures and return the median in ms."""
    first, median, least, greatest, peak = measure(operator, arguments)
    print(
        f"{name:44} median {median:9.3f} ms  ({least:.3f} to {greatest:.3f})  "
        f"first run {first:6.1f} s  peak {peak:5.1f} GiB",
        flush=True,
    )
    return median


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=["simple_gla", "gated_delta_rule", "gla"])
    parser.add_argument("--lengths", action="store_true")
    options = parser.parse_args()
    print(f"torch {torch.__version__}  {torch.cuda.get_device_name()}")
    for name in options.families:
        family = numerics.load_family(FOLDER, name)
        if options.lengths:
            for T in (64, 256, 1024, 4096, 16384):
                arguments = family.inputs(1, T, 16, 128, 128, torch.bfloat16, "cuda")
                for form in ("chunk", "fused_recurrent"):
                    report(f"{name}.{form} B=1 T={T}", getattr(family, form), arguments)
            continue
        arguments = family.inputs(8, 4096, 16, 128, 128, torch.bfloat16, "cuda")
        ours = report(f"{name} ours", family.chunk, arguments)
        theirs = report(f"{name} FLA", fla_operators()[name], arguments)
        print(f"{name}: ours over FLA {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
