"""The configurations that a kernel prunes itself: its decorator's list without the ones tried.

A launch records the configurations after `prune_configs_by` has seen the tensors; the list is read
from the loaded kernel. A kernel that was cut out of its file has lost its list, and a launch from a
matrix was never pruned: both are left out.
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

# Reading a kernel's list imports its module, without a compile.
_SECONDS = 120.0
_OPTIONS = ("num_warps", "num_stages")
_Config = Mapping[str, Any]


def find_pruned_configs(
    plan: Plan, tuned_launches: Sequence[TunedLaunch], memory_mb: int
) -> Mapping[str, list[_Config]]:
    """Return the pruned configurations of launches with a known list, by the key of the cell."""
    by_key: dict[str, list[_Config]] = {}
    provider = provider_of(plan, memory_mb)
    tasks = []
    for tuned_launch in tuned_launches:
        if not has_list(tuned_launch):
            continue
        cell = tuned_launch.cell
        kind = provider.worker_kind(cell)
        if isinstance(kind, WorkerKind):
            tasks.append(Task(cell, kind, loop.request(replace(cell, stage="inspect"))))
    pool = LocalPool(1, lambda task: _SECONDS)
    try:
        pool.submit(tasks)
        for batch in pool.results():
            for task, attempt in batch:
                if attempt.outcome is Outcome.FINISHED:
                    by_key[task.name.key] = left_out_configs(attempt.facts["configs"], task.name)
    finally:
        pool.close()
    return by_key


def has_list(tuned_launch: TunedLaunch) -> bool:
    """Return True if the worker loads the kernel with the decorators that pruned the launch."""
    is_pruned = tuned_launch.cell.stage == "autotune" and not tuned_launch.by_matrix
    return is_pruned and tuned_launch.cell.kernel.is_of_package


def left_out_configs(all_configs: Sequence[_Config], cell: Cell) -> list[_Config]:
    """Return the configurations of the list that the launch does not have."""
    assert cell.launch is not None
    pruned_configs = []
    for config in all_configs:
        if not any(_is_same(config, other) for other in cell.launch.configs):
            pruned_configs.append(config)
    return pruned_configs


def _is_same(config: _Config, of_launch: _Config) -> bool:
    """Compare the constants of `config` only, because heuristics add more to a launch."""
    for name, value in config["kwargs"].items():
        if canonical(of_launch["kwargs"].get(name)) != canonical(value):
            return False
    return all(of_launch.get(name, config[name]) == config[name] for name in _OPTIONS)
