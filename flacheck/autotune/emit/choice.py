"""Which configurations to keep of a kernel: those that run under every toolchain and on every
target that was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import grouped
from flacheck.autotune.examined import ExaminedConfig, Fate, TunerResult
from flacheck.model import canonical

# What `triton.Config` takes besides constants.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_Config = Mapping[str, Any]


@dataclass(frozen=True)
class KeptConfigs:
    """A kernel with the configurations that run everywhere, the best estimate first; `failing` says
    why there are none where there are none. `results` are what was examined of it.
    """

    kernel: str
    results: Sequence[TunerResult]
    configs: Sequence[_Config]

    @property
    def where(self) -> str:
        """Where they run: `triton==3.1.0, triton==3.2.0 on sm90`."""
        toolchains = dict.fromkeys(result.toolchain for result in self.results)
        targets = dict.fromkeys(result.target for result in self.results)
        return f"{', '.join(toolchains)} on {', '.join(targets)}"


def choices(results: Sequence[TunerResult]) -> list[KeptConfigs]:
    """One for each kernel with configurations; what fails everywhere is replaced by its nearest
    fallback, if that is a matter of configurations alone.
    """
    tried = grouped((result.kernel, result) for result in results if result.configs)
    return [KeptConfigs(kernel, of, _configs(of)) for kernel, of in tried.items()]


def _configs(results: Sequence[TunerResult]) -> list[_Config]:
    """What runs in every result; what tuning gains nothing from only where nothing else is left."""
    ways = {canonical(each.config): each for each in results[0].configs}
    dropped: set[str] = set()
    for result in results:
        runs = {canonical(each.config) for each in result.configs if each.fate is Fate.RUNS}
        ways = {config: each for config, each in ways.items() if config in runs}
        if result.cost:
            dropped |= {canonical(result.configs[each].config) for each in result.cost.droppable}
    # What is dropped still runs: it is better than nothing.
    kept = [each for config, each in ways.items() if config not in dropped] or ways.values()
    return [each.config for each in sorted(kept, key=_rank)] or _fallbacks(results)


def _rank(examined: ExaminedConfig) -> tuple[bool, float]:
    """One that spills comes last, whatever is estimated of its tiles."""
    return bool(examined.record.resources.get("spills")), examined.estimate


def _fallbacks(results: Sequence[TunerResult]) -> list[_Config]:
    """Fallbacks that change nothing but a configuration and compile everywhere, nearest first."""
    places = {(result.toolchain, result.target) for result in results}
    configs: dict[str, _Config] = {}
    for result in results:
        for fallback in result.fallbacks:
            config = configuration(result, fallback)
            if config is not None and places <= set(fallback.places):
                configs[canonical(config)] = config
    return list(configs.values())


def configuration(result: TunerResult, fallback: Fallback) -> _Config | None:
    """A fallback as a configuration; None for one that changes more than that."""
    tuned = {*_OPTIONS}
    for each in result.configs:
        tuned |= each.config.get("kwargs", {}).keys()
    if not fallback.use.keys() <= tuned:
        return None
    settings = {**fallback.failing, **fallback.use}
    like = result.configs[0].config
    kwargs = {name: settings.get(name, value) for name, value in like.get("kwargs", {}).items()}
    options = {name: settings.get(name, value) for name, value in like.items() if name != "kwargs"}
    return {"kwargs": kwargs, **options}
