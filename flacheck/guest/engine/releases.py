"""The differences between Triton's releases, for all other modules of the guest."""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .messages import Kernel, Mark

# Called with a stage's name, its result and the compile's metadata.
AfterStage = Callable[[str, object, "dict[str, Any]"], None]


def install_driver(driver: Any) -> None:
    """Make Triton compile for the card of this driver."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver as config

    driver.target_class = GPUTarget
    config.set_active(driver)


def time_once() -> None:
    """Replace Triton's own benchmarks by ones that run the function once.

    On an imitated card everything takes the same time.
    """
    import triton.testing

    for name in ("do_bench", "do_bench_cudagraph"):
        if hasattr(triton.testing, name):
            setattr(triton.testing, name, run_once)


def run_once(fn: Callable[[], object], *args: Any, **how: Any) -> Any:
    """Run a function once and return constant times, in any form of `do_bench`."""
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
    """Use the release's identity instead of the hash of its files in Triton's cache keys."""
    import triton.compiler.compiler
    import triton.runtime.autotuner
    import triton.runtime.cache

    # The hash reads a library of 300 MB, and this process's cache is private and deleted.
    for module in (triton.compiler.compiler, triton.runtime.cache, triton.runtime.autotuner):
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: identity


class StageReached(Exception):
    """Raised at the end of the last requested stage."""


def mark_stages(before: Mark, after: AfterStage) -> None:
    """Call `before` at the start of every compiler stage and `after` at its end.

    Both may end the compile with `StageReached`.
    """
    from triton.backends import backends

    # From the registry, because up to 3.2 its classes are other copies than those of the import
    # system.
    for backend in backends.values():
        backend.compiler.add_stages = _mark(backend.compiler.add_stages, before, after)


def _mark(add_stages: Callable[..., None], before: Mark, after: AfterStage) -> Any:
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


def watch_front_end(on_error: Callable[[BaseException], None]) -> None:
    """Call `on_error` with each error of the front end while it has the compiler's frames.

    The compiler removes its own frames from the traceback afterwards.
    """
    import triton.compiler.compiler as compiler

    strip = compiler.filter_traceback

    def wrapper(error: BaseException) -> object:
        # The compiler removes frames from the causes of an error with the same function.
        if error is sys.exc_info()[1]:
            on_error(error)
        return strip(error)

    compiler.filter_traceback = wrapper


def end_before_stages() -> None:
    """End every compile as soon as the front end has read the kernel."""
    import triton.compiler.compiler as compiler

    def stop(stage: str) -> None:
        raise StageReached

    mark_stages(stop, lambda stage, result, metadata: None)
    # Some releases store what the front end has read before the first stage.
    setattr(compiler, "get_cache_manager", _EmptyCache)  # noqa: B010


class _EmptyCache:
    """A cache of compiled kernels that has none, and ends a compile that stores one."""

    def __init__(self, key: str) -> None: ...

    def get_group(self, filename: str) -> None:
        """Return None: the group was not stored."""

    def put(self, *content: object, **options: object) -> None:
        raise StageReached


def front_end_error(
    run: Callable[..., Any], function: Kernel, arguments: Mapping[str, Any]
) -> Exception | None:
    """Return the front end's error about a launch, None without one.

    Every compile must end before its stages (`end_before_stages`).
    """
    try:
        run(function, grid=None, warmup=True, **arguments)
    except StageReached:
        return None
    except Exception as error:
        # The error is the result, and every release raises classes of its own.
        return error
    finally:
        forget_compiled(function)
    return None


@contextlib.contextmanager
def typed_expressions() -> Iterator[dict[tuple[Any, ...], dict[str, Any] | None]]:
    """Collect the type of each expression of a kernel while the code generator reads it.

    The key is the kind of the node and its position in the function's source. An expression that is
    read twice, as in an unrolled loop, has a type only if both times agree.
    """
    from triton.compiler.code_generator import CodeGenerator

    types: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    visit = CodeGenerator.visit

    def typed_visit(self: Any, node: ast.AST) -> Any:
        value = visit(self, node)
        # The generator makes nodes without a position, and reads helpers with other generators.
        if self.is_kernel and isinstance(node, ast.expr) and hasattr(node, "lineno"):
            end = (node.end_lineno, node.end_col_offset)
            position = (type(node).__name__, node.lineno, node.col_offset, *end)
            kind = _describe_type(value)
            types[position] = kind if types.get(position, kind) == kind else None
        return value

    CodeGenerator.visit = typed_visit
    try:
        yield types
    finally:
        CodeGenerator.visit = visit


def _describe_type(value: Any) -> dict[str, Any] | None:
    """Return the type of a value of the front end; None for a function, a module or a tuple."""
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.dtype):
        return {"kind": "dtype", "name": _dtype_name(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"kind": "constant", "name": repr(value)}
    if not isinstance(value, tl.tensor):
        return None
    kind = value.type
    if kind.is_ptr() and kind.element_ty.is_block():
        block = kind.element_ty
        return {
            "kind": "block pointer",
            "name": _dtype_name(block.element_ty),
            "shape": _extents(block),
        }
    if kind.is_block():
        return {"kind": "tensor", "name": _dtype_name(kind.element_ty), "shape": _extents(kind)}
    return {"kind": "tensor", "name": _dtype_name(kind), "shape": []}


def _dtype_name(kind: Any) -> str:
    if kind.is_ptr():
        return f"*{kind.element_ty}"
    return str(kind)


def _extents(block: Any) -> list[int]:
    # In some releases a shape holds constexpr values.
    return [int(getattr(extent, "value", extent)) for extent in block.shape]


def unwrap(kernel: Kernel) -> Kernel:
    """Return the JITFunction below autotuners and heuristics."""
    from triton.runtime.jit import JITFunction

    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def strip_decorators(kernel: Kernel) -> Kernel:
    """Return the function below autotuners and heuristics, in Triton's interpreter too."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    while isinstance(kernel, (Autotuner, Heuristics)):
        kernel = kernel.fn
    return kernel


