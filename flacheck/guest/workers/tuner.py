"""The release's own `Autotuner.run`, with only its timing replaced.

`autotune` runs a launch twice. In the first pass the arguments carry their names and the launch is
caught below the autotuner, so that the key which the autotuner built can be read name by name. In
the second pass the arguments are plain, and the chosen configuration is compiled.

`attempt` tries one configuration with the release: `run`, `_bench`, `JITFunction.run`, the compile,
and the check of a finished compile against the card. The timing is replaced by one call, the launch
and the loading below it by stand-ins (see `driver`), and hooks, which fill tensors, by nothing. An
error that the release catches skips the configuration; any other error, or a dead process, ends a
run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..engine import releases
from ..engine.messages import ArgumentSpec, Json, Kernel, Reply, Request
from . import values

# Times in ms, as do_bench returns them: the configuration on trial is the fastest, so it is chosen.
_TRIAL_TIMES, _OTHER_TIMES = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]
# The current callbacks for finished compiles: none between two trials.
_listeners: list[Callable[[Any], None]] = []


class _CaughtFunction:
    """A stand-in for the function below the autotuner; a launch ends here."""

    def __init__(self, function: Kernel) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def run(self, *args: object, **kwargs: object) -> None: ...


def autotune(kernel: Kernel, request: Request) -> Reply:
    """Run both passes. Raises Triton's own errors."""
    launch = request["launch"]
    kernel, tuner = _with_autotuner(kernel, launch)
    with releases.restore_autotuner(tuner), _as_recorded(kernel, launch):
        _use_configs(tuner, launch)
        entries = _keys(kernel, tuner, _name_arguments(launch["args"]))
        try:
            arguments = values.arguments(launch["args"])
            kernel.run(grid=None, warmup=True, **arguments)
        except releases.StageReached:
            pass  # the chosen configuration is compiled up to the requested stage
        finally:
            releases.forget_compiled(releases.unwrap(kernel))
            tuner.cache.clear()
        facts = {"keys": entries, "configs": len(tuner.configs)}
        return {"stage": "autotune", "facts": facts}


def keys(kernel: Kernel, request: Request) -> Reply:
    """Run the first pass alone: return the key that the release builds, compile nothing."""
    launch = request["launch"]
    kernel, tuner = _with_autotuner(kernel, launch)
    arguments = _name_arguments(launch["args"])
    with releases.restore_autotuner(tuner), _as_recorded(kernel, launch):
        _use_configs(tuner, launch)
        entries = _keys(kernel, tuner, arguments)
        return {"stage": "keys", "facts": {"keys": entries}}


def _with_autotuner(kernel: Kernel, launch: Json) -> tuple[Kernel, Kernel]:
    """Return a kernel with an autotuner, and that autotuner.

    A function that was cut out lacks its autotuner, and so does a function that its program wraps
    elsewhere: `tuned = triton.autotune(…)(kernel)`.
    """
    tuner = releases.autotuner(kernel)
    if tuner is not None:
        return kernel, tuner
    tuner = releases.add_autotuner(kernel, [])
    key_names = [name for name in launch.get("keys", ()) if name in tuner.arg_names]
    releases.set_keys(tuner, key_names)
    return tuner, tuner


def describe(kernel: Kernel) -> Json:
    """Return the arguments, configurations and key that a kernel's decorators declare."""
    tuner = releases.autotuner(kernel)
    argument_names = list(releases.unwrap(kernel).arg_names)
    declaration: Json = {"arguments": argument_names}
    if tuner is None:
        return {**declaration, "configs": [], "keys": []}
    configs = []
    for config in tuner.configs:
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        configs.append({"kwargs": dict(config.kwargs), **options})
    declaration["configs"] = configs
    declaration["keys"] = releases.key_names(tuner)
    return declaration


def _as_recorded(kernel: Kernel, launch: Json) -> contextlib.AbstractContextManager[None]:
    """Make heuristics above the autotuner return their recorded values."""
    names = releases.unwrap(kernel).fn.__globals__
    heuristic_values = values.arguments(launch.get("heuristics", {}), names)
    return releases.recorded_heuristics(kernel, heuristic_values)


def _use_configs(tuner: Kernel, launch: Json) -> None:
    from triton import Config

    if launch.get("configs"):
        tuner.configs = [Config(**config) for config in launch["configs"]]


def _name_arguments(specs: dict[str, ArgumentSpec]) -> Json:
    """Return the arguments; integers and tensors carry their names."""
    arguments = values.arguments(specs)
    for name, value in arguments.items():
        if type(value) is int:
            arguments[name] = values.Named(name, value)
        elif isinstance(value, values.Pointer):
            value.name = name
    return arguments


