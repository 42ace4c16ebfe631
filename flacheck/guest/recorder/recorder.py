"""Sits before the compiler: sees every launch on its way through heuristics and autotuner, and
writes it down.

On the fake device a launch ends here. On a real one it goes on, after it was written.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from dataclasses import dataclass, field

from ..engine import releases
from ..workers.cut import Cutter, handed
from . import described, grids, memory
from .origin import Origins

_SWITCHES = ("grid", "warmup")


@dataclass
class _Call:
    """One launch by the host: what it passed, and what the layers on the way add."""

    passed: set
    heuristics: dict = field(default_factory=dict)
    tuner: object = None
    config: object = None
    trials: list = field(default_factory=list)


@dataclass(frozen=True)
class _Trial:
    """The launch as it arrives at the compiler, under one configuration; `given_grid` is what the
    host gave, `grid` what that comes to, for the first configuration.
    """

    function: object
    bound: dict
    args: dict
    functions: dict
    options: dict
    config: object
    inner: dict
    grid: list | None
    given_grid: object


class Launched:
    """Stands for a compiled kernel on the fake device."""

    n_regs = n_spills = shared = 0
    num_warps = 4

    def __init__(self) -> None:
        self.asm = collections.defaultdict(str)
        self.metadata = collections.namedtuple("metadata", "shared num_warps name")(0, 4, "")

    def __getitem__(self, grid):
        return lambda *args, **kwargs: None

    def _init_handles(self) -> None: ...


class Recorder:
    """`calls` and `kernels` count launches; `during` is a remark for the lines that follow.

    `launched` is told the arguments of each launch that ended here; `followed` says after which
    guess of a value a launch came.
    """

    def __init__(self, journal, real: bool) -> None:
        self._journal, self._real = journal, real
        self._local = threading.local()
        self._originals: list = []
        self._cutter = Cutter()
        self._origins: Origins | None = None
        self._settings = journal._settings
        self.calls = 0
        self.kernels: collections.Counter = collections.Counter()
        self.during: str | None = None
        self.launched = _nobody
        self.followed = _nothing

    def install(self) -> None:
        """Put a layer before the `run` of kernels, autotuners and heuristics."""
        from triton.runtime.autotuner import Autotuner, Heuristics
        from triton.runtime.jit import JITFunction

        self._origins = Origins(self._settings.packages)
        for kind, layer in (
            (JITFunction, self._kernel),
            (Autotuner, self._autotuner),
            (Heuristics, self._heuristics),
        ):
            self._originals.append((kind, kind.run))
            kind.run = _method(layer, kind.run)

    def remove(self) -> None:
        for kind, run in self._originals:
            kind.run = run
        self._originals.clear()
        self._journal.flush()

    @contextlib.contextmanager
    def _call(self, layer, args, kwargs):
        """The launch in progress on this thread; the outermost layer opens it."""
        current = getattr(self._local, "call", None)
        if current is not None:
            yield current
            return
        self._local.call = _Call(
            set(layer.arg_names[: len(args)]) | (set(kwargs) & set(layer.arg_names))
        )
        try:
            yield self._local.call
        finally:
            self._local.call = None

    @contextlib.contextmanager
    def _muted(self):
        before, self._local.muted = getattr(self._local, "muted", False), True
        try:
            yield
        finally:
            self._local.muted = before

    def _heuristics(self, run, layer, args, kwargs):
        with self._call(layer, args, kwargs) as call:
            inside = call.tuner is not None
            call.heuristics |= dict.fromkeys(layer.values, inside)
            return run(layer, *args, **kwargs)

    def _autotuner(self, run, layer, args, kwargs):
        if getattr(self._local, "muted", False):
            return run(layer, *args, **kwargs)
        with self._call(layer, args, kwargs) as call:
            outermost = call.tuner is None
            call.tuner = call.tuner or layer
            result = self._tried(call, layer, args, kwargs)
            if outermost:
                self._write(call)
            if not self._real:
                return result
        with self._muted():
            return run(layer, *args, **kwargs)

    def _tried(self, call, tuner, args, kwargs):
        """Each configuration that the tuner would try, up to the compiler and no further."""
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configs = (
            list(tuner.prune_configs(kwargs)) if len(tuner.configs) > 1 else list(tuner.configs)
        )
        result = None
        for config in configs:
            call.config = config
            if config.pre_hook is not None:
                config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
            result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        call.config = None
        tuner.best_config = configs[0]
        tuner.nargs = None
        return result

    def _kernel(self, run, function, args, kwargs):
        if getattr(self._local, "muted", False):
            return run(function, *args, **kwargs)
        with self._call(function, args, kwargs) as call:
            self._arrived(call, function, args, kwargs)
            tuned = call.tuner is not None
            if not tuned:
                self._write(call)
        if self._real and not tuned:
            return run(function, *args, **kwargs)
        self.launched([*args, *kwargs.values()])
        return Launched()

    def _arrived(self, call, function, args, kwargs) -> None:
        bound = dict(zip(function.arg_names, args))
        bound |= {name: value for name, value in kwargs.items() if name in function.arg_names}
        options = {
            name: value
            for name, value in kwargs.items()
            if name not in bound and name not in _SWITCHES
        }
        inner = {
            name: bound[name]
            for name, inside in call.heuristics.items()
            if inside and name in bound
        }
        given = kwargs.get("grid")
        grid = None if call.trials else grids.extents(given, function, bound)
        functions = handed(function, bound)
        args = _given(call, function, bound, functions)
        call.trials.append(
            _Trial(function, bound, args, functions, options, call.config, inner, grid, given)
        )

    def _write(self, call) -> None:
        """One line for the configurations that see the same arguments: hooks may change those."""
        groups: dict = {}
        for trial in call.trials:
            groups.setdefault(repr(trial.args), []).append(trial)
        for trials in groups.values():
            self._write_group(call, trials)

    def _write_group(self, call, trials) -> None:
        trial = trials[0]
        function, args = trial.function, trial.args
        place = self._origins.place(function.fn)
        omitted = [name for name in function.arg_names if name in trial.bound and name not in args]
        launch = {"args": args, "omitted": omitted}
        if call.tuner is not None:
            launch |= {
                "configs": [_config(t) for t in trials],
                "keys": releases.key_names(call.tuner),
            }
        given = trial.options.keys() - (trial.config.all_kwargs().keys() if trial.config else set())
        line = {
            "kernel": place.name,
            "package": place.package,
            "qualname": function.fn.__name__,
            "launch": {name: value for name, value in launch.items() if value or name == "args"},
            "options": {name: described.constant(trial.options[name]) for name in sorted(given)},
            "grid": trial.grid,
        }
        outer = [
            name for name, inside in call.heuristics.items() if not inside and name in trial.bound
        ]
        if outer:
            line["heuristics"] = {
                name: _described(trial.bound[name], True, trial.functions) for name in outer
            }
        self.calls += 1
        self.kernels[place.name] += 1
        cut = self._cutter.cut(function, trial.functions)
        line["source"] = cut.digest
        remarks = {"by": self.during, "uncut": cut.reason, "guessed": self.followed()}
        self._journal.launch(line, cut.digest, cut.text, remarks, lambda: _sizes(call, trials))


def _nobody(arguments) -> None:
    """Who is told of launches on a real device, where memory holds what they wrote."""


def _nothing() -> None:
    """No value is made up on a real device."""


def _method(layer, run):
    def method(self, *args, **kwargs):
        return layer(run, self, args, kwargs)

    return method


def _given(call, function, bound, functions) -> dict:
    """What the host passed, described before the next configuration's hook can change it."""
    constants = {param.name for param in function.params if param.is_constexpr}
    tuned = set(call.config.kwargs) if call.config else set()
    given = [name for name in function.arg_names if name in bound and name in call.passed - tuned]
    return {name: _described(bound[name], name in constants, functions) for name in given}


def _described(value, constexpr: bool, functions):
    return (
        {"constexpr": described.constant(value, functions)}
        if constexpr
        else described.argument(value, functions)
    )


def _config(trial) -> dict:
    """A configuration with what heuristics below the autotuner make of it."""
    entry = described.configuration(trial.config, trial.functions)
    inner = {
        name: described.constant(value, trial.functions) for name, value in trial.inner.items()
    }
    return {**entry, "kwargs": {**entry["kwargs"], **inner}}


def _sizes(call, trials) -> dict:
    """What it takes to launch the same again, beside the launch: the grid of each configuration,
    and the tensors.
    """
    first = trials[0]
    found = memory.laid_out({name: first.bound[name] for name in first.args})
    if call.tuner is None:
        return found
    return {"grids": grids.of_each(trials, call.trials[0]), **found}
