"""Configurations that a kernel leaves out itself: what its decorator lists, less what reached the
autotuner's trials.

What is left was recorded when the kernel was launched, after `prune_configs_by` had seen the
tensors; the list is read off the loaded kernel. A kernel that was cut out of its file has lost its
list, and one that a matrix launches was never pruned: of these nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flacheck.autotune.examined import Tuned
from flacheck.engine import loop as scan
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Outcome, canonical

_SECONDS = 120.0
_OPTIONS = ("num_warps", "num_stages")


def pruned(
    plan: Plan, tuned: Sequence[Tuned], memory_mb: int, progress: Callable[[str], None]
) -> Mapping[str, list[Mapping[str, Any]]]:
    """The configurations left out of each launch, by its cell's key."""
    out: dict[str, list[Mapping[str, Any]]] = {each.cell.key: [] for each in tuned}
    question = plan.question(memory_mb, False, _SECONDS, progress)
    tasks = [
        Task(each.cell, kind, scan.request(replace(each.cell, stage="inspect")))
        for each in tuned
        if _loadable(each) and isinstance(kind := question.kind_of(each.cell), WorkerKind)
    ]
    pool = LocalPool(1, lambda task: _SECONDS)
    try:
        pool.submit(tasks)
        for ended in pool.completed():
            for task, attempt in ended:
                if attempt.outcome is Outcome.FINISHED:
                    out[task.name.key] = _left_out(attempt.facts["configs"], task.name)
    finally:
        pool.close()
    return out


def _loadable(tuned: Tuned) -> bool:
    origin = tuned.cell.kernel.origin
    return (
        tuned.cell.stage == "autotune"
        and ("import" in origin or "module" in origin)
        and not tuned.by_matrix
    )


def _left_out(listed: Sequence[Mapping[str, Any]], cell: Cell) -> list[Mapping[str, Any]]:
    kept = cell.launch.configs if cell.launch else ()
    return [config for config in listed if not any(_is(config, other) for other in kept)]


def _is(listed: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Heuristics below the autotuner add to a kept configuration's constants."""
    constants = all(
        canonical(kept["kwargs"].get(name)) == canonical(v) for name, v in listed["kwargs"].items()
    )
    return constants and all(kept.get(name, listed[name]) == listed[name] for name in _OPTIONS)
