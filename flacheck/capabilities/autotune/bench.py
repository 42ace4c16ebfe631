"""`--bench`: every compiling configuration timed on the card that is here.

Our own kernels are timed as their host functions launch them, a package's or a program's as they
were recorded: on tensors like theirs, with other numbers in them. A worker of its own does it, for
a kernel that faults on the card or never ends must not take flacheck along.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flacheck import toolchains
from flacheck.capabilities.autotune import timeable
from flacheck.capabilities.autotune.emit import configuration
from flacheck.capabilities.autotune.results import (
    ExaminedConfig,
    Fate,
    Price,
    Timing,
    TunedLaunch,
    TunerResult,
)
from flacheck.engine import policies
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.provider import torch_folder
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import UsageError
from flacheck.model import Attempt, Json, Outcome, canonical
from flacheck.packages.package import Package
from flacheck.tables import find_shipped_folder, targets

# The longest that a scan's compile takes before anything is known of its kernel.
_SECONDS = 300.0
# A worker that starts anew has forgotten what the first configuration computed.
_RESIDENT_MB = 64_000
# So many configurations of a launch may take their worker along before the others are given up.
_LOST = 2
_GIVEN_UP = "not tried: configurations before it hung, or took their worker along"
_INTERRUPTED = "interrupted"
# What the CUDA driver and torch look at; everything else of a user's environment stays outside.
_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")
# A traceback's last line with the error's name, and what the worker says before it dies.
_ERROR = re.compile(r"[A-Za-z_][\w.]*: .+|the kernel faulted .+")
_Config = Mapping[str, Any]
Packages = Mapping[str, Package]


@dataclass(frozen=True)
class Card:
    """The card that is here, as torch speaks of it, and the Triton and torch that run on it."""

    name: str
    target: str | None
    triton: str
    torch: str


class Bench:
    """A worker on the card, from `with` to its end. Raises UsageError where there is no card, or no
    torch to use it with; `seconds` is the longest that a configuration may take with its compile,
    `trust` the user's word for sources of kernels. `interrupted` is True after Ctrl-C: nothing more
    is timed, and no time is lost.
    """

    def __init__(
        self, device: str = "cuda", seconds: float = _SECONDS, trust: bool = False
    ) -> None:
        torch = torch_folder()
        if torch is None:
            raise UsageError("--bench needs a GPU: install torch with CUDA beside flacheck")
        (choice,) = toolchains.resolve(["installed"]).choices
        self._config = toolchains.provide(choice).worker_config()
        self._config |= {"worker": "bench_worker", "corpus": str(find_shipped_folder("kernels"))}
        self._config |= {"torch": torch, "device": device, "recycle_mb": _RESIDENT_MB}
        self._config["trust"] = trust
        # The driver of a GPU needs devices and files that nobody lists.
        self._config["confinement"] = policies.OWN
        self._choice, self._seconds = choice.identity, seconds
        self.interrupted = False
        # A worker of its own: hours of compiling may pass before the first timing.
        with self:
            self.card = self._card()

    def __enter__(self) -> Bench:
        self._pool = LocalPool(1, lambda task: self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def _card(self) -> Card:
        attempt = self._ask(self._kind(None), {"op": "device"})
        if attempt.outcome is not Outcome.FINISHED or attempt.facts["name"] is None:
            last = attempt.log.strip().splitlines()[-1:] or ["torch.cuda.is_available() is False"]
            raise UsageError(f"--bench needs a GPU that torch can use: {last[0]}")
        facts = attempt.facts
        target: str | None = "sm" + "".join(map(str, facts["capability"] or ()))
        if target not in targets.TARGETS:
            target = None
        return Card(facts["name"], target, facts["triton"], facts["torch"])

    def time_configs(
        self, result: TunerResult, tuned_launch: TunedLaunch, packages: Packages
    ) -> TunerResult:
        """The result with times of its configurations and fallbacks, or why there are none."""
        runs = [each.config for each in result.configs if each.fate is Fate.RUNS]
        instead = []
        for fallback in result.fallbacks:
            config = configuration(result, fallback)
            if config is not None:
                instead.append((fallback.use, config))
        configs = [*runs, *(config for _, config in instead)]
        why = self._elsewhere(result) or timeable.untimeable(tuned_launch)
        if not why and not configs:
            why = "none of its configurations runs"
        if self.interrupted:
            why = _INTERRUPTED
        times = why or self._times(tuned_launch, configs, packages)
        if isinstance(times, str):
            return replace(result, not_timed=times)
        timed = [replace(each, timing=times.get(canonical(each.config))) for each in result.configs]
        prices = [Price(use, *_price(times[canonical(config)], timed)) for use, config in instead]
        return replace(result, configs=timed, prices=prices, rank=_rank(timed))

    def _elsewhere(self, result: TunerResult) -> str | None:
        """Why this card and the Triton here have nothing to say of a result."""
        if result.toolchain == self._choice and self.card.target in (None, result.target):
            return None
        card = self.card.target or self.card.name
        return f"{self._choice} on {card} is what is here to time with"

    def _times(
        self, tuned_launch: TunedLaunch, configs: Sequence[_Config], packages: Packages
    ) -> dict[str, Timing] | str:
        """Return the timing of each configuration, or why none has one."""
        kind = self._kind(packages.get(tuned_launch.cell.kernel.package or ""))
        request = timeable.request(tuned_launch)
        try:
            prepared = self._ask(kind, {**request, "op": "prepare"})
        except KeyboardInterrupt:
            self.interrupted = True
            return _INTERRUPTED
        if prepared.outcome is not Outcome.FINISHED:
            return f"its launch cannot be made again: {_said(prepared)}"
        times: dict[str, Timing] = {}
        lost = 0
        for config in configs:
            own = timeable.own_grid(tuned_launch, config)
            if own is None:
                times[canonical(config)] = Timing(failed="its grid was not recorded")
                continue
            if lost >= _LOST:
                times[canonical(config)] = Timing(failed=_GIVEN_UP)
                continue
            if self.interrupted:
                times[canonical(config)] = Timing(failed=f"not timed: {_INTERRUPTED}")
                continue
            question = {**request, "op": "bench", "config": dict(config), **own}
            try:
                attempt = self._ask(kind, question)
            except KeyboardInterrupt:
                # Each time took seconds on the card, so those of the other configurations stay.
                self.interrupted = True
                times[canonical(config)] = Timing(failed=f"not timed: {_INTERRUPTED}")
                continue
            times[canonical(config)] = _timing(attempt)
            # A hang has cost the whole time limit; another one would cost it again.
            lost += {Outcome.DIED: 1, Outcome.TIMED_OUT: _LOST, Outcome.LOST: _LOST}.get(
                attempt.outcome, 0
            )
        return times

    def _kind(self, package: Package | None) -> WorkerKind:
        """A worker that can import a package's kernels, where one was provided."""
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        if package is None:
            return WorkerKind(f"{self._choice} on the card", self._config, passed)
        packages = {package.identity: {"path": package.path, "modules": list(package.modules)}}
        name = f"{self._choice} {package.identity} on the card"
        return WorkerKind(name, {**self._config, "packages": packages}, passed)

    def _ask(self, kind: WorkerKind, request: Json) -> Attempt:
        """One at a time, for two on a card would time each other."""
        self._pool.submit([Task(0, kind, request)])
        (attempt,) = [attempt for ended in self._pool.results() for _, attempt in ended]
        return attempt


