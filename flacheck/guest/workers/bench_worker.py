"""Timing of a kernel's configurations on the present card, with the installed Triton and torch.

A launch to time comes from our own host functions or from a record. It is repeated with each
configuration, below the autotuner. A worker with `device` "cpu" uses Triton's interpreter instead:
it gives no times, but everything else works.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from ..engine.loader import Loader
from ..engine.messages import CardRow, Json, Mark, Reply, Request, WorkerConfig
from . import values
from .timed_launch import TimedLaunch, host_launch, recorded_launch

# The time for Triton's do_bench: warm-up, then measurement.
_WARM_UP_MS, _MEASURED_MS = 25, 200
# The median, and the bounds below and above which a fifth of the runs lies.
_QUANTILES = (0.5, 0.2, 0.8)
_INTERPRETED_RUNS = 3
# The exit code of a process that has lost its card.
_FAULT_EXIT = 3
# The only card. Kernels are loaded once, and it needs no stand-in.
_CARD: CardRow = {"name": "the card that is here"}


class BenchWorker:
    """One card, with the last launch and the results of its first configuration."""

    def __init__(self, config: WorkerConfig) -> None:
        self._corpus, self._device = config["corpus"], config["device"]
        sys.path.append(config["torch"])
        if self._device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        # torch already uses the only card, so nothing has to change for it.
        self._loader = Loader(config, lambda card: None, whole_dependencies=True)
        self._launch: TimedLaunch | None = None
        self._launch_id: str | None = None

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner runs here."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run a request and return its reply.

        If the card has faulted, the process ends and its successor starts anew.
        """
        mark(request["op"])
        try:
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(request)
        except RuntimeError as error:
            if self._device != "cpu" and _is_faulted():
                first = str(error).splitlines()[0]
                print(f"the kernel faulted on the card: {first}", file=sys.stderr, flush=True)
                os._exit(_FAULT_EXIT)
            raise
        return answer

    def op_device(self, request: Request) -> Reply:
        """Return the facts of the card; having none is also a fact."""
        import torch
        import triton

        facts: Json = {"name": None, "capability": None}
        facts |= {"triton": triton.__version__, "torch": torch.__version__}
        if self._device == "cpu":
            facts["name"] = "Triton's interpreter"
        elif torch.cuda.is_available():
            facts["name"] = torch.cuda.get_device_name()
            facts["capability"] = list(torch.cuda.get_device_capability())
        return {"facts": facts}

    def op_prepare(self, request: Request) -> Reply:
        """Import the kernel and make its launch; a failure here holds for every configuration."""
        self._prepare(request)
        return {}

    def op_bench(self, request: Request) -> Reply:
        """Time one configuration.

        The facts are `median_ms`, `low_ms` and `high_ms` (a fifth of the runs lies below and
        above), `warm_up_s` of the first launch with its compile, and `error`, the largest relative
        difference of any result from that of the first configuration in this process.
        """
        launch = self._prepare(request)
        options = dict(request["config"])
        settings = values.constants(options.pop("kwargs"), launch.names)
        settings.update(options)
        if "grid" in request:
            settings["grid"] = tuple(request["grid"])
        call = launch.with_config(settings)
        launch.reset()
        start = time.perf_counter()
        call()
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()
        warm_up = time.perf_counter() - start
        facts: Json = {"warm_up_s": warm_up}
        facts["error"] = launch.error()
        median, low, high = self._time_call(call)
        facts |= {"median_ms": median, "low_ms": low, "high_ms": high}
        return {"facts": facts, "seconds": warm_up}

    def _prepare(self, request: Request) -> TimedLaunch:
        if self._launch is None or self._launch_id != request["launch_id"]:
            self._launch = None  # freed before the next launch takes its memory
            if "corpus" in request["kernel"]:
                self._launch = host_launch(request, self._corpus, self._device)
            else:
                import torch
                import triton

                # Kernels with descriptors need scratch memory under releases that support it.
                if hasattr(triton, "set_allocator"):
                    triton.set_allocator(
                        lambda size, *_: torch.empty(size, device=self._device, dtype=torch.int8)
                    )
                kernel = self._loader.load(request["kernel"], _CARD)
                self._launch = recorded_launch(request, kernel, self._device)
            self._launch_id = request["launch_id"]
        return self._launch

    def _time_call(self, call: Callable[[], object]) -> tuple[float, float, float]:
        """Return the median, low and high time of a call in ms."""
        if self._device != "cpu":
            from triton.testing import do_bench

            times = do_bench(call, warmup=_WARM_UP_MS, rep=_MEASURED_MS, quantiles=_QUANTILES)
            return times[0], times[1], times[2]
        times = []
        for _ in range(_INTERPRETED_RUNS):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1_000)
        times.sort()
        return times[1], times[0], times[-1]


# The name under which the server looks for a module's worker.
Worker = BenchWorker


def _is_faulted() -> bool:
    """Return True if the process has lost its card: then every use of the card fails."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
