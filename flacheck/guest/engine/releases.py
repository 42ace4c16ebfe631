"""How Triton's releases differ, for everything else in this folder: the one place that knows."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .messages import Kernel, Mark

# Told a stage's name, its result and the compile's metadata.
AfterStage = Callable[[str, object, "dict[str, Any]"], None]


def install_driver(driver: Any) -> None:
    """Have Triton compile for what this driver says is there."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver as config

    driver.target_class = GPUTarget
    config.set_active(driver)


def time_once() -> None:
    """Have Triton's own benchmarks run what they time once: on a card that is not there all takes
    the same."""
    import triton.testing

    for name in ("do_bench", "do_bench_cudagraph"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, run_once)


def run_once(fn: Callable[[], object], *args: Any, **how: Any) -> Any:
    """In place of `do_bench`, in all of its forms."""
    fn()
    if how.get("quantiles"):
        times = [1.0] * len(how["quantiles"])
        if len(times) == 1:
            return times[0]
        return times
    if how.get("return_mode") == "all":
        return [1.0]
    return 1.0


def skip_library_hash(identity: str) -> None:
    """Let the release's identity stand for the hash of its files in every key of Triton's cache."""
    import triton.compiler.compiler
    import triton.runtime.autotuner
    import triton.runtime.cache

    # The hash reads a library of 300 MB; this process's cache is private and thrown away.
    for module in (triton.compiler.compiler, triton.runtime.cache, triton.runtime.autotuner):
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: identity


class StageReached(Exception):
    """The last stage asked for is done."""


def mark_stages(before: Mark, after: AfterStage) -> None:
    """Have `before` told of every compiler stage that begins, `after` of each that is done. Either
    ends the compile with `StageReached`."""
    from triton.backends import backends

    # From the registry: up to 3.2 it holds other copies of the classes than the import system.
    for backend in backends.values():
        backend.compiler.add_stages = _marked(backend.compiler.add_stages, before, after)


def _marked(add_stages: Callable[..., None], before: Mark, after: AfterStage) -> Any:
    def marked_stage(name: str, run: Callable[[Any, Any], object]) -> Any:
        def stage(src: Any, metadata: dict[str, Any]) -> object:
            before(name)
            result = run(src, metadata)
            after(name, result, metadata)
            return result

        return stage

    def add_marked_stages(self: Any, stages: dict[str, Any], *args: Any) -> None:
        add_stages(self, stages, *args)
        for name, run in list(stages.items()):
            stages[name] = marked_stage(name, run)

    return add_marked_stages


def watch_front_end(seen: Callable[[BaseException], None]) -> None:
    """Have `seen` told of an error of the front end before the compiler strips its own frames from
    the traceback."""
    import triton.compiler.compiler as compiler

    strip = compiler.filter_traceback

    def watched(error: BaseException) -> object:
        # The compiler strips the causes of an error by the same function.
        if error is sys.exc_info()[1]:
            seen(error)
        return strip(error)

    compiler.filter_traceback = watched


def end_before_stages() -> None:
    """Have every compile end where the front end has read the kernel."""

    def stop(stage: str) -> None:
        raise StageReached

    mark_stages(stop, lambda stage, result, metadata: None)


def front_end_error(
    run: Callable[..., Any], function: Kernel, arguments: Mapping[str, Any]
) -> Exception | None:
    """What the front end says against a launch, where every compile ends before its stages."""
    try:
        run(function, grid=None, warmup=True, **arguments)
    except StageReached:
        return None
    except Exception as error:
        # The error is the answer, and every release raises classes of its own.
        return error
    finally:
        forget_compiled(function)
    return None


def unwrap(kernel: Kernel) -> Kernel:
    """The JITFunction below autotuners and heuristics."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def strip_decorators(kernel: Kernel) -> Kernel:
    """What lies below autotuners and heuristics, in Triton's interpreter too."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    while isinstance(kernel, (Autotuner, Heuristics)):
        kernel = kernel.fn
    return kernel


def function_classes() -> Any:
    """Return the classes of functions that Triton compiles, interprets, or calls meanwhile."""
    import triton.runtime.jit as jit

    classes = [jit.JITFunction]
    # 3.5 brought a class for those that are called.
    if hasattr(jit, "ConstexprFunction"):
        classes.append(jit.ConstexprFunction)
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is not None:
        classes.append(interpreter.InterpretedFunction)
    return tuple(classes)


@contextlib.contextmanager
def without_launches(refusal: Exception) -> Iterator[None]:
    """Have `kernel[grid]` raise `refusal`: a launch takes options that name files."""
    from triton.runtime.jit import KernelInterface

    def refused(self: Any, grid: object) -> Any:
        raise refusal

    subscript = KernelInterface.__getitem__
    KernelInterface.__getitem__ = refused
    try:
        yield
    finally:
        KernelInterface.__getitem__ = subscript


def autotuner(kernel: Kernel) -> Kernel | None:
    """The Autotuner in a stack of decorators, or None."""
    from triton.runtime.autotuner import Autotuner

    while kernel is not None and not isinstance(kernel, Autotuner):
        kernel = getattr(kernel, "fn", None)
    return kernel


