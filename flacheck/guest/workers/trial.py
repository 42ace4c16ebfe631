"""One configuration under the release's own `Autotuner.run`: what does it make of it?

The whole way is the release's: `run`, `_bench`, `JITFunction.run`, the compile, and the check of a
finished compile against the card. Replaced are the timing, by one call; the launch and the loading
below it (see `driver`); and the hooks that fill tensors. What the release catches is skipped; what
it lets through, or kills the process, ends a run.
"""

from __future__ import annotations

from ..engine import releases
from . import values

_TRIED, _PASSED_BY = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]
_COMPILED: list = []


class Trial:
    """Stands for the timing, and for the function below an autotuner that tries the first of its
    configurations.
    """

    def __init__(self, tuner) -> None:
        self._tuner, self._function, self._bench = tuner, tuner.fn, tuner._bench
        self._current = None
        self.error: BaseException | None = None

    def __getattr__(self, name: str):
        return getattr(self._function, name)

    def time(self, call, *args, **kwargs) -> list:
        """In place of `do_bench`: the configuration on trial is launched once, the others are not."""
        if self._current is not self._tuner.configs[0]:
            return _PASSED_BY
        try:
            call()
        except BaseException as error:
            self.error = error
            raise
        return _TRIED

    def bench(self, *args, config, **kwargs):
        self._current = config
        return self._bench(*args, config=config, **kwargs)

    def run(self, *args, **kwargs):
        """The launch, also of the configuration that was chosen, unless it is one that was passed
        by.
        """
        return None if self.error is not None else self._function.run(*args, **kwargs)


def run(kernel, request: dict, language, loaded) -> dict:
    """Try the first of the launch's configurations; a second stands for the others that its
    autotuner has.

    Returns `resources`. An error of the compile is raised again with `skipped`, whether the release
    went on, and `resources`, where there are any.
    """
    launch, function = request["launch"], releases.unwrap(kernel)
    names = function.fn.__globals__
    configs = [_config(config, language, names) for config in launch["configs"]]
    if releases.autotuner(kernel) is None:
        kernel = releases.tuned(kernel, configs)
    arguments = {name: values.value(spec, language, names) for name, spec in launch["args"].items()}
    options = {
        name: value
        for name, value in request["options"].items()
        if name not in launch["configs"][0]
    }
    seen: dict = {}
    _COMPILED[:] = [lambda compiled: seen.update(loaded(compiled, request))]
    try:
        with releases.borrowed(releases.autotuner(kernel)) as tuner:
            trial = _prepare(tuner, configs)
            kernel.run(grid=(1, 1, 1), warmup=False, **{**options, **arguments})
    except BaseException as error:
        raise _told(error, False, seen)  # noqa: B904 the same error
    finally:
        _COMPILED.clear()
        releases.forget_compiled(function)
    if trial.error is not None:
        raise _told(trial.error, True, seen)
    return {"resources": seen}


def watch() -> None:
    """Once in a process: hear of finished compiles before they are loaded."""
    releases.watch_loading(lambda compiled: [seen(compiled) for seen in _COMPILED])


def _told(error: BaseException, skipped: bool, resources: dict) -> BaseException:
    error.skipped, error.resources = skipped, resources
    return error


def _config(config: dict, language, names):
    from triton import Config

    constants = {
        name: values.value({"constexpr": value}, language, names)
        for name, value in config["kwargs"].items()
    }
    return Config(**{**config, "kwargs": constants})


def _prepare(tuner, configs: list) -> Trial:
    tuner.configs = configs
    trial = Trial(tuner)
    tuner.fn, tuner._bench = trial, trial.bench
    tuner.early_config_prune = tuner.perf_model = (
        None  # done when the launch was recorded, with its tensors
    )
    tuner.cache = {}
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    releases.replace_timing(tuner, trial.time)
    releases.forget_keys(tuner)
    return trial
