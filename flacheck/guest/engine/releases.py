"""How Triton's releases differ, for everything else in this folder: the one place that knows."""

from __future__ import annotations

import contextlib
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
    """Have every compiler stage call `mark(name)` before it runs and `until(name, result,
    metadata)` after.
    """
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


def undecorated(kernel):
    """What lies below autotuners and heuristics: the JITFunction, or what stands for it in Triton's
    interpreter.
    """
    from triton.runtime.autotuner import Autotuner, Heuristics

    while isinstance(kernel, (Autotuner, Heuristics)):
        kernel = kernel.fn
    return kernel


def autotuner(kernel):
    """The Autotuner in a stack of decorators, or None."""
    from triton.runtime.autotuner import Autotuner

    while kernel is not None and not isinstance(kernel, Autotuner):
        kernel = getattr(kernel, "fn", None)
    return kernel


@contextlib.contextmanager
def borrowed(tuner):
    """An autotuner to change at will: afterwards it is what it was, for a worker keeps its kernels."""
    before = dict(tuner.__dict__)
    try:
        yield tuner
    finally:
        tuner.__dict__.clear()
        tuner.__dict__.update(before)


def tuned(function, configs: list):
    """A function without an autotuner of its own under the release's own one."""
    import triton

    return triton.autotune(configs=configs, key=[])(function)


def forget_keys(tuner) -> None:
    """Leave only dtypes in the key: 3.0 and 3.1 may fail to build it, whatever the configuration."""
    if hasattr(tuner, "key_idx"):
        tuner.key_idx = []
    else:
        tuner.keys = []


def replace_timing(tuner, time) -> None:
    """Have `time(call)` stand for `do_bench(call)`: a global up to 3.1, then the autotuner's own."""
    import triton.runtime.autotuner as autotuner

    if hasattr(autotuner, "do_bench"):
        autotuner.do_bench = time
    tuner.do_bench = time
    tuner.use_cuda_graph = tuner.cache_results = False


def watch_loading(seen) -> None:
    """Have `seen(compiled)` called before a finished compile is checked against the card and
    loaded.
    """
    from triton.compiler.compiler import CompiledKernel

    load = CompiledKernel._init_handles

    def watched(self):
        seen(self)
        return load(self)

    CompiledKernel._init_handles = watched


def loaded(most_threads: int) -> tuple:
    """What `load_binary` returns: four values, or five where the loader looks at the most threads
    of a block.
    """
    from triton.compiler.compiler import CompiledKernel

    handles = (1, 1, 0, 0)
    return (
        (*handles, most_threads)
        if "n_max_threads" in _names(CompiledKernel._init_handles)
        else handles
    )


def _names(function) -> set:
    """The attributes that a function, or one that it was wrapped around, speaks of."""
    inner = [
        cell.cell_contents
        for cell in function.__closure__ or ()
        if inspect.isfunction(cell.cell_contents)
    ]
    return set(function.__code__.co_names).union(*map(_names, inner))


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

    names = [
        autotuner.OutOfResources,
        CompileTimeAssertionFailure,
        getattr(autotuner, "PTXASError", None),
    ]
    return tuple(name for name in names if name is not None)


def accepts(function, name: str) -> bool:
    return name in inspect.signature(function).parameters


def binary_folder() -> str:
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
