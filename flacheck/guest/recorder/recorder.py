"""A layer before the compiler: it records each launch behind heuristics and autotuner.

On the fake device a launch ends here. On a real device it goes on afterwards.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..engine import releases
from ..engine.driver import nothing
from ..engine.messages import Json, Kernel
from ..workers.cut import CutResult, Cutter, passed_functions
from ..workers.removed_api import collecting_parameter
from .call_path import CallPaths
from .forms import Same, UnkeyableValue
from .journal import Journal
from .launch_description import (
    Functions,
    Identities,
    argument,
    configuration,
    constant,
    is_unknown,
    memory_layout,
)
from .places import Places
from .refusals import check, is_option
from .repeated_launches import SWITCHES, Key, RepeatedLaunches, WrittenLaunch

Run = Callable[..., Any]
Args = Sequence[Any]
Kwargs = dict[str, Any]
# A layer is called with the original `run`, its `self`, and its arguments.
Layer = Callable[[Run, Any, Args, Kwargs], Any]

# Called with a kernel's name, its function and its arguments.
Arrival = Callable[[str, Kernel, Mapping[str, Any]], None]

_MOST_EXTENTS = 3
# Errors of a grid that is called for a configuration which the host never used.
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError)


@dataclass(frozen=True)
class _ConfiguredLaunch:
    """A launch as it arrives at the compiler, under one configuration.

    `bound` are its arguments, `args` the descriptions of those that the host passed, `inner` the
    values of heuristics below the autotuner. `grid` is the host's grid, `extents` its value for the
    first configuration.
    """

    function: Kernel
    bound: Kwargs
    args: Kwargs
    functions: Functions
    options: Kwargs
    config: Any
    inner: Kwargs
    grid: Any
    extents: list[int] | None


@dataclass
class _HostCall:
    """A launch by the host, with the arguments that heuristics and autotuners add to it.

    `host_names` are the names that the host passed. `heuristics` maps the names from heuristics to
    True if those are below an autotuner.
    """

    host_names: set[str]
    heuristics: dict[str, bool] = field(default_factory=dict)
    tuner: Kernel | None = None
    config: Any = None
    is_candidate: bool = False
    launches: list[_ConfiguredLaunch] = field(default_factory=list)


class _UnkeyedTuner(NamedTuple):
    """A tuner that chooses a configuration for each kernel, and not for keys of its arguments."""

    keys: tuple[str, ...] = ()


class _ThreadsLaunch(threading.local):
    """The launch in progress on a thread, and a switch that turns recording off."""

    call: _HostCall | None = None
    is_muted = False


# A compiled kernel's use of the card, which is unknown before the compile. Programs divide by these
# numbers, so they are those of a typical small kernel and never 0.
_REGISTERS, _SHARED = 32, 1024


class _Metadata(NamedTuple):
    shared: int = _SHARED
    num_warps: int = 4
    name: str = ""


class FakeCompiledKernel:
    """A stand-in for a compiled kernel on the fake device."""

    n_regs, n_spills, shared = _REGISTERS, 0, _SHARED
    n_max_threads = 1024
    num_warps = 4
    # Handles of the driver.
    function = module = 0
    hash = name = ""

    def __init__(
        self, options: Mapping[str, Any], launch: Callable[[object, Args], None] = nothing
    ) -> None:
        self.asm: dict[str, str] = collections.defaultdict(str)
        self.num_warps = options.get("num_warps", self.num_warps)
        self.metadata = _Metadata(num_warps=self.num_warps)
        self._launch = launch

    def __getitem__(self, grid: object) -> Callable[..., None]:
        # Triton's own takes a stream by name.
        return lambda *args, **kwargs: self._launch(grid, args)

    def _init_handles(self) -> None: ...


class Recorder:
    """The recorder of launches.

    `calls` and `kernels` count launches, `arrivals` the configurations described for them. `during`
    is a remark for the following lines. `after_fake_launch` is called with the arguments of each
    launch that ended here. Once a launch is written, `on_launch` is called with the kernel's name
    and its arguments by name, and `on_arrival` with the function as well. `current_guess` returns
    the guessed value on which a launch may depend. On a real device, where memory holds the
    kernels' results, `after_fake_launch` and `current_guess` do nothing.

    `records_unlaunchable` is True if a launch of a kernel that no release can launch is recorded,
    and the program goes on. Otherwise the launch raises Triton's error.
    """

    def __init__(self, journal: Journal, packages: Mapping[str, str], real: bool) -> None:
        self.journal, self._real = journal, real
        self._thread = _ThreadsLaunch()
        self._originals: list[tuple[Any, Run]] = []
        self._cutter = Cutter()
        self._repeated = RepeatedLaunches()
        # Functions with the names of arguments that their launchers accept.
        self._accepted_calls: set[Key] = set()
        # The `run` of kernels with this recorder's layer, once it is installed.
        self._kernels_run: Run | None = None
        self._identities = Identities(packages)
        self.paths = CallPaths(self._identities, packages.values())
        self._places = Places(self._identities, journal.output)
        self.calls = self.arrivals = 0
        self.kernels: collections.Counter[str] = collections.Counter()
        # The kernels of which Triton rejects a launch, with its message.
        self.rejections: dict[str, str] = {}
        self.during: str | None = None
        self.records_unlaunchable = False
        self.after_fake_launch: Callable[[Iterable[Any]], None] = nothing
        self.current_guess: Callable[[], str | None] = nothing
        # Called where the program's code may have been ended at any point.
        self.hold_card: Callable[[], None] = nothing
        self.on_launch: Callable[[str, Mapping[str, Any]], None] = nothing
        self.on_arrival: Arrival = nothing

    def install(self) -> None:
        """Put a layer before the `run` of kernels, autotuners and heuristics."""
        from triton.runtime.autotuner import Autotuner, Heuristics
        from triton.runtime.jit import JITFunction

        layers = {
            JITFunction: self._kernel,
            Autotuner: self._autotuner,
            Heuristics: self._heuristics,
        }
        for kind, layer in layers.items():
            self._originals.append((kind, kind.run))
            kind.run = _method(layer, kind.run)
        self._kernels_run = JITFunction.run

    def remove(self) -> None:
        for kind, run in self._originals:
            kind.run = run
        self._originals.clear()
        self.journal.flush()

    @contextlib.contextmanager
    def _call(self, layer: Any, args: Args, kwargs: Kwargs) -> Iterator[_HostCall]:
        """Yield the launch in progress on this thread; the outermost layer opens it."""
        if self._thread.call is not None:
            yield self._thread.call
            return
        host_names = set(layer.arg_names[: len(args)])
        host_names |= kwargs.keys() & set(layer.arg_names)
        self._thread.call = _HostCall(host_names)
        try:
            yield self._thread.call
        finally:
            self._thread.call = None

    def _heuristics(self, run: Run, layer: Kernel, args: Args, kwargs: Kwargs) -> Any:
        with self._call(layer, args, kwargs) as call:
            call.heuristics |= dict.fromkeys(layer.values, call.tuner is not None)
            return run(layer, *args, **kwargs)

    def _autotuner(self, run: Run, tuner: Kernel, args: Args, kwargs: Kwargs) -> Any:
        if self._thread.is_muted:
            return run(tuner, *args, **kwargs)
        with self._call(tuner, args, kwargs) as call:
            outermost = call.tuner is None
            call.tuner = call.tuner or tuner
            tuner.nargs = dict(zip(tuner.arg_names, args))
            configs = list(tuner.configs)
            if len(configs) > 1:
                configs = list(tuner.prune_configs(kwargs))
            if outermost:
                result = self._run(call, tuner, configs, args, kwargs)
            else:
                result = self._try_configs(call, tuner, configs, args, kwargs)
            if not self._real:
                return result
        # Now the real run: the tuner times its configurations, which are already written.
        self._thread.is_muted = True
        try:
            return run(tuner, *args, **kwargs)
        finally:
            self._thread.is_muted = False

    def _run(
        self,
        call: _HostCall,
        tuner: Kernel,
        configs: Sequence[Any],
        args: Args,
        kwargs: Kwargs,
    ) -> Any:
        """Record one run of the outermost autotuner."""
        key, first = self._key_of_run(call, tuner, configs, args, kwargs)
        earlier = self._repeated.find(key)
        if earlier is not None:
            _leave(tuner, configs)
            self.after_fake_launch([*args, *kwargs.values()])
            self._count_again(earlier, first)
            return FakeCompiledKernel(earlier.options)
        result = self._try_configs(call, tuner, configs, args, kwargs)
        self._repeated.keep(key, self._write(call))
        return result

    def _try_configs(
        self,
        call: _HostCall,
        tuner: Kernel,
        configs: Sequence[Any],
        args: Args,
        kwargs: Kwargs,
    ) -> Any:
        """Run each configuration that the tuner would try, up to the compiler."""
        result = None
        for config in configs:
            call.config = config
            _call_hook(tuner, config, kwargs)
            options = config.all_kwargs()
            result = tuner.fn.run(*args, **kwargs, **options)
        call.config = None
        _leave(tuner, configs)
        return result

    def _key_of_run(
        self,
        call: _HostCall,
        tuner: Kernel,
        configs: Sequence[Any],
        args: Args,
        kwargs: Kwargs,
    ) -> tuple[Key | None, Kwargs]:
        """Return the run's key and the kernel's arguments under the first configuration.

        The key is None if an argument is unkeyable. If the key was written before, Triton on the
        card would tune nothing: it calls the hook of one configuration only and launches that.
        """
        function = tuner.fn
        # Heuristics below the autotuner compute a value for each configuration, and packages add
        # layers of their own there.
        if getattr(function.run, "__func__", None) is not self._kernels_run:
            return None, {}
        first_kwargs = dict(kwargs)
        first_kwargs.update(configs[0].all_kwargs())
        first = _bind(function, args, first_kwargs)
        parts = _parts(call, function)
        try:
            self._repeated.add_configs(configs, parts)
            self._repeated.add_arguments(function, args, kwargs, parts)
            if configs[0].pre_hook is not None:
                _call_hook(tuner, configs[0], kwargs)
                self._repeated.add_arguments(function, args, kwargs, parts)
        except UnkeyableValue:
            return None, first
        if not self._real:
            # Before the grid is called, as in Triton.
            self._check(function, args, first_kwargs)
        extents = _extents(kwargs.get("grid"), function, first)
        return (*parts, _frozen(extents)), first

    def _kernel(self, run: Run, function: Kernel, args: Args, kwargs: Kwargs) -> Any:
        if self._thread.is_muted:
            return run(function, *args, **kwargs)
        if not self._real:
            self._check(function, args, kwargs)
        with self._call(function, args, kwargs) as call:
            is_tuned = call.tuner is not None
            if is_tuned:
                self._add_launch(call, function, args, kwargs)
            else:
                self._launch(call, function, args, kwargs)
        if self._real and not is_tuned:
            return run(function, *args, **kwargs)
        self.after_fake_launch([*args, *kwargs.values()])
        if is_tuned:
            return FakeCompiledKernel(kwargs)
        return FakeCompiledKernel(kwargs, _relaunch(function, args, kwargs))

    def _check(self, function: Kernel, args: Args, kwargs: Kwargs) -> None:
        """Raise Triton's error for a launch that Triton would reject, and note it."""
        names = Same(function), len(args), tuple(kwargs)
        if names in self._accepted_calls:
            return
        try:
            check(function, len(args), kwargs)
        except (KeyError, TypeError) as error:
            name = self._identities.of(function.fn)[0]
            self.rejections[name] = f"{type(error).__name__}: {error.args[0]}"
            if not self.records_unlaunchable or collecting_parameter(function) is None:
                raise
        self._accepted_calls.add(names)

    def _launch(self, call: _HostCall, function: Kernel, args: Args, kwargs: Kwargs) -> None:
        """Record a launch without an autotuner."""
        bound = _bind(function, args, kwargs)
        parts = _parts(call, function)
        key: Key | None = None
        try:
            self._repeated.add_arguments(function, args, kwargs, parts)
            extents = _extents(kwargs.get("grid"), function, bound)
            key = (*parts, _frozen(extents))
        except UnkeyableValue:
            pass
        earlier = self._repeated.find(key)
        if earlier is not None:
            self._count_again(earlier, bound)
            return
        self._add_launch(call, function, args, kwargs)
        self._repeated.keep(key, self._write(call))
        # A tuner of the program's own may continue with the next configuration.
        call.launches.clear()

    def _count_again(self, launch: WrittenLaunch, bound: Kwargs) -> None:
        """Record one more of a launch whose lines are written."""
        self.calls += len(launch.identities)
        self.kernels[launch.kernel] += len(launch.identities)
        # The result is not used, but without the call the guesses would pile up.
        self.current_guess()
        path = self.paths.of_launch(launch.package)
        for identity in launch.identities:
            self.journal.again(identity, path)
        self.on_arrival(launch.kernel, launch.function, bound)
        self.on_launch(launch.kernel, bound)

    def _add_launch(self, call: _HostCall, function: Kernel, args: Args, kwargs: Kwargs) -> None:
        bound = _bind(function, args, kwargs)
        options = {}
        for name, value in kwargs.items():
            if name not in bound and name not in SWITCHES:
                options[name] = value
        inner = {}
        for name, is_below_tuner in call.heuristics.items():
            if is_below_tuner and name in bound:
                inner[name] = bound[name]
        grid, extents = kwargs.get("grid"), None
        if not call.launches:
            extents = _extents(grid, function, bound)
        functions = passed_functions(function, bound)
        # Described now, because the next configuration's hook may change the arguments.
        descriptions = _repeated_descriptions(call, function, bound)
        if descriptions is None:
            descriptions = _describe_arguments(call, function, bound, functions)
        self.arrivals += 1
        launch = _ConfiguredLaunch(
            function=function,
            bound=bound,
            args=descriptions,
            functions=functions,
            options=options,
            config=call.config,
            inner=inner,
            grid=grid,
            extents=extents,
        )
        call.launches.append(launch)

    def _write(self, call: _HostCall) -> WrittenLaunch:
        """Write a line for each group of configurations with the same arguments.

        Hooks may change the arguments between configurations.
        """
        groups: dict[str, list[_ConfiguredLaunch]] = {}
        last_args: Kwargs | None = None
        text = ""
        for launch in call.launches:
            if launch.args is not last_args:
                last_args = launch.args
                text = repr(last_args)
            groups.setdefault(text, []).append(launch)
        identities = []
        for group in groups.values():
            identity = self._write_group(call, group)
            identities.append(identity)
        first, last = call.launches[0], call.launches[-1]
        kernel, package = self._identities.of(first.function.fn)
        self.on_arrival(kernel, first.function, first.bound)
        self.on_launch(kernel, first.bound)
        return WrittenLaunch(
            function=first.function,
            kernel=kernel,
            package=package,
            identities=tuple(identities),
            options=last.options,
        )

    def launch_configs(
        self,
        function: Kernel,
        launches: Sequence[tuple[Any, Kwargs, list[int]]],
        is_candidate: bool = False,
    ) -> None:
        """Record a launch of a tuner that is not Triton's.

        Args:
            function: The kernel.
            launches: Each configuration with all arguments by name and the grid's extents.
            is_candidate: True if the program tries several kernels for the launch.
        """
        first_config, first_values, _ = launches[0]
        host_names = first_values.keys() - first_config.kwargs.keys()
        call = _HostCall(set(host_names), tuner=_UnkeyedTuner(), is_candidate=is_candidate)
        for config, values, extents in launches:
            call.config = config
            kwargs = {**values, **config.all_kwargs(), "grid": extents}
            self._add_launch(call, function, (), kwargs)
        self._write(call)
        self.after_fake_launch(first_values.values())

    def refusal(self, function: Kernel, arguments: Mapping[str, Any]) -> Exception | None:
        """Return the error of Triton's front end for a launch, or None; compile nothing."""
        from triton.runtime.jit import JITFunction

        run = dict(self._originals)[JITFunction]
        return releases.front_end_error(run, function, arguments)

    def cut(self, function: Kernel, functions: Functions) -> CutResult:
        """Return the source of a kernel; `functions` are those that a launch passes."""
        return self._cutter.cut(function, functions)

    def _write_group(self, call: _HostCall, group: list[_ConfiguredLaunch]) -> str:
        """Write the line of a group and return its identity."""
        first = group[0]
        # The options of the host, without those of the configuration.
        host_options = set(first.options)
        if first.config is not None:
            host_options -= first.config.all_kwargs().keys()
        options = {}
        for option in sorted(host_options):
            description = constant(first.options[option], {})
            # A value that an absent package would compute: the compiler's default remains.
            if not is_unknown(description):
                options[option] = description
        name, package = self._identities.of(first.function.fn)
        line = {
            "kernel": name,
            "package": package,
            "qualname": first.function.fn.__name__,
            "launch": _launch(call, group),
            "options": options,
            "grid": first.extents,
        }
        outer = {}
        for heuristic, is_below_tuner in call.heuristics.items():
            if heuristic in first.bound and not is_below_tuner:
                value = constant(first.bound[heuristic], first.functions)
                outer[heuristic] = {"constexpr": value}
        if outer:
            line["heuristics"] = outer
        self.calls += 1
        self.kernels[name] += 1
        cut = self.cut(first.function, first.functions)
        line["source"] = cut.digest
        remarks = {
            "by": self.during,
            "uncut": cut.reason,
            "candidate": call.is_candidate or None,
            "guessed": self.current_guess(),
        }
        path = self.paths.of_launch(package)
        definitions = self._places.of(cut.functions)
        sizes = functools.partial(_sizes, call, group)
        return self.journal.launch(line, cut.text, remarks, sizes, path, definitions)


