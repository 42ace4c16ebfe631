"""Times configurations of a kernel on the card that is there, with the Triton and the torch that
are installed. A launch to time is one that our own host functions make, or a recorded one; all the
rest is the same: it is made again and again with each configuration, below the autotuner. A worker
with `device` "cpu" runs Triton's interpreter instead: no times, but all else works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..engine.loader import Loader
from ..engine.messages import CardRow, Mark, Reply, Request, WorkerConfig
from . import values
from .timed_launch import TimedLaunch, host_launch, recorded_launch

# What Triton's do_bench is given: some of it to warm up, the rest to measure.
_WARM_UP_MS, _MEASURED_MS = 25, 200
# The median, and what a fifth of the runs lies below and above.
_QUANTILES = (0.5, 0.2, 0.8)
_INTERPRETED_RUNS = 3
# The exit code of a process that has lost its card.
_FAULTED = 3
# Kernels are loaded once: this card needs no stand-in, and there is no other.
_CARD: CardRow = {"name": "the card that is here"}


class BenchWorker:
    """One card; keeps the last launch, and what its first configuration computed."""

    def __init__(self, config: WorkerConfig) -> None:
        self._corpus, self._device = config["corpus"], config["device"]
        sys.path.append(config["torch"])
        if self._device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        # There is one card, and torch speaks of it: nothing has to turn to another.
        self._loader = Loader(config, lambda card: None, whole_dependencies=True)
        self._launch: TimedLaunch | None = None
        self._launch_id: str | None = None

    def tolerates(self, error: BaseException) -> bool:
        """No autotuner runs here."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        """Answer a request. A process whose card has faulted ends: its heir begins anew."""
        mark(request["op"])
        try:
            answer: Reply = getattr(self, "op_" + request["op"])(request)
        except RuntimeError as error:
            if self._device != "cpu" and _is_faulted():
                first = str(error).splitlines()[0]
                print(f"the kernel faulted on the card: {first}", file=sys.stderr, flush=True)
                os._exit(_FAULTED)
            raise
        return answer

    def op_device(self, request: Request) -> Reply:
        """Which card there is; none is a fact too."""
        import torch
        import triton

        facts: dict[str, Any] = {"name": None, "capability": None}
        facts |= {"triton": triton.__version__, "torch": torch.__version__}
        if self._device == "cpu":
            facts["name"] = "Triton's interpreter"
        elif torch.cuda.is_available():
            facts["name"] = torch.cuda.get_device_name()
            facts["capability"] = list(torch.cuda.get_device_capability())
        return {"facts": facts}

    def op_prepare(self, request: Request) -> Reply:
        """Import the kernel and make its launch: what fails here fails for every configuration."""
        self._prepared(request)
        return {}

    def op_bench(self, request: Request) -> Reply:
        """`median_ms`, `low_ms` and `high_ms` (a fifth of the runs lies below and above),
        `warm_up_s` of the first launch with its compile, and the largest relative `error` of
        anything written against the first configuration that this process ran."""
        launch = self._prepared(request)
        options = dict(request["config"])
        settings = {**values.constants(options.pop("kwargs"), launch.names), **options}
        if "grid" in request:
            settings["grid"] = tuple(request["grid"])
        call = launch.with_config(settings)
        launch.reset()
        started = time.perf_counter()
        call()
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()
        warm_up = time.perf_counter() - started
        facts: dict[str, Any] = {"warm_up_s": warm_up, "error": launch.error()}
        facts["median_ms"], facts["low_ms"], facts["high_ms"] = self._timed(call)
        return {"facts": facts, "seconds": warm_up}

    def _prepared(self, request: Request) -> TimedLaunch:
        if self._launch is None or self._launch_id != request["launch_id"]:
            self._launch = None  # gone before the next one takes its memory
            if "corpus" in request["kernel"]:
                self._launch = host_launch(request, self._corpus, self._device)
            else:
                import torch
                import triton

                # Kernels with descriptors ask for scratch memory, under releases that have them.
                if hasattr(triton, "set_allocator"):
                    triton.set_allocator(
                        lambda size, *_: torch.empty(size, device=self._device, dtype=torch.int8)
                    )
                kernel = self._loader.load(request["kernel"], _CARD)
                self._launch = recorded_launch(request, kernel, self._device)
            self._launch_id = request["launch_id"]
        return self._launch

    def _timed(self, call: Callable[[], object]) -> tuple[float, float, float]:
        """Median, low and high time of a call in ms."""
        if self._device != "cpu":
            from triton.testing import do_bench

            times = do_bench(call, warmup=_WARM_UP_MS, rep=_MEASURED_MS, quantiles=_QUANTILES)
            return times[0], times[1], times[2]
        times = []
        for _ in range(_INTERPRETED_RUNS):
            started = time.perf_counter()
            call()
            times.append((time.perf_counter() - started) * 1_000)
        times.sort()
        return times[1], times[0], times[-1]


# The name under which the server looks for a module's worker.
Worker = BenchWorker


def _is_faulted() -> bool:
    """Whether the process has lost the card: then whatever it asks of it fails."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
