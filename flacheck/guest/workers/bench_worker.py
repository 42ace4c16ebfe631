"""Times configurations of a kernel on the card that is there, with the Triton and the torch that
are installed.

A launch to time is one that our own host functions make (`host_launch`), or a recorded one
(`recorded_launch`); all the rest is the same: it is made again and again with each configuration,
below the autotuner.

A worker with `device` "cpu" runs Triton's interpreter instead: no times, but all else works.
"""

from __future__ import annotations

import os
import sys
import time

from ..engine.loader import Loader
from . import host_launch, recorded_launch, values

_WARM_UP_MS, _MEASURED_MS = 25, 200
_QUANTILES = (0.5, 0.2, 0.8)
_INTERPRETED_RUNS = 3
_FAULTED = 3
_CARD = {"name": "the card that is here"}


class Worker:
    """One card; keeps the last kernel's launch, and what its first configuration computed, between
    requests.
    """

    def __init__(self, config: dict) -> None:
        self._corpus, self._device = config["corpus"], config["device"]
        sys.path.append(config["torch"])
        if self._device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"
        # Packages are imported beside torch as it is: this card needs no stand-in.
        packages, scratch = config.get("packages", {}), config["scratch"]
        self._loader = Loader(
            packages, self._corpus, scratch, lambda card: None, whole_dependencies=True
        )
        self._launch = None
        self._of: str | None = None

    def tolerates(self, error: BaseException) -> bool:
        return False

    def run(self, request: dict, mark) -> dict:
        """Answer a request. After a fault the card answers this process nothing more: its heir
        begins anew.
        """
        mark(request["op"])
        try:
            return getattr(self, "op_" + request["op"])(request)
        except RuntimeError as error:
            if self._device != "cpu" and _faulted():
                print(
                    f"the kernel faulted on the card: {str(error).splitlines()[0]}",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(_FAULTED)
            raise

    def op_device(self, request: dict) -> dict:
        """Which card there is; none is a fact too."""
        import torch
        import triton

        found = self._device == "cpu" or torch.cuda.is_available()
        there = found and self._device != "cpu"
        return {
            "facts": {
                "name": torch.cuda.get_device_name()
                if there
                else "Triton's interpreter"
                if found
                else None,
                "capability": list(torch.cuda.get_device_capability()) if there else None,
                "triton": triton.__version__,
                "torch": torch.__version__,
            }
        }

    def op_prepare(self, request: dict) -> dict:
        """Import the kernel and make its launch: what fails here fails for every configuration."""
        self._prepared(request)
        return {}

    def op_bench(self, request: dict) -> dict:
        """`median_ms`, `low_ms` and `high_ms` (a fifth of the runs lies below and above),
        `warm_up_s` of the first launch with its compile, and the largest relative `error` of
        anything written against the first configuration that this process ran.
        """
        launch = self._prepared(request)
        call = launch.with_config(_settings(request, launch.names))
        launch.reset()
        started = time.perf_counter()
        call()
        self._wait()
        warm_up = time.perf_counter() - started
        error = launch.error()
        median, low, high = self._timed(call)
        facts = {
            "median_ms": median,
            "low_ms": low,
            "high_ms": high,
            "warm_up_s": warm_up,
            "error": error,
        }
        return {"facts": facts, "seconds": warm_up}

    def _prepared(self, request: dict):
        if self._of != request["launch_id"]:
            self._launch = self._of = None  # gone before the next one takes its memory
            self._launch, self._of = self._made(request), request["launch_id"]
        return self._launch

    def _made(self, request: dict):
        if "corpus" in request["kernel"]:
            return host_launch.launch(request, self._corpus, self._device)
        self._give_kernels_memory()
        return recorded_launch.launch(
            request, self._loader.load(request["kernel"], _CARD), self._device
        )

    def _give_kernels_memory(self) -> None:
        """Some ask for scratch memory of their own, for descriptors: under releases with them
        somebody provides it.
        """
        import torch
        import triton

        if hasattr(triton, "set_allocator"):
            triton.set_allocator(
                lambda size, *_: torch.empty(size, device=self._device, dtype=torch.int8)
            )

    def _timed(self, call) -> tuple:
        if self._device != "cpu":
            from triton.testing import do_bench

            return tuple(do_bench(call, warmup=_WARM_UP_MS, rep=_MEASURED_MS, quantiles=_QUANTILES))
        times = []
        for _ in range(_INTERPRETED_RUNS):
            started = time.perf_counter()
            call()
            times.append((time.perf_counter() - started) * 1_000)
        times.sort()
        return times[1], times[0], times[-1]

    def _wait(self) -> None:
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()


def _settings(request: dict, names: dict) -> dict:
    """A configuration as the arguments of a launch, with its own grid where the host's is not at
    hand.
    """
    import triton.language as tl

    config = request["config"]
    constants = {
        name: values.value({"constexpr": each}, tl, names)
        for name, each in config["kwargs"].items()
    }
    options = {name: value for name, value in config.items() if name != "kwargs"}
    grid = {"grid": tuple(request["grid"])} if "grid" in request else {}
    return {**constants, **options, **grid}


def _faulted() -> bool:
    """Whether the process has lost the card: then whatever it asks of it fails."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