def _relaunch(function: Kernel, args: Args, kwargs: Kwargs) -> Callable[[object, Args], None]:
    """Return a function that launches a compiled kernel, which has its constants and options.

    It takes the grid and the arguments, all or those that are no constants. Others are ignored.
    """
    bound = _bind(function, args, kwargs)
    constants = {each.name: bound.get(each.name) for each in function.params if each.is_constexpr}
    options = {name: value for name, value in kwargs.items() if name not in bound}
    names = [each.name for each in function.params]
    variable_names = [name for name in names if name not in constants]

    def launch(grid: object, arguments: Args) -> None:
        for given in (names, variable_names):
            if len(arguments) == len(given):
                values = {**constants, **dict(zip(given, arguments)), **options}
                function.run(**{**values, "grid": grid, "warmup": False})
                return

    return launch


def _method(layer: Layer, run: Run) -> Run:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return layer(run, self, args, kwargs)

    return method


def _call_hook(tuner: Kernel, config: Any, kwargs: Kwargs) -> None:
    if config.pre_hook is not None:
        arguments = {**tuner.nargs, **kwargs}
        arguments.update(config.all_kwargs())
        config.pre_hook(arguments)


def _leave(tuner: Kernel, configs: Sequence[Any]) -> None:
    """Leave the tuner in its state after a run: hosts read its best configuration."""
    tuner.best_config = configs[0]
    tuner.nargs = None