def _keys(kernel: Kernel, tuner: Kernel, arguments: Json) -> list[Json]:
    """Return, for each name in the key, the argument whose value the release took.

    `want` is the name, `got` the argument, and `fault` is `shifted`, `past-end`, or None.
    """
    # The arguments that reach the autotuner in order, with those of heuristics above it.
    names, above = set(arguments), kernel
    while above is not tuner:
        names |= set(getattr(above, "values", ()))
        above = above.fn
    argument_names = [name for name in tuner.arg_names if name in names]
    pairs = _pairs(tuner, argument_names)
    tuner._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]
    # Hooks fill tensors, and there are none.
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    function, tuner.fn = tuner.fn, _CaughtFunction(tuner.fn)
    try:
        kernel.run(grid=None, warmup=True, **arguments)
    except IndexError as error:
        entries = [_entry(want, got) for want, got in pairs]
        vars(error)["facts"] = {"keys": entries}
        raise
    finally:
        tuner.fn = function
    key = next(iter(tuner.cache), ())
    tuner.cache.clear()
    # With a single configuration the release builds no key, so the list is empty.
    entries = []
    for (want, got), value in zip(pairs, key):
        name = getattr(value, "name", got)
        entries.append(_entry(want, name))
    return entries


def _pairs(tuner: Kernel, argument_names: list[str]) -> list[tuple[str, str | None]]:
    """Return each name in the key with the argument at its position.

    A value without a name is taken for that argument.
    """
    if not releases.has_positional_keys(tuner):
        return [(name, name) for name in tuner.keys if name in argument_names]
    by_position = dict(enumerate(argument_names))
    pairs = []
    for index in tuner.key_idx:
        name = tuner.arg_names[index]
        pairs.append((name, by_position.get(index)))
    return pairs


def _entry(want: str, got: str | None) -> Json:
    fault = None
    if got is None:
        fault = "past-end"
    elif got != want:
        fault = "shifted"
    return {"key": want, "want": want, "got": got, "fault": fault}


class TunerTrial:
    """A stand-in for the timing and for the function below an autotuner on trial."""

    def __init__(self, tuner: Kernel) -> None:
        self._tuner = tuner
        self._function = tuner.fn
        self._bench = tuner._bench
        self._current: Any = None
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def time(self, call: Callable[[], object], *args: object, **kwargs: object) -> list[float]:
        """Launch the configuration on trial once, and skip all others; replaces `do_bench`."""
        if self._current is not self._tuner.configs[0]:
            return _OTHER_TIMES
        with contextlib.ExitStack() as stack:
            stack.push(self._note_error)
            call()
        return _TRIAL_TIMES

    def _note_error(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.error = error

    def bench(self, *args: Any, config: Any, **kwargs: Any) -> Any:
        """Note the configuration and call the timing; replaces `_bench`."""
        self._current = config
        return self._bench(*args, config=config, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the chosen configuration, unless the trial failed.

        After a failure the autotuner chooses a configuration that was not tried.
        """
        if self.error is not None:
            return None
        return self._function.run(*args, **kwargs)


def attempt(kernel: Kernel, request: Request, on_compiled: Callable[[Any], Json]) -> Reply:
    """Try the first of the launch's configurations; return its `resources`.

    A second configuration stands for all others of the autotuner. `on_compiled` is called with a
    finished compile and returns its resources. An error of the compile is raised again with
    `skipped`, True if the release went on, and `resources`, if available.
    """
    launch, function = request["launch"], releases.unwrap(kernel)
    names = function.fn.__globals__
    configs = [_build_config(config, names) for config in launch["configs"]]
    if releases.autotuner(kernel) is None:
        kernel = releases.add_autotuner(kernel, configs)
    tuner = releases.autotuner(kernel)
    # The configuration's own options override the request's.
    own = launch["configs"][0]
    arguments = dict(request["options"])
    for name in own.keys() & arguments.keys():
        del arguments[name]
    arguments.update(values.arguments(launch["args"], names))
    resources: Json = {}
    _listeners.append(lambda compiled: resources.update(on_compiled(compiled)))

    def mark(_: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            vars(error).update(skipped=False, resources=resources)

    with contextlib.ExitStack() as stack:
        stack.callback(releases.forget_compiled, function)
        stack.callback(_listeners.clear)
        stack.push(mark)
        stack.enter_context(releases.restore_autotuner(tuner))
        stack.enter_context(_as_recorded(kernel, launch))
        trial = _prepare(tuner, configs)
        kernel.run(grid=(1, 1, 1), warmup=False, **arguments)
    if trial.error is not None:
        vars(trial.error).update(skipped=True, resources=resources)
        raise trial.error
    return {"resources": resources}


def watch() -> None:
    """Report finished compiles before they are loaded; call this once in a process."""

    def notify(compiled_kernel: Any) -> None:
        for listener in _listeners:
            listener(compiled_kernel)

    releases.watch_loading(notify)


def _build_config(config: Json, names: Json) -> Any:
    from triton import Config

    arguments = dict(config)
    arguments["kwargs"] = values.constants(config["kwargs"], names)
    return Config(**arguments)


def _prepare(tuner: Kernel, configs: list[Any]) -> TunerTrial:
    """Make the autotuner try these configurations and do nothing but compile."""
    tuner.configs = configs
    trial = TunerTrial(tuner)
    tuner.fn, tuner._bench = trial, trial.bench
    # The launch was pruned when it was recorded, with its tensors.
    tuner.early_config_prune = tuner.perf_model = None
    tuner.cache = {}
    # Hooks fill tensors, and there are none.
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    releases.replace_timing(tuner, trial.time)
    # 3.0 and 3.1 may fail to build a key with any configuration, so only dtypes stay in the key.
    releases.set_keys(tuner, [])
    return trial
