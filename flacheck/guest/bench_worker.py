"""Times configurations of our own kernels on the card that is there, with the Triton and the torch that are installed.

The kernel is launched as its host function launches it, on the family's own random inputs: the arguments of that launch
are kept and launched again with each configuration. Memory that nobody wrote holds NaN, and before each configuration
the tensors that the launch writes are what they were, so that a result which is left out shows.

A worker with `device` "cpu" runs Triton's interpreter instead: no times, but all else works.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from .loader import _module_from

_WARM_UP_MS, _MEASURED_MS = 25, 200
_QUANTILES = (0.5, 0.2, 0.8)
_INTERPRETED_RUNS = 3


class Worker:
    """One card; keeps the last kernel's launch, and what its first configuration computed, between requests."""

    def __init__(self, config: dict) -> None:
        self._corpus, self._device = config["corpus"], config["device"]
        sys.path.append(config["torch"])
        if self._device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        self._launch: _Launch | None = None
        self._of: str | None = None

    def tolerates(self, error: BaseException) -> bool:
        return False

    def run(self, request: dict, mark) -> dict:
        mark(request["op"])
        return getattr(self, "op_" + request["op"])(request)

    def op_device(self, request: dict) -> dict:
        """Which card there is; none is a fact too."""
        import torch
        import triton

        found = self._device == "cpu" or torch.cuda.is_available()
        there = found and self._device != "cpu"
        return {
            "facts": {
                "name": torch.cuda.get_device_name() if there else "Triton's interpreter" if found else None,
                "capability": list(torch.cuda.get_device_capability()) if there else None,
                "triton": triton.__version__,
                "torch": torch.__version__,
            }
        }

    def op_bench(self, request: dict) -> dict:
        """`median_ms`, `low_ms` and `high_ms` (a fifth of the runs lies below and above), `warm_up_s` of the first
        launch with its compile, and the largest relative `error` of any tensor against the first configuration."""
        from triton import Config

        if self._of != request["launch_id"]:
            self._launch, self._of = self._launched(request), request["launch_id"]
        launch = self._launch
        launch.tuner.configs = [Config(**request["config"])]
        launch.reset()
        started = time.perf_counter()
        launch()
        self._wait()
        warm_up = time.perf_counter() - started
        error = launch.error()
        median, low, high = self._timed(launch)
        facts = {"median_ms": median, "low_ms": low, "high_ms": high, "warm_up_s": warm_up, "error": error}
        return {"facts": facts, "seconds": warm_up}

    def _launched(self, request: dict):
        """The launch that the host function makes of the kernel."""
        import torch

        family, name = request["kernel"]["corpus"], request["kernel"]["name"]
        module = _module_from(os.path.join(self._corpus, family + ".py"), "flacheck_kernels_" + family)
        tuners = {each: getattr(module, each) for each in module.KERNELS}
        for tuner in tuners.values():
            tuner.configs = tuner.configs[:1]
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[request["dtype"]]
        inputs = module.inputs(**request["shape"], dtype=dtype, device=self._device)
        seen: list = []
        with _watched(tuners[name], seen), _unwritten_is_nan():
            getattr(module, module.KERNELS[name]["form"])(**inputs)
        return seen[0]

    def _timed(self, launch) -> tuple:
        if self._device != "cpu":
            from triton.testing import do_bench

            return tuple(do_bench(launch, warmup=_WARM_UP_MS, rep=_MEASURED_MS, quantiles=_QUANTILES))
        times = []
        for _ in range(_INTERPRETED_RUNS):
            started = time.perf_counter()
            launch()
            times.append((time.perf_counter() - started) * 1_000)
        times.sort()
        return times[1], times[0], times[-1]

    def _wait(self) -> None:
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()


class _Launch:
    """A launch to make again: its arguments, and those of its tensors that it writes, as they were before."""

    def __init__(self, tuner, args, kwargs) -> None:
        self.tuner, self._args, self._kwargs = tuner, args, kwargs
        tensors = [value for value in [*args, *kwargs.values()] if hasattr(value, "data_ptr")]
        before = [tensor.clone() for tensor in tensors]
        self()
        changed = [not _same(tensor, old) for tensor, old in zip(tensors, before)]
        self._written = [(t, old) for t, old, written in zip(tensors, before, changed) if written]
        self._right: list | None = None

    def __call__(self) -> None:
        self.tuner.run(*self._args, **self._kwargs)

    def reset(self) -> None:
        for tensor, before in self._written:
            tensor.copy_(before)

    def error(self) -> float:
        """The largest relative difference of what is written from what the first configuration wrote."""
        now = [tensor.double() for tensor, _ in self._written]
        if self._right is None:
            self._right = now
        errors = [float((one - two).norm() / two.norm().clamp_min(1e-30)) for one, two in zip(now, self._right)]
        if not errors or not all(error < float("inf") for error in errors):
            raise ArithmeticError("the kernel left a result unwritten, or wrote what is no number")
        return max(errors)


def _same(tensor, other) -> bool:
    import torch

    return torch.allclose(tensor, other, rtol=0, atol=0, equal_nan=True)


class _watched:
    """While it lasts, keep an autotuner's launches."""

    def __init__(self, tuner, seen: list) -> None:
        self._tuner, self._seen = tuner, seen

    def __enter__(self) -> None:
        def watched(*args, **kwargs):
            del self._tuner.run
            self._seen.append(_Launch(self._tuner, args, kwargs))

        self._tuner.run = watched

    def __exit__(self, *error) -> None:
        self._tuner.__dict__.pop("run", None)


@contextlib.contextmanager
def _unwritten_is_nan():
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what torch.empty returns
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