def _timing(attempt: Attempt) -> Timing:
    if attempt.outcome is not Outcome.FINISHED:
        return Timing(failed=_said(attempt))
    names = ("median_ms", "low_ms", "high_ms", "warm_up_s")
    measured = {name: round(attempt.facts[name], 5) for name in names}
    return Timing(**measured, error=attempt.facts["error"])


def _said(attempt: Attempt) -> str:
    """What an attempt failed with, in one line."""
    if attempt.outcome is Outcome.TIMED_OUT:
        return f"it had not ended after {attempt.seconds:.0f} s"
    lines = attempt.log.strip().splitlines()
    named = [line for line in lines if _ERROR.fullmatch(line)]
    if not lines:
        return f"it took its worker along ({attempt.signal or attempt.exit_code})"
    return (named or lines)[-1]


def _price(timing: Timing, configs: Sequence[ExaminedConfig]) -> tuple[float | None, float | None]:
    """What a fallback takes, and that as a multiple of the best configuration."""
    medians = [each.timing.median_ms for each in configs if each.timing and each.timing.median_ms]
    if timing.median_ms is None or not medians:
        return timing.median_ms, None
    return timing.median_ms, round(timing.median_ms / min(medians), 3)


def _rank(configs: Sequence[ExaminedConfig]) -> float | None:
    """How well the estimate's order agrees with the measured one."""
    timed = [(each.estimate, each.timing.median_ms) for each in configs if each.timing]
    pairs = [(estimate, median) for estimate, median in timed if median is not None]
    return spearman([estimate for estimate, _ in pairs], [median for _, median in pairs])


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, −1 to 1, ties sharing their mean rank; None for fewer than three
    pairs, or where all of one side are equal."""
    # Two pairs agree, or disagree, by chance.
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return round(statistics.correlation(_ranks(first), _ranks(second)), 3)


def _ranks(values: Sequence[float]) -> list[float]:
    """Each value's rank from 1, ties sharing their mean."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]
