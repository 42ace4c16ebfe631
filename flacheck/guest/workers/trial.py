"""One configuration under the release's own `Autotuner.run`: what does it make of it?

The whole way is the release's: `run`, `_bench`, `JITFunction.run`, the compile, and the check of a
finished compile against the card. Replaced are the timing, by one call; the launch and the loading
below it (see `driver`); and the hooks that fill tensors. What the release catches is skipped; what
it lets through, or kills the process, ends a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine import releases
from ..engine.messages import Kernel, Reply, Request
from . import values

# Times in ms, as do_bench gives them: the configuration on trial is the fastest, so it is chosen.
_TRIED, _SKIPPED = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]
# Who hears of finished compiles now: nobody between two trials.
_listeners: list[Callable[[Any], None]] = []


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


def run(kernel: Kernel, request: Request, loaded: Callable[[Any], dict[str, Any]]) -> Reply:
    """Try the first of the launch's configurations; a second stands for the others that its
    autotuner has. `loaded` is told of a finished compile, and says its resources.

    Returns `resources`. An error of the compile is raised again with `skipped`, whether the release
    went on, and `resources`, where there are any.
    """
    launch, function = request["launch"], releases.unwrap(kernel)
    names = function.fn.__globals__
    configs = [_config(config, names) for config in launch["configs"]]
    if releases.autotuner(kernel) is None:
        kernel = releases.tuned(kernel, configs)
    tuner = releases.autotuner(kernel)
    # What the configuration says itself stands above the request's options.
    own = launch["configs"][0]
    arguments = {name: value for name, value in request["options"].items() if name not in own}
    arguments.update(values.arguments(launch["args"], names))
    resources: dict[str, Any] = {}
    _listeners.append(lambda compiled: resources.update(loaded(compiled)))
    try:
        with releases.borrowed(tuner):
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


def _config(config: dict[str, Any], names: dict[str, Any]) -> Any:
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