def _bind(function: Kernel, args: Args, kwargs: Kwargs) -> Kwargs:
    names = set(function.arg_names)
    collects_constants = collecting_parameter(function) is not None
    bound = dict(zip(function.arg_names, args))
    for name, value in kwargs.items():
        if name in names:
            bound[name] = value
        elif collects_constants and name not in SWITCHES and not is_option(name):
            # A constant for `**meta`, which the grid may read.
            bound[name] = value
    return bound


def _parts(call: _HostCall, function: Kernel) -> list[Any]:
    """Return the start of a launch's key, which is the same for all configurations.

    Programs may change an autotuner's keys and the number of its heuristics.
    """
    keys = None
    if call.tuner is not None:
        keys = tuple(releases.key_names(call.tuner))
    heuristics = tuple(call.heuristics.items())
    host_names = frozenset(call.host_names)
    return [Same(call.tuner), keys, Same(function), host_names, heuristics]


def _frozen(extents: list[int] | None) -> tuple[int, ...] | None:
    if extents is not None:
        return tuple(extents)
    return None


def _repeated_descriptions(call: _HostCall, function: Kernel, bound: Kwargs) -> Kwargs | None:
    """Return the descriptions of the previous configuration if they hold for this one, too.

    They do if the described arguments are the same objects and no hook can have changed them.
    """
    if not call.launches or call.config is None or call.config.pre_hook is not None:
        return None
    previous = call.launches[-1]
    names = _described_names(call, bound)
    if previous.function is not function or previous.args.keys() != names:
        return None
    if all(previous.bound[name] is bound[name] for name in names):
        return previous.args
    return None


