"""The kernels of a package as its decorators left them: their parameters, configurations and keys.
Another release can decorate them again without their package, and the outcome be compared."""

from __future__ import annotations

import builtins
import hashlib
import importlib
import inspect
import os
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ..engine import releases
from ..engine.loader import module_from
from ..recorder.described import Identities, configuration
from ..workers.values import constants
from .asked import fingerprint

_HEAD = "import triton\nimport triton.language\n"


def described(modules: Iterable[ModuleType], identities: Identities) -> dict[str, dict[str, Any]]:
    """By `module:variable`: the `name` of the kernel that stands there, its `layers` from the
    outermost decorator on, its `parameters`; its `signature` as source, or the `home` of a kernel
    of Triton's own library."""
    from triton.runtime.jit import JITFunction

    kernels: dict[str, dict[str, Any]] = {}
    for module in modules:
        for variable, value in sorted(vars(module).items()):
            layers, kernel = _peeled(value)
            if not isinstance(kernel, JITFunction):
                continue
            home = kernel.fn.__module__
            entry = {"name": identities.of(kernel.fn)[0], "layers": layers}
            entry["parameters"] = _parameters(kernel)
            if home.partition(".")[0] == "triton":
                entry["home"] = f"{home}:{kernel.fn.__name__}"
            else:
                entry["signature"] = _signature(kernel.fn)
            kernels[f"{module.__name__}:{variable}"] = entry
    return kernels


def differs(kernels: Mapping[str, Mapping[str, Any]], folder: str) -> str | None:
    """The first kernel that this release decorates otherwise, None where all come out alike; their
    source is written to a folder."""
    own = {place: entry for place, entry in kernels.items() if "signature" in entry}
    lines = [f"def kernel_{n}{entry['signature']}: ..." for n, entry in enumerate(own.values())]
    text = _HEAD + "\n".join(lines) + "\n"
    module = "signatures_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = os.path.join(folder, f"{module}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    functions = module_from(path, module)
    for number, (place, entry) in enumerate(own.items()):
        kernel = _decorated(getattr(functions, f"kernel_{number}"), entry["layers"])
        layers, inner = _peeled(kernel)
        if [layers, _parameters(inner)] != [entry["layers"], entry["parameters"]]:
            return place
    for place, entry in kernels.items():
        if "home" in entry and _library_parameters(entry["home"]) != entry["parameters"]:
            return place
    return None


def _peeled(value: Any) -> tuple[list[Any], Any]:
    """What can be compared of the decorators around a kernel, and what lies below them."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    layers: list[Any] = []
    while isinstance(value, (Autotuner, Heuristics)):
        if isinstance(value, Heuristics):
            layers.append(sorted(value.values))
        else:
            layers.append(_tuner(value))
        value = value.fn
    return layers, value


def _tuner(tuner: Any) -> dict[str, Any]:
    """Its configurations and keys, and how it prunes where something is to be pruned."""
    configs = [configuration(config, {}) for config in tuner.configs]
    pruning = ""
    if getattr(tuner, "perf_model", None) or getattr(tuner, "early_config_prune", None):
        pruning = fingerprint(type(tuner).prune_configs)
    return {"configs": configs, "keys": releases.key_names(tuner), "pruning": pruning}


def _parameters(kernel: Any) -> list[list[Any]]:
    return [[p.name, p.is_constexpr, p.has_default] for p in kernel.params]


def _library_parameters(home: str) -> list[list[Any]] | None:
    module, _, name = home.partition(":")
    try:
        return _parameters(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError):
        return None


def _signature(function: Any) -> str:
    """Annotations of Triton and Python stand as they are, another's by its name, which is all that
    Triton asks of one."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(
            annotation=_annotation(parameter.annotation), default=_default(parameter.default)
        )
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return annotation
    home = str(getattr(annotation, "__module__", "")).partition(".")[0]
    if isinstance(annotation, type) and home in ("triton", builtins.__name__):
        return annotation
    return getattr(annotation, "__name__", None) or repr(annotation)


def _default(default: Any) -> Any:
    """Whether there is one is all that counts."""
    if default is inspect.Parameter.empty:
        return default
    return None


def _decorated(function: Any, layers: Iterable[Any]) -> Any:
    import triton

    kernel: Any = triton.jit(function)
    for layer in reversed([*layers]):
        if isinstance(layer, dict):
            configs = [_config(each) for each in layer["configs"]]
            if len(configs) == 1 and not configs[0].kwargs:
                # Maybe none was given, and this is what the other release then took.
                configs = []
            prune = None
            if layer["pruning"]:
                prune = {"early_config_prune": lambda configs, args, **kwargs: configs}
            kernel = triton.autotune(configs, layer["keys"], prune_configs_by=prune)(kernel)
        else:
            kernel = triton.heuristics(dict.fromkeys(layer, _nothing))(kernel)
    return kernel


def _config(described: Mapping[str, Any]) -> Any:
    import triton

    options = {name: value for name, value in described.items() if name != "kwargs"}
    return triton.Config(constants(described["kwargs"], {}), **constants(options, {}))


def _nothing(arguments: object) -> None:
    """Stands for a heuristic."""