def function_classes() -> Any:
    """Return the classes of functions that Triton compiles, interprets, or calls meanwhile."""
    import triton.runtime.jit as jit

    classes = [jit.JITFunction]
    # 3.5 has a class for functions that are called at compile time.
    if hasattr(jit, "ConstexprFunction"):
        classes.append(jit.ConstexprFunction)
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is not None:
        classes.append(interpreter.InterpretedFunction)
    return tuple(classes)


@contextlib.contextmanager
def without_launches(refusal: Exception) -> Iterator[None]:
    """Make `kernel[grid]` raise `refusal`, because a launch takes options that name files."""
    from triton.runtime.jit import KernelInterface

    def refuse(self: Any, grid: object) -> Any:
        raise refusal

    subscript = KernelInterface.__getitem__
    KernelInterface.__getitem__ = refuse
    try:
        yield
    finally:
        KernelInterface.__getitem__ = subscript


def autotuner(kernel: Kernel) -> Kernel | None:
    """Return the Autotuner in a stack of decorators, or None."""
    from triton.runtime.autotuner import Autotuner

    while kernel is not None and not isinstance(kernel, Autotuner):
        kernel = getattr(kernel, "fn", None)
    return kernel


@contextlib.contextmanager
def restore_autotuner(tuner: Kernel) -> Iterator[None]:
    """Restore an autotuner on exit: a worker keeps its kernels for later requests."""
    before = dict(tuner.__dict__)
    try:
        yield
    finally:
        tuner.__dict__.clear()
        tuner.__dict__.update(before)


def add_autotuner(function: Kernel, configs: list[Any]) -> Kernel:
    """Return a function without an autotuner under the release's own autotuner."""
    import triton

    return triton.autotune(configs=configs, key=[])(function)


def has_positional_keys(tuner: Kernel) -> bool:
    """Return True if an autotuner's key holds arguments by position, as in 3.0 and 3.1.

    Those are positions in the full argument list, applied to the list of passed arguments.
    """
    return hasattr(tuner, "key_idx")


def key_names(tuner: Kernel) -> list[str]:
    if has_positional_keys(tuner):
        return [tuner.arg_names[i] for i in tuner.key_idx]
    return list(tuner.keys)


