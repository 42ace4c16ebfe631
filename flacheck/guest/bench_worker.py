"""Times configurations of our own kernels on the card that is there, with the Triton and the torch that are installed.

The kernel is launched as its host function launches it, on the family's own random inputs: the arguments of that launch
are kept and launched again with each configuration. A worker with `device` "cpu" runs Triton's interpreter instead,
which tells nothing of time but shows that all else works.
"""

from __future__ import annotations

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
        self._launch: tuple | None = None
        self._of: str | None = None
        self._right: list | None = None

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
            self._launch, self._right, self._of = self._launched(request), None, request["launch_id"]
        tuner, args, kwargs = self._launch
        tuner.configs = [Config(**request["config"])]
        started = time.perf_counter()
        tuner.run(*args, **kwargs)
        self._wait()
        warm_up = time.perf_counter() - started
        error = self._compared([value for value in [*args, *kwargs.values()] if hasattr(value, "data_ptr")])
        median, low, high = self._timed(lambda: tuner.run(*args, **kwargs))
        facts = {"median_ms": median, "low_ms": low, "high_ms": high, "warm_up_s": warm_up, "error": error}
        return {"facts": facts, "seconds": warm_up}

    def _launched(self, request: dict) -> tuple:
        """The autotuner of the kernel, and the arguments of the host function's launch."""
        import torch

        family, name = request["kernel"]["corpus"], request["kernel"]["name"]
        module = _module_from(os.path.join(self._corpus, family + ".py"), "flacheck_kernels_" + family)
        tuners = {each: getattr(module, each) for each in module.KERNELS}
        for tuner in tuners.values():
            tuner.configs = tuner.configs[:1]
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[request["dtype"]]
        inputs = module.inputs(**request["shape"], dtype=dtype, device=self._device)
        seen: list = []
        with _watched(tuners[name], seen):
            getattr(module, module.KERNELS[name]["form"])(**inputs)
        return (tuners[name], *seen[0])

    def _compared(self, tensors: list) -> float:
        import torch

        floats = [tensor for tensor in tensors if torch.is_floating_point(tensor)]
        if self._right is None:
            self._right = [tensor.clone() for tensor in floats]
        errors = [(now.double() - right.double()).norm() / right.double().norm().clamp_min(1e-30)
                  for now, right in zip(floats, self._right)]  # fmt: skip
        return max((float(error) for error in errors), default=0.0)

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


class _watched:
    """While it lasts, keep the arguments of an autotuner's launches."""

    def __init__(self, tuner, seen: list) -> None:
        self._tuner, self._seen = tuner, seen

    def __enter__(self) -> None:
        run = self._tuner.run

        def watched(*args, **kwargs):
            self._seen.append((args, kwargs))
            return run(*args, **kwargs)

        self._tuner.run = watched

    def __exit__(self, *error) -> None:
        del self._tuner.run
