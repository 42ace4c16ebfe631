"""Launches of the kernels that torch's Inductor writes.

Inductor's `CachingAutotuner` compiles its configurations itself, without a launch of a
`JITFunction`. On the imitated card nothing is compiled: each launch is recorded with all
configurations, and ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ..engine.driver import nothing
from .recorder import Recorder

HEURISTICS = "torch._inductor.runtime.triton_heuristics"
# The module of all kernels of Inductor in a launches file; their real modules are named by a hash
# of their text, and lie in a folder that is gone after the program.
MODULE = "inductor"


@dataclass
class _Launcher:
    """A stand-in for the launcher of a compiled configuration."""

    config: Any
    n_regs: int = 32
    n_spills: int = 0
    shared: int = 1024


def install(recorder: Recorder) -> None:
    """Record launches instead of compiling; call this after the import of the module."""
    heuristics = sys.modules[HEURISTICS]
    tuner_class: Any = getattr(heuristics, "CachingAutotuner")  # noqa: B009

    def run(tuner: Any, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        # `triton_` is the name of a kernel that Inductor writes for a benchmark only.
        is_candidate = bool(kwargs.get("benchmark_run")) or tuner.fn.fn.__name__ == "triton_"
        _record(recorder, heuristics, tuner, args, is_candidate)
        # Inductor reads the spills of a kernel that it has run.
        tuner.launchers = [_Launcher(tuner.configs[0])]

    tuner_class.run = run
    tuner_class.precompile = nothing


def _record(
    recorder: Recorder, heuristics: Any, tuner: Any, args: Sequence[Any], is_candidate: bool
) -> None:
    """Record one launch with all configurations of the tuner."""
    function = tuner.fn
    # A kernel's own module has a hash for a name.
    function.fn.__module__ = MODULE
    launches = []
    for config in tuner.configs:
        values, extents = _bind(heuristics, tuner, config, args)
        launches.append((config, values, extents))
    recorder.launch_configs(function, launches, is_candidate)


def _bind(
    heuristics: Any, tuner: Any, config: Any, args: Sequence[Any]
) -> tuple[dict[str, Any], list[int]]:
    """Return the kernel's arguments by name under a configuration, and the grid."""
    function = tuner.fn
    meta = tuner._create_compile_meta(config)
    constants = meta["constants"]
    place = SimpleNamespace(compile_meta=meta, config=config, inductor_meta=tuner.inductor_meta)
    _, names, _ = heuristics.CompileResult._get_arg_lists(
        place, function.arg_names, heuristics.get_constexprs(function)
    )
    passed = dict(zip(names, args))
    values = {}
    for name in function.arg_names:
        if name in passed:
            values[name] = passed[name]
        elif name in constants:
            values[name] = constants[name]
    grid = heuristics.GridExpr.from_meta(tuner.inductor_meta, config)
    extents = grid.eval_slow({**constants, **passed})
    return values, list(extents)