def _described_names(call: _HostCall, bound: Kwargs) -> set[str]:
    """Return the arguments that are described: those from the host, not from a configuration."""
    names = call.host_names
    if call.config is not None:
        names = names - call.config.kwargs.keys()
    if call.tuner is None:
        # Values that are not from a heuristic come from the host, or from a tuner of the program's
        # own.
        own_names = bound.keys() - call.heuristics.keys()
        names = names | own_names
    return names & bound.keys()


def _describe_arguments(
    call: _HostCall, function: Kernel, bound: Kwargs, functions: Functions
) -> Kwargs:
    names = _described_names(call, bound)
    descriptions: Kwargs = {}
    for parameter in function.params:
        name = parameter.name
        if name not in names:
            continue
        if parameter.is_constexpr:
            value = constant(bound[name], functions)
            descriptions[name] = {"constexpr": value}
        else:
            descriptions[name] = argument(bound[name], functions)
    return descriptions


def _launch(call: _HostCall, group: Sequence[_ConfiguredLaunch]) -> Json:
    first = group[0]
    names = first.function.arg_names
    launch: Json = {"args": first.args}
    omitted_names = []
    for name in names:
        if name in first.bound and name not in first.args:
            omitted_names.append(name)
    if omitted_names:
        launch["omitted"] = omitted_names
    if call.tuner is not None:
        launch["configs"] = [_config(each) for each in group]
        keys = releases.key_names(call.tuner)
        if keys:
            launch["keys"] = keys
    return launch


