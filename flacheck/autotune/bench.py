"""`--bench`: every compiling configuration of our own kernels timed on the card that is here.

A launch holds no tensors, so only kernels that bring inputs can be timed: ours. A worker of its own does it, for a
kernel that faults on the card must not take flacheck along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flacheck import corpus, replay, targets, toolchains
from flacheck.autotune.emit.choice import configuration
from flacheck.autotune.examined import Examined, Fate, Price, Result, Timing
from flacheck.autotune.ranks import spearman
from flacheck.errors import UsageError
from flacheck.executors import LocalPool, Task
from flacheck.model import Attempt, Cell, Json, Outcome, canonical, digest
from flacheck.sandbox import WorkerKind

_SECONDS = 300.0
# A worker that starts anew has forgotten what the first configuration computed.
_RESIDENT_MB = 64_000
# What the CUDA driver and torch look at; everything else of a user's environment stays outside.
_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Card:
    """The card that is here, as torch speaks of it, and the Triton and torch that run on it."""

    name: str
    target: str | None
    triton: str
    torch: str


class Bench:
    """A worker on the card. Raises UsageError where there is none, or no torch to use it with."""

    def __init__(self, device: str = "cuda") -> None:
        torch = replay.torch_folder()
        if torch is None:
            raise UsageError("--bench needs torch with CUDA beside flacheck, and a GPU")
        (choice,) = toolchains.resolve(["installed"]).choices
        config = toolchains.provide(choice).worker_config()
        config |= {"worker": "bench_worker", "corpus": str(corpus.folder()), "torch": torch, "device": device}
        config["recycle_mb"] = _RESIDENT_MB
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._kind = WorkerKind(f"{choice.identity} on the card", config, passed)
        self._choice = choice.identity
        self.card = self._card()

    def _card(self) -> Card:
        (attempt,) = self._run([{"op": "device"}])
        if attempt.outcome is not Outcome.FINISHED or attempt.facts["name"] is None:
            last = attempt.log.strip().splitlines()[-1:] or ["torch.cuda.is_available() is False"]
            raise UsageError(f"--bench needs a GPU that torch can use: {last[0]}")
        facts = attempt.facts
        arch = "".join(map(str, facts["capability"] or ()))
        known = f"sm{arch}" if f"sm{arch}" in targets.TARGETS else None
        return Card(facts["name"], known, facts["triton"], facts["torch"])

    def timed(self, result: Result, cell: Cell) -> Result:
        """The result with times of its configurations and of its fallbacks, if it is about this Triton on this card."""
        if "corpus" not in cell.kernel.origin or not self._is_here(result):
            return result
        runs = [each for each in result.configs if each.fate is Fate.RUNS]
        instead = list(_instead(result))
        configs = [*(each.config for each in runs), *(config for _, config in instead)]
        attempts = self._run([_request(cell, config) for config in configs])
        times = {canonical(config): _timing(attempt) for config, attempt in zip(configs, attempts)}
        timed = [replace(each, timing=times.get(canonical(each.config))) for each in result.configs]
        prices = [Price(use, *_price(times[canonical(config)], timed)) for use, config in instead]
        return replace(result, configs=timed, prices=prices, rank=_rank(timed))

    def _is_here(self, result: Result) -> bool:
        return result.toolchain == self._choice and self.card.target in (None, result.target)

    def _run(self, requests: Sequence[Json]) -> list[Attempt]:
        """One after the other, for two on a card would time each other."""
        pool = LocalPool(1, lambda task: _SECONDS)
        found: dict[int, Attempt] = {}
        try:
            pool.submit(Task(number, self._kind, request) for number, request in enumerate(requests))
            for ended in pool.completed():
                found |= {task.name: attempt for task, attempt in ended}
        finally:
            pool.close()
        return [found[number] for number in range(len(requests))]


def _request(cell: Cell, config: Mapping[str, Any]) -> Json:
    where = {"kernel": dict(cell.kernel.origin), "shape": dict(cell.shape), "dtype": cell.dtype}
    return {"op": "bench", **where, "launch_id": digest(where, 16), "config": dict(config)}


def _timing(attempt: Attempt) -> Timing:
    if attempt.outcome is not Outcome.FINISHED:
        last = attempt.log.strip().splitlines()[-1:] or [attempt.signal or attempt.outcome.value]
        return Timing(None, None, None, None, None, last[0])
    facts = attempt.facts
    median, low, high, warm_up = (round(facts[name], 5) for name in ("median_ms", "low_ms", "high_ms", "warm_up_s"))
    return Timing(median, low, high, warm_up, facts["error"])


def _instead(result: Result) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Fallbacks that are a configuration, with it."""
    for fallback in result.fallbacks:
        config = configuration(result, fallback)
        if config is not None:
            yield fallback.use, config


def _price(timing: Timing, configs: Sequence[Examined]) -> tuple[float | None, float | None]:
    """What a fallback takes, and that as a multiple of the best configuration."""
    best = min((each.timing.median for each in configs if each.timing and each.timing.median), default=None)
    ratio = round(timing.median / best, 3) if timing.median and best else None
    return timing.median, ratio


def _rank(configs: Sequence[Examined]) -> float | None:
    """How well the estimate's order agrees with the measured one."""
    pairs = [(each.estimate, each.timing.median) for each in configs if each.timing and each.timing.median is not None]
    return spearman([estimate for estimate, _ in pairs], [median for _, median in pairs])
