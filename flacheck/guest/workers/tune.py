"""The release's own `Autotuner.run`, with only its timing replaced.

Two passes over the same launch. The first passes arguments that remember their names and catches
the launch below the autotuner, so that the key the autotuner really built can be read off name by
name. The second passes plain arguments and compiles the configuration that is chosen.
"""

from __future__ import annotations

from typing import Any

from ..engine import releases
from ..engine.messages import ArgumentSpec, Kernel, LaunchSpec, Reply, Request
from . import values


class _Caught:
    """Stands for the function below the autotuner; a launch goes no further."""

    def __init__(self, function: Kernel) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def run(self, *args: object, **kwargs: object) -> None: ...


def run(kernel: Kernel, request: Request) -> Reply:
    """Both passes. Raises TypeError for a kernel without an autotuner, and what Triton raises."""
    tuner = releases.autotuner(kernel)
    if tuner is None:
        raise TypeError("the kernel has no @triton.autotune")
    launch = request["launch"]
    with releases.borrowed(tuner):
        _use_configs(tuner, launch)
        entries = _keys(kernel, tuner, _tagged(launch["args"]))
        try:
            kernel.run(grid=None, warmup=True, **values.arguments(launch["args"]))
        finally:
            releases.forget_compiled(releases.unwrap(kernel))
            tuner.cache.clear()
        return {"stage": "autotune", "facts": {"keys": entries, "configs": len(tuner.configs)}}


def keys(kernel: Kernel, request: Request) -> Reply:
    """The first pass alone: what stands in the key that the release builds; nothing is compiled."""
    launch = request["launch"]
    tuner = releases.autotuner(kernel)
    if tuner is None:  # the function was cut out without it
        tuner = kernel = releases.tuned(kernel, [])
        named = [name for name in launch.get("keys", ()) if name in tuner.arg_names]
        releases.set_keys(tuner, named)
    arguments = _tagged(launch["args"])
    with releases.borrowed(tuner):
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


def _use_configs(tuner: Kernel, launch: LaunchSpec) -> None:
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
