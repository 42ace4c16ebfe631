"""Configurations that a kernel leaves out itself: what its decorator lists, less what reached the
autotuner's trials.

What is left was recorded when the kernel was launched, after `prune_configs_by` had seen the
tensors; the list is read off the loaded kernel. A kernel that was cut out of its file has lost its
list, and one that a matrix launches was never pruned: of these nothing is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.engine import loop
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Cell, Outcome, canonical
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import provider_of

# A kernel's list needs an import of its module, and no compile.
_SECONDS = 120.0
_OPTIONS = ("num_warps", "num_stages")
_Config = Mapping[str, Any]


def find_pruned_configs(
    plan: Plan, tuned: Sequence[TunedLaunch], memory_mb: int
) -> Mapping[str, list[_Config]]:
    """The configurations left out of each launch of which that is known, by its cell's key."""
    left_out: dict[str, list[_Config]] = {}
    provider = provider_of(plan, memory_mb)
    tasks = []
    for cell in [each.cell for each in tuned if _has_list(each)]:
        kind = provider.worker_kind(cell)
        if isinstance(kind, WorkerKind):
            tasks.append(Task(cell, kind, loop.request(replace(cell, stage="inspect"))))
    pool = LocalPool(1, lambda task: _SECONDS)
    try:
        pool.submit(tasks)
        for ended in pool.results():
            for task, attempt in ended:
                if attempt.outcome is Outcome.FINISHED:
                    left_out[task.name.key] = _left_out(attempt.facts["configs"], task.name)
    finally:
        pool.close()
    return left_out


def _has_list(tuned: TunedLaunch) -> bool:
    """Whether the kernel is loaded with its decorators, and its launch came past them."""
    asked = tuned.cell.stage == "autotune" and not tuned.by_matrix
    return asked and tuned.cell.kernel.is_of_package


def _left_out(listed: Sequence[_Config], cell: Cell) -> list[_Config]:
    assert cell.launch is not None
    kept = cell.launch.configs
    return [config for config in listed if not any(_is(config, other) for other in kept)]


def _is(listed: _Config, kept: _Config) -> bool:
    """Heuristics below the autotuner add to a kept configuration's constants."""
    for name, value in listed["kwargs"].items():
        if canonical(kept["kwargs"].get(name)) != canonical(value):
            return False
    return all(kept.get(name, listed[name]) == listed[name] for name in _OPTIONS)