def set_keys(tuner: Kernel, names: list[str]) -> None:
    """Set the arguments in the key; their dtypes are always in it."""
    if has_positional_keys(tuner):
        tuner.key_idx = [tuner.arg_names.index(name) for name in names]
    else:
        tuner.keys = names


def replace_timing(tuner: Kernel, time: Callable[..., list[float]]) -> None:
    """Use `time(call)` instead of `do_bench(call)`."""
    import triton.runtime.autotuner as autotuner

    # Up to 3.1 it is a global, later an attribute of the autotuner.
    if hasattr(autotuner, "do_bench"):
        autotuner.do_bench = time
    tuner.do_bench = time
    # Both would bypass the timing: a graph is replayed, a result is read from a file.
    tuner.use_cuda_graph = tuner.cache_results = False


def watch_loading(on_compiled: Callable[[Any], None]) -> None:
    """Call `on_compiled` with each finished compile before it is checked and loaded."""
    from triton.compiler.compiler import CompiledKernel

    load = CompiledKernel._init_handles

    def wrapper(self: Any) -> object:
        on_compiled(self)
        return load(self)

    CompiledKernel._init_handles = wrapper


def binary_handles(most_threads: int) -> tuple[int, ...]:
    """Return the values that `load_binary` returns.

    They are the module, the function, registers and spills, and since 3.4 the maximum of threads if
    the loader reads it.
    """
    from triton.compiler.compiler import CompiledKernel

    handles = (1, 1, 0, 0)
    if "n_max_threads" in _names(CompiledKernel._init_handles):
        return (*handles, most_threads)
    return handles


def _names(function: Any) -> set[str]:
    """Return the names that a function, or a function that it wraps, uses as attributes."""
    names = set(function.__code__.co_names)
    for cell in function.__closure__ or ():
        if inspect.isfunction(cell.cell_contents):
            names |= _names(cell.cell_contents)
    return names


def with_heuristics(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those that @triton.heuristics adds to the launch."""
    from triton.runtime.autotuner import Heuristics

    complete = dict(arguments)
    while hasattr(kernel, "fn"):
        if isinstance(kernel, Heuristics):
            for name, compute in kernel.values.items():
                # Recorded values win: here tensors have neither a shape nor contents.
                if name not in complete:
                    complete[name] = compute(complete)
        kernel = kernel.fn
    return complete


@contextlib.contextmanager
def recorded_heuristics(kernel: Kernel, recorded_values: Mapping[str, Any]) -> Iterator[None]:
    """Make @triton.heuristics return the values that were recorded.

    Here tensors have neither a shape nor contents, so a function that reads either would be wrong
    or raise.
    """
    from triton.runtime.autotuner import Heuristics

    originals = []
    while hasattr(kernel, "fn"):
        if isinstance(kernel, Heuristics):
            originals.append((kernel, kernel.values))
            functions = dict(kernel.values)
            for name in functions.keys() & recorded_values.keys():
                functions[name] = _always(recorded_values[name])
            kernel.values = functions
        kernel = kernel.fn
    try:
        yield
    finally:
        for heuristics, values in originals:
            heuristics.values = values


def _always(value: object) -> Callable[[Any], object]:
    return lambda arguments: value


def forget_compiled(function: Kernel) -> None:
    """Drop the finished compiles that the function keeps."""
    # `cache` up to 3.2, then `device_caches`.
    if not hasattr(function, "device_caches"):
        function.cache.clear()
        return
    for caches in function.device_caches.values():
        # The backend and the target follow the two caches, in an order that depends on the release.
        for cache in caches[:2]:
            if isinstance(cache, dict):
                cache.clear()


def tolerated_errors() -> tuple[type[BaseException], ...]:
    """Return the errors for which this release's Autotuner skips a configuration."""
    import triton.runtime.autotuner as autotuner
    from triton.compiler.errors import CompileTimeAssertionFailure

    error_classes = [autotuner.OutOfResources, CompileTimeAssertionFailure]
    # This class exists since 3.3.
    if hasattr(autotuner, "PTXASError"):
        error_classes.append(autotuner.PTXASError)
    return tuple(error_classes)


def binary_folder() -> str:
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