@contextlib.contextmanager
def restore_autotuner(tuner: Kernel) -> Iterator[None]:
    """Leave an autotuner as it was: a worker keeps its kernels for the requests that follow."""
    before = dict(tuner.__dict__)
    try:
        yield
    finally:
        tuner.__dict__.clear()
        tuner.__dict__.update(before)


def add_autotuner(function: Kernel, configs: list[Any]) -> Kernel:
    """A function without an autotuner of its own under the release's own one."""
    import triton

    return triton.autotune(configs=configs, key=[])(function)


def has_positional_keys(tuner: Kernel) -> bool:
    """Whether an autotuner's key holds arguments by position, as in 3.0 and 3.1: positions in the
    full argument list, looked up among those that were passed."""
    return hasattr(tuner, "key_idx")


def key_names(tuner: Kernel) -> list[str]:
    if has_positional_keys(tuner):
        return [tuner.arg_names[i] for i in tuner.key_idx]
    return list(tuner.keys)


def set_keys(tuner: Kernel, names: list[str]) -> None:
    """Have the key hold these arguments, and the dtypes that are always in it."""
    if has_positional_keys(tuner):
        tuner.key_idx = [tuner.arg_names.index(name) for name in names]
    else:
        tuner.keys = names


def replace_timing(tuner: Kernel, time: Callable[..., list[float]]) -> None:
    """Have `time(call)` stand for `do_bench(call)`."""
    import triton.runtime.autotuner as autotuner

    # A global up to 3.1, then the autotuner's own.
    if hasattr(autotuner, "do_bench"):
        autotuner.do_bench = time
    tuner.do_bench = time
    # Either would go round the timing: a graph is replayed, a result is read from a file.
    tuner.use_cuda_graph = tuner.cache_results = False


def watch_loading(seen: Callable[[Any], None]) -> None:
    """Have `seen(compiled)` called before a finished compile is checked and loaded."""
    from triton.compiler.compiler import CompiledKernel

    load = CompiledKernel._init_handles

    def watched(self: Any) -> object:
        seen(self)
        return load(self)

    CompiledKernel._init_handles = watched


def binary_handles(most_threads: int) -> tuple[int, ...]:
    """What `load_binary` returns: four values, or five where the loader wants the most threads."""
    from triton.compiler.compiler import CompiledKernel

    handles = (1, 1, 0, 0)
    if "n_max_threads" in _names(CompiledKernel._init_handles):
        return (*handles, most_threads)
    return handles


def _names(function: Any) -> set[str]:
    """The attributes that a function, or one that it was wrapped around, speaks of."""
    names = set(function.__code__.co_names)
    for cell in function.__closure__ or ():
        if inspect.isfunction(cell.cell_contents):
            names |= _names(cell.cell_contents)
    return names


def with_heuristics(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those that @triton.heuristics computes and the launch leaves out."""
    from triton.runtime.autotuner import Heuristics

    complete = dict(arguments)
    while hasattr(kernel, "fn"):
        if isinstance(kernel, Heuristics):
            for name, compute in kernel.values.items():
                # What was recorded holds: here tensors have neither a shape nor contents.
                if name not in complete:
                    complete[name] = compute(complete)
        kernel = kernel.fn
    return complete


@contextlib.contextmanager
def recorded_heuristics(kernel: Kernel, recorded: Mapping[str, Any]) -> Iterator[None]:
    """Have @triton.heuristics give what was recorded: here tensors have neither a shape nor
    contents, so a function that asks for either would be wrong or raise."""
    from triton.runtime.autotuner import Heuristics

    changed = []
    while hasattr(kernel, "fn"):
        if isinstance(kernel, Heuristics):
            changed.append((kernel, kernel.values))
            held = {name: _always(recorded[name]) for name in kernel.values if name in recorded}
            kernel.values = {**kernel.values, **held}
        kernel = kernel.fn
    try:
        yield
    finally:
        for heuristics, values in changed:
            heuristics.values = values


def _always(value: object) -> Callable[[Any], object]:
    return lambda arguments: value


def forget_compiled(function: Kernel) -> None:
    """Drop what the function keeps of finished compiles."""
    # `cache` up to 3.2, then `device_caches`.
    if not hasattr(function, "device_caches"):
        function.cache.clear()
        return
    for caches in function.device_caches.values():
        # What follows the two caches is the backend and the target, in an order of the release's.
        for cache in caches[:2]:
            if isinstance(cache, dict):
                cache.clear()


def tolerated_errors() -> tuple[type[BaseException], ...]:
    """What this release's Autotuner skips a configuration for, instead of ending the run."""
    import triton.runtime.autotuner as autotuner
    from triton.compiler.errors import CompileTimeAssertionFailure

    tolerated = [autotuner.OutOfResources, CompileTimeAssertionFailure]
    # 3.3 brought this one.
    if hasattr(autotuner, "PTXASError"):
        tolerated.append(autotuner.PTXASError)
    return tuple(tolerated)


def binary_folder() -> str:
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
