"""Time the corpus's chunked operators beside FLA's, forward and backward: `python -m tests.gpu.compare_speed`.

Needs a GPU and fla-core. B=8, T=4096, H=16, K=V=128, bf16. Each operator runs until its autotuners
have chosen; then the median of 20 runs is printed in ms, ours over theirs, with the memory of a run.
`--lengths` times fused_recurrent against chunk over lengths from 64 to 16,384 instead.
`--compile I/N` only compiles part I of N of every autotuner's configurations into Triton's cache, so
that several processes can share what one would compile for minutes.

FLA refuses its gated backward on Hopper under Triton 3.4 to 3.7.0 as miscompiled (its issue 640).
`--lift` times it anyway, and prints how far its gradients are from ours.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import triton.testing

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


def lift_refusals() -> None:
    """Make FLA run the backward that it refuses as miscompiled."""
    import fla.ops.common.chunk_o

    fla.ops.common.chunk_o.TRITON_ABOVE_3_4_0 = False


def compile_part(index: int, count: int) -> None:
    """Make autotuners compile part `index` of `count` of their configurations and run a single one."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.errors import OutOfResources

    run = Autotuner.run

    def run_part(self: Any, *arguments: Any, **options: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        configs = self.prune_configs(options) if len(self.configs) > 1 else self.configs
        for config in configs[index::count]:
            try:
                self.fn.run(*arguments, **{**options, **config.all_kwargs(), "warmup": True})
            except Exception as error:
                print(f"{self.base_fn.__name__} {config}: {type(error).__name__}", flush=True)
        every = self.configs
        try:
            for config in configs:
                self.configs = [config]
                try:
                    return run(self, *arguments, **options)
                except OutOfResources:
                    continue
        finally:
            self.configs = every

    Autotuner.run = run_part


def leaves_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, floating-point tensors as leaves that gather gradients."""
    leaves = {}
    for name, value in arguments.items():
        leaves[name] = value
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            leaves[name] = value.detach().requires_grad_()
    return leaves


def run_once(operator: Callable[..., Any], leaves: dict[str, Any]) -> None:
    """Run an operator forward and backward."""
    for leaf in leaves.values():
        if isinstance(leaf, torch.Tensor):
            leaf.grad = None
    outputs = operator(**leaves)
    torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])


def times_of(run: Callable[[], None]) -> list[float]:
    """Return the ms of 20 runs after two."""
    times = []
    for _ in range(22):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return times[2:]


def report(name: str, operator: Callable[..., Any], arguments: dict[str, Any]) -> tuple[float, ...]:
    """Print a line for forward, and one with backward; return both medians in ms."""
    leaves = leaves_of(arguments)
    start = time.perf_counter()
    run_once(operator, leaves)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    both = times_of(lambda: run_once(operator, leaves))
    peak = torch.cuda.max_memory_allocated() / 2**30
    with torch.no_grad():
        forward = times_of(lambda: operator(**leaves))
    for what, times in (("forward", forward), ("both", both)):
        median = statistics.median(times)
        print(
            f"{name:36} {what:8} median {median:9.3f} ms  ({min(times):.3f} to {max(times):.3f})  "
            f"first run {first:6.1f} s  peak {peak:5.1f} GiB",
            flush=True,
        )
    return statistics.median(forward), statistics.median(both)


def compare_gradients(name: str, ours: Any, theirs: Any, arguments: dict[str, Any]) -> None:
    """Print ||theirs - ours|| / ||ours|| of each gradient."""
    mine, others = leaves_of(arguments), leaves_of(arguments)
    run_once(ours, mine)
    run_once(theirs, others)
    right = {n: x.grad for n, x in mine.items() if getattr(x, "grad", None) is not None}
    errors = numerics.relative_errors({n: others[n].grad for n in right}, right)
    text = "  ".join(f"d{n} {error:.1e}" for n, error in errors.items())
    print(f"{name}: FLA's gradients from ours  {text}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=["simple_gla", "gated_delta_rule", "gla"])
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--compile", metavar="I/N")
    parser.add_argument("--only", choices=["ours", "fla"])
    parser.add_argument("--lift", action="store_true")
    options = parser.parse_args()
    if options.lift:
        lift_refusals()
    if options.compile:
        compile_part(*map(int, options.compile.split("/")))
    # Shorter than Triton's 25 and 100 ms: dozens of configurations are timed.
    triton.testing.do_bench = functools.partial(triton.testing.do_bench, warmup=5, rep=30)
    print(f"torch {torch.__version__}  {torch.cuda.get_device_name()}")
    for name in options.families:
        family = numerics.load_family(FOLDER, name)
        if options.lengths:
            for T in (64, 256, 1024, 4096, 16384):
                arguments = family.inputs(1, T, 16, 128, 128, torch.bfloat16, "cuda")
                for form in ("chunk", "fused_recurrent"):
                    report(f"{name}.{form} B=1 T={T}", getattr(family, form), arguments)
            continue
        operators = {"ours": family.chunk}
        if options.only != "ours":
            operators["fla"] = fla_operators()[name]
        if options.only == "fla":
            del operators["ours"]
        if options.compile:
            operators_of_forms = list(operators.values())
            if options.only == "ours":
                operators_of_forms.append(family.fused_recurrent)
            arguments = family.inputs(2, 1024, 16, 128, 128, torch.bfloat16, "cuda")
            for operator in operators_of_forms:
                run_once(operator, leaves_of(arguments))
            continue
        arguments = family.inputs(8, 4096, 16, 128, 128, torch.bfloat16, "cuda")
        medians = {}
        for who, operator in operators.items():
            medians[who] = report(f"{name} {who}", operator, arguments)
        if len(medians) == 2:
            forward, both = (o / t for o, t in zip(*medians.values(), strict=True))
            print(f"{name}: ours over FLA, forward {forward:.2f}, with backward {both:.2f}")
            ours, theirs = operators.values()
            compare_gradients(name, ours, theirs, arguments)


if __name__ == "__main__":
    main()
