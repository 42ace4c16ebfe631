"""The release's own `Autotuner.run`, with only its timing replaced. `autotune` passes over a launch
twice. The first time arguments remember their names and the launch is caught below the autotuner,
so that the key the autotuner really built can be read off name by name. The second time they are
plain, and the configuration that is chosen is compiled. `attempt` asks what the release makes of
one configuration: `run`, `_bench`, `JITFunction.run`, the compile, and the check of a finished
compile against the card. Replaced are the timing, by one call; the launch and the loading below it
(see `driver`); and the hooks that fill tensors. What the release catches is skipped; what it lets
through, or kills the process, ends a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..engine import releases
from ..engine.messages import ArgumentSpec, Kernel, Reply, Request
from . import values

# Times in ms, as do_bench gives them: the configuration on trial is the fastest, so it is chosen.
_TRIED, _SKIPPED = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]
# Who hears of finished compiles now: nobody between two trials.
_listeners: list[Callable[[Any], None]] = []


class _Caught:
    """Stands for the function below the autotuner; a launch goes no further."""

    def __init__(self, function: Kernel) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def run(self, *args: object, **kwargs: object) -> None: ...


def autotune(kernel: Kernel, request: Request) -> Reply:
    """Both passes. Raises TypeError for a kernel without an autotuner, and what Triton raises."""
    tuner = releases.autotuner(kernel)
    if tuner is None:
        raise TypeError("the kernel has no @triton.autotune")
    launch = request["launch"]
    with releases.restore_autotuner(tuner), _as_recorded(kernel, launch):
        _use_configs(tuner, launch)
        entries = _keys(kernel, tuner, _tagged(launch["args"]))
        try:
            kernel.run(grid=None, warmup=True, **values.arguments(launch["args"]))
        except releases.StageReached:
            pass  # the chosen configuration is compiled as far as was asked
        finally:
            releases.forget_compiled(releases.unwrap(kernel))
            tuner.cache.clear()
        return {"stage": "autotune", "facts": {"keys": entries, "configs": len(tuner.configs)}}


def keys(kernel: Kernel, request: Request) -> Reply:
    """The first pass alone: what stands in the key that the release builds; nothing is compiled."""
    launch = request["launch"]
    tuner = releases.autotuner(kernel)
    if tuner is None:  # the function was cut out without it
        tuner = kernel = releases.add_autotuner(kernel, [])
        named = [name for name in launch.get("keys", ()) if name in tuner.arg_names]
        releases.set_keys(tuner, named)
    arguments = _tagged(launch["args"])
    with releases.restore_autotuner(tuner), _as_recorded(kernel, launch):
        _use_configs(tuner, launch)
        return {"stage": "keys", "facts": {"keys": _keys(kernel, tuner, arguments)}}


def describe(kernel: Kernel) -> dict[str, Any]:
    """Arguments, configurations and key of a kernel, as its decorators declare them."""
    tuner = releases.autotuner(kernel)
    declared: dict[str, Any] = {"arguments": list(releases.unwrap(kernel).arg_names)}
    if tuner is None:
        return {**declared, "configs": [], "keys": []}
    configs = []
    for config in tuner.configs:
        options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        configs.append({"kwargs": dict(config.kwargs), **options})
    return {**declared, "configs": configs, "keys": releases.key_names(tuner)}


def _as_recorded(kernel: Kernel, launch: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Heuristics above the autotuner give what they gave when the launch was recorded."""
    names = releases.unwrap(kernel).fn.__globals__
    recorded = values.arguments(launch.get("heuristics", {}), names)
    return releases.recorded_heuristics(kernel, recorded)


def _use_configs(tuner: Kernel, launch: dict[str, Any]) -> None:
    from triton import Config

    if launch.get("configs"):
        tuner.configs = [Config(**config) for config in launch["configs"]]


def _tagged(specs: dict[str, ArgumentSpec]) -> dict[str, Any]:
    """The arguments, of which integers and tensors know their names."""
    arguments = values.arguments(specs)
    for name, value in arguments.items():
        if type(value) is int:
            arguments[name] = values.Named(name, value)
        elif isinstance(value, values.Pointer):
            value.name = name
    return arguments


def _keys(kernel: Kernel, tuner: Kernel, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """For each name in the key: `want` it, `got` the argument whose value the release took, and the
    `fault`: `shifted`, `past-end`, or None."""
    # The arguments that reach the autotuner, with those of heuristics above it, in order.
    given, above = set(arguments), kernel
    while above is not tuner:
        given |= set(getattr(above, "values", ()))
        above = above.fn
    pairs = _pairs(tuner, [name for name in tuner.arg_names if name in given])
    tuner._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]
    # Hooks fill tensors, and there are none.
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    function, tuner.fn = tuner.fn, _Caught(tuner.fn)
    try:
        kernel.run(grid=None, warmup=True, **arguments)
    except IndexError as error:
        vars(error)["facts"] = {"keys": [_entry(want, got) for want, got in pairs]}
        raise
    finally:
        tuner.fn = function
    built = next(iter(tuner.cache), ())
    tuner.cache.clear()
    # One configuration: the release builds no key, and no entry comes out.
    return [_entry(want, getattr(value, "name", got)) for (want, got), value in zip(pairs, built)]


