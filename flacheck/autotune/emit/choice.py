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

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@dataclass(frozen=True)
class Choice:
    """A kernel with the configurations that run everywhere, the best estimate first; `failing` says
    why there are none where there are none. `results` are what was examined of it.
    """

    kernel: str
    results: Sequence[TunerResult]
    configs: Sequence[Mapping[str, Any]]

    @property
    def where(self) -> str:
        """Where they run: `triton==3.1.0, triton==3.2.0 on sm90`."""
        toolchains = dict.fromkeys(result.toolchain for result in self.results)
        targets = dict.fromkeys(result.target for result in self.results)
        return f"{', '.join(toolchains)} on {', '.join(targets)}"


def choices(results: Sequence[TunerResult]) -> list[Choice]:
    """One for each kernel with configurations; what fails everywhere is replaced by its nearest
    fallback, if that is a matter of configurations alone.
    """
    tried = grouped((result.kernel, result) for result in results if result.configs)
    return [Choice(kernel, found, _configs(found)) for kernel, found in tried.items()]


def _configs(results: Sequence[TunerResult]) -> list[Mapping[str, Any]]:
    runs = [
        {canonical(each.config): each for each in result.configs if each.fate is Fate.RUNS}
        for result in results
    ]
    common = [each for key, each in runs[0].items() if all(key in other for other in runs[1:])]
    dropped = {
        canonical(result.configs[place].config)
        for result in results
        if result.cost
        for place in result.cost.droppable
    }
    kept = [each for each in common if canonical(each.config) not in dropped] or common
    return [each.config for each in sorted(kept, key=_rank)] or _fallbacks(results)


def _rank(examined: ExaminedConfig) -> tuple[bool, float]:
    """One that spills comes last, whatever is estimated of its tiles."""
    return bool(examined.record.resources.get("spills")), examined.estimate


def _fallbacks(results: Sequence[TunerResult]) -> list[Mapping[str, Any]]:
    """Fallbacks that change nothing but a configuration and compile at every place, nearest first."""
    places = {(result.toolchain, result.target) for result in results}
    pairs = [(result, fallback) for result in results for fallback in result.fallbacks]
    found = [configuration(result, each) for result, each in pairs if places <= set(each.places)]
    return list({canonical(config): config for config in found if config is not None}.values())


def configuration(result: TunerResult, fallback: Fallback) -> Mapping[str, Any] | None:
    """A fallback as a configuration; None for one that changes more than that."""
    tuned = {name for each in result.configs for name in each.config.get("kwargs", {})} | set(
        _OPTIONS
    )
    if not set(fallback.use) <= tuned:
        return None
    return _changed({**fallback.failing, **fallback.use}, result.configs[0].config)


def _changed(settings: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration like another one, with these settings in it."""
    kwargs = {name: settings.get(name, value) for name, value in like.get("kwargs", {}).items()}
    options = {name: settings.get(name, value) for name, value in like.items() if name != "kwargs"}
    return {"kwargs": kwargs, **options}