def _config(launch: _ConfiguredLaunch) -> Json:
    """Return a configuration with the values of heuristics below the autotuner."""
    entry = configuration(launch.config, launch.functions)
    for name, value in launch.inner.items():
        entry["kwargs"][name] = constant(value, launch.functions)
    return entry


def _sizes(call: _HostCall, group: Sequence[_ConfiguredLaunch]) -> Json:
    """Return what a repetition needs beside the launch: grids and tensors."""
    first = group[0]
    arguments = {name: first.bound[name] for name in first.args}
    memory = memory_layout(arguments)
    if call.tuner is None:
        return memory
    grids = [_known_extents(launch) for launch in group]
    # A grid may have side effects: the first grid is called last, as if it were the only one.
    _known_extents(call.launches[0])
    return {"grids": grids, **memory}


def _known_extents(launch: _ConfiguredLaunch) -> list[int] | None:
    try:
        return _extents(launch.grid, launch.function, launch.bound)
    except (*_ERRORS, RuntimeError, TypeError, ValueError):
        return None


def _extents(grid: Any, function: Kernel, bound: Mapping[str, Any]) -> list[int] | None:
    """Return the number of programs, or None; a callable grid gets arguments and defaults."""
    if callable(grid):
        arguments = {}
        for parameter in function.params:
            if parameter.has_default:
                arguments[parameter.name] = parameter.default
        arguments.update(bound)
        grid = grid(arguments)
    if grid is None:
        return None
    # Triton launches the first three and silently ignores the others.
    return [int(extent) for extent in grid][:_MOST_EXTENTS]