def _pairs(tuner: Kernel, passed: list[str]) -> list[tuple[str, str | None]]:
    """Each name in the key with the argument that stands there, for values without a name."""
    if not releases.has_positional_keys(tuner):
        return [(name, name) for name in tuner.keys if name in passed]
    by_position = dict(enumerate(passed))
    return [(tuner.arg_names[i], by_position.get(i)) for i in tuner.key_idx]


def _entry(want: str, got: str | None) -> dict[str, Any]:
    fault = None
    if got is None:
        fault = "past-end"
    elif got != want:
        fault = "shifted"
    return {"key": want, "want": want, "got": got, "fault": fault}


class TunerTrial:
    """Stands for the timing and for the function below an autotuner on trial."""

    def __init__(self, tuner: Kernel) -> None:
        self._tuner, self._function, self._bench = tuner, tuner.fn, tuner._bench
        self._current: Any = None
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def time(self, call: Callable[[], object], *args: object, **kwargs: object) -> list[float]:
        """In place of `do_bench`: only the configuration on trial is launched, once."""
        if self._current is not self._tuner.configs[0]:
            return _SKIPPED
        try:
            call()
        except BaseException as error:
            self.error = error
            raise
        return _TRIED

    def bench(self, *args: Any, config: Any, **kwargs: Any) -> Any:
        """In place of `_bench`, which calls the timing."""
        self._current = config
        return self._bench(*args, config=config, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The launch, also of the configuration that was chosen, unless the trial failed: then
        that is one of those that were not tried."""
        if self.error is not None:
            return None
        return self._function.run(*args, **kwargs)


def attempt(kernel: Kernel, request: Request, loaded: Callable[[Any], dict[str, Any]]) -> Reply:
    """Try the first of the launch's configurations; a second stands for the others that its
    autotuner has. `loaded` is told of a finished compile, and says its resources. Returns
    `resources`. An error of the compile is raised again with `skipped`, whether the release went
    on, and `resources`, where there are any."""
    launch, function = request["launch"], releases.unwrap(kernel)
    names = function.fn.__globals__
    configs = [_built(config, names) for config in launch["configs"]]
    if releases.autotuner(kernel) is None:
        kernel = releases.add_autotuner(kernel, configs)
    tuner = releases.autotuner(kernel)
    # What the configuration says itself stands above the request's options.
    own = launch["configs"][0]
    arguments = {name: value for name, value in request["options"].items() if name not in own}
    arguments.update(values.arguments(launch["args"], names))
    resources: dict[str, Any] = {}
    _listeners.append(lambda compiled: resources.update(loaded(compiled)))
    try:
        with releases.restore_autotuner(tuner), _as_recorded(kernel, launch):
            trial = _prepare(tuner, configs)
            kernel.run(grid=(1, 1, 1), warmup=False, **arguments)
    except BaseException as error:
        vars(error).update(skipped=False, resources=resources)
        raise
    finally:
        _listeners.clear()
        releases.forget_compiled(function)
    if trial.error is not None:
        vars(trial.error).update(skipped=True, resources=resources)
        raise trial.error
    return {"resources": resources}


def watch() -> None:
    """Once in a process: hear of finished compiles before they are loaded."""

    def heard(compiled: Any) -> None:
        for listener in _listeners:
            listener(compiled)

    releases.watch_loading(heard)


def _built(config: dict[str, Any], names: dict[str, Any]) -> Any:
    from triton import Config

    return Config(**{**config, "kwargs": values.constants(config["kwargs"], names)})


def _prepare(tuner: Kernel, configs: list[Any]) -> TunerTrial:
    """Have the autotuner try these configurations, and nothing but the compile happen."""
    tuner.configs = configs
    trial = TunerTrial(tuner)
    tuner.fn, tuner._bench = trial, trial.bench
    # Pruning was done when the launch was recorded, with its tensors.
    tuner.early_config_prune = tuner.perf_model = None
    tuner.cache = {}
    # Hooks fill tensors, and there are none.
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    releases.replace_timing(tuner, trial.time)
    # 3.0 and 3.1 may fail to build a key, whatever the configuration: only dtypes stay in it.
    releases.set_keys(tuner, [])
    return trial
