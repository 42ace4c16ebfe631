"""How Triton's releases differ, for everything else in this folder: the one place that knows."""

from __future__ import annotations

import inspect
import os


def target_class():
    from triton.backends.compiler import GPUTarget

    return GPUTarget


def install_driver(driver) -> None:
    from triton.runtime.driver import driver as config

    driver.target_class = target_class()
    config.set_active(driver)


def backends() -> list:
    """The compiler classes; up to 3.2 the registry holds another copy than the import system."""
    from triton.backends import backends as registry

    return [entry.compiler for entry in registry.values()]


def skip_library_hash(identity: str) -> None:
    """Triton hashes its 300 MB library into each cache key; our cache is private and thrown away."""
    import triton.compiler.compiler
    import triton.runtime.autotuner
    import triton.runtime.cache

    for module in (triton.compiler.compiler, triton.runtime.cache, triton.runtime.autotuner):
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: identity


def mark_stages(mark, until) -> None:
    """Have every compiler stage call `mark(name)` before it runs and `until(name, result, metadata)` after."""
    for backend in backends():
        backend.add_stages = _marked(backend.add_stages, mark, until)


def _marked(add_stages, mark, until):
    def marked(self, stages, *args):
        add_stages(self, stages, *args)
        for name, run in list(stages.items()):
            stages[name] = _stage(name, run, mark, until)

    return marked


def _stage(name, run, mark, until):
    def stage(src, metadata):
        mark(name)
        result = run(src, metadata)
        until(name, result, metadata)
        return result

    return stage


def unwrap(kernel):
    """The JITFunction below autotuners and heuristics."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def autotuner(kernel):
    """The Autotuner in a stack of decorators, or None."""
    from triton.runtime.autotuner import Autotuner

    while kernel is not None and not isinstance(kernel, Autotuner):
        kernel = getattr(kernel, "fn", None)
    return kernel


def with_heuristics(kernel, arguments: dict) -> dict:
    """The arguments with those that @triton.heuristics computes and the launch leaves out."""
    from triton.runtime.autotuner import Heuristics

    arguments = dict(arguments)
    while hasattr(kernel, "fn"):
        if isinstance(kernel, Heuristics):
            for name, compute in kernel.values.items():
                arguments.setdefault(name, compute(arguments))
        kernel = kernel.fn
    return arguments


def forget_compiled(function) -> None:
    """Drop what the function keeps of finished compiles: `cache` up to 3.2, then `device_caches`."""
    if hasattr(function, "device_caches"):
        for caches in function.device_caches.values():
            for cache in caches[:2]:
                if isinstance(cache, dict):
                    cache.clear()
    else:
        function.cache.clear()


def key_names(tuner) -> list[str]:
    """The names in an autotuner's key; 3.0 and 3.1 keep positions in the full argument list only."""
    if hasattr(tuner, "key_idx"):
        return [tuner.arg_names[i] for i in tuner.key_idx]
    return list(tuner.keys)


def tolerated_errors() -> tuple[type, ...]:
    """What this release's Autotuner skips a configuration for, instead of ending the run."""
    import triton.runtime.autotuner as autotuner
    from triton.compiler.errors import CompileTimeAssertionFailure

    names = [autotuner.OutOfResources, CompileTimeAssertionFailure, getattr(autotuner, "PTXASError", None)]
    return tuple(name for name in names if name is not None)


def accepts(function, name: str) -> bool:
    return name in inspect.signature(function).parameters


def binary_folder() -> str:
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
