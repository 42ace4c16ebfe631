"""The release's own `Autotuner.run`, with only its timing replaced.

Two passes over the same launch. The first passes arguments that remember their names and catches
the launch below the autotuner, so that the key the autotuner really built can be read off name by
name. The second passes plain arguments and compiles the configuration that is chosen.
"""

from __future__ import annotations

from ..engine import releases
from . import values


class _Caught:
    """Stands for the function below the autotuner; a launch goes no further."""

    def __init__(self, function) -> None:
        self._function = function

    def __getattr__(self, name: str):
        return getattr(self._function, name)

    def run(self, *args, **kwargs) -> None:
        return None


def run(kernel, request: dict, language) -> dict:
    tuner = releases.autotuner(kernel)
    if tuner is None:
        raise TypeError("the kernel has no @triton.autotune")
    specs = request["launch"]["args"]
    with releases.borrowed(tuner):
        _use_configs(tuner, request["launch"].get("configs", ()))
        found = _keys(
            kernel, tuner, {name: _tagged(name, spec, language) for name, spec in specs.items()}
        )
        try:
            kernel.run(
                grid=None,
                warmup=True,
                **{name: values.value(spec, language) for name, spec in specs.items()},
            )
        finally:
            releases.forget_compiled(releases.unwrap(kernel))
            tuner.cache.clear()
        return {"stage": "autotune", "facts": {"keys": found, "configs": len(tuner.configs)}}


def keys(kernel, request: dict, language) -> dict:
    """The first pass alone: what stands in the key that the release builds; nothing is compiled."""
    specs = request["launch"]["args"]
    kernel, tuner = _with_tuner(kernel, request)
    tagged = {name: _tagged(name, spec, language) for name, spec in specs.items()}
    with releases.borrowed(tuner):
        _use_configs(tuner, request["launch"].get("configs", ()))
        return {"stage": "keys", "facts": {"keys": _keys(kernel, tuner, tagged)}}


def _with_tuner(kernel, request: dict) -> tuple:
    """A kernel with its autotuner: its own, or one for a function that was cut out without it."""
    tuner = releases.autotuner(kernel)
    if tuner is not None:
        return kernel, tuner
    tuner = releases.tuned(kernel, [])
    positions = {name: index for index, name in enumerate(tuner.arg_names)}
    named = [name for name in request["launch"].get("keys", ()) if name in positions]
    if hasattr(tuner, "key_idx"):
        tuner.key_idx = [positions[name] for name in named]
    else:
        tuner.keys = named
    return tuner, tuner


def describe(kernel) -> dict:
    """Arguments, configurations and key of a kernel, as its decorators declare them."""
    function, tuner = releases.unwrap(kernel), releases.autotuner(kernel)
    return {
        "arguments": list(function.arg_names),
        "configs": [_plain(config) for config in tuner.configs] if tuner else [],
        "keys": releases.key_names(tuner) if tuner else [],
    }


def _plain(config) -> dict:
    return {
        "kwargs": dict(config.kwargs),
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


def _use_configs(tuner, configs) -> None:
    from triton import Config

    if configs:
        tuner.configs = [Config(**config) for config in configs]


def _tagged(name: str, spec, language):
    plain = values.value(spec, language)
    if type(plain) is int:
        return values.Named(name, plain)
    if isinstance(plain, values.Pointer):
        plain.name = name
    return plain


def _keys(kernel, tuner, arguments: dict) -> list[dict]:
    """For each name in the key: `want` it, `got` the argument whose value the release took, and the
    `fault`: `shifted`, `past-end`, or None."""
    passed = _passed_names(kernel, tuner, arguments)
    tuner._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]
    tuner.pre_hook = tuner.post_hook = lambda *args, **kwargs: None
    function, tuner.fn = tuner.fn, _Caught(tuner.fn)
    try:
        kernel.run(grid=None, warmup=True, **arguments)
    except IndexError as error:
        error.facts = {"keys": [_entry(*pair) for pair in _by_position(tuner, passed)]}
        raise
    finally:
        tuner.fn = function
    built = next(iter(tuner.cache), ())
    tuner.cache.clear()
    if not built:  # one configuration: the release builds no key
        return []
    return [
        _entry(want, getattr(value, "name", got))
        for (want, got), value in zip(_pairs(tuner, passed), built)
    ]


def _pairs(tuner, passed: list[str]) -> list[tuple[str, str | None]]:
    """Each name in the key with the argument that should stand there, for values that carry no
    name.
    """
    if hasattr(tuner, "key_idx"):
        return _by_position(tuner, passed)
    return [(name, name) for name in tuner.keys if name in passed]


def _by_position(tuner, passed: list[str]) -> list[tuple[str, str | None]]:
    """3.0 and 3.1 index the arguments that were passed with positions in the full argument list."""
    return [(tuner.arg_names[i], passed[i] if i < len(passed) else None) for i in tuner.key_idx]


def _entry(want: str, got: str | None) -> dict:
    fault = "past-end" if got is None else "shifted" if got != want else None
    return {"key": want, "want": want, "got": got, "fault": fault}


def _passed_names(kernel, tuner, arguments: dict) -> list[str]:
    """The arguments that reach the autotuner, in the function's order: heuristics above it add
    theirs.
    """
    given = set(arguments)
    while kernel is not tuner:
        given |= set(getattr(kernel, "values", ()))
        kernel = kernel.fn
    return [name for name in tuner.arg_names if name in given]
