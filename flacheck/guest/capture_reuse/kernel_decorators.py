"""Parameters, configurations and keys of a package's kernels after their decorators ran.

Another release can decorate signatures of the same form without the package and compare.
"""

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
from ..recorder.launch_description import Identities, configuration
from ..workers.values import constants
from .triton_api_trace import fingerprint

_HEAD = "import triton\nimport triton.language\n"
_MISSING = inspect.Parameter.empty
# Of the configuration that every release of Triton inserts into an empty list.
_DEFAULT_WARPS = 4


def describe_kernels(
    modules: Iterable[ModuleType], identities: Identities
) -> dict[str, dict[str, Any]]:
    """Describe the kernels of some modules by `module:variable`.

    A description holds the kernel's `name`, its `layers` from the outermost decorator on, its
    `parameters`, and its `signature` as source; a kernel of Triton's own library has a `home`
    instead of a signature.
    """
    from triton.runtime.jit import JITFunction

    kernels: dict[str, dict[str, Any]] = {}
    for module in modules:
        for variable, value in sorted(vars(module).items()):
            layers, kernel = _unwrap(value)
            if not isinstance(kernel, JITFunction):
                continue
            home = kernel.fn.__module__
            entry = {
                "name": identities.of(kernel.fn)[0],
                "layers": layers,
                "parameters": _describe_parameters(kernel),
            }
            if home.partition(".")[0] == "triton":
                entry["home"] = f"{home}:{kernel.fn.__name__}"
            else:
                entry["signature"] = _signature_source(kernel.fn)
            kernels[f"{module.__name__}:{variable}"] = entry
    return kernels


def first_difference(kernels: Mapping[str, Mapping[str, Any]], folder: str) -> str | None:
    """Return the first kernel that this release decorates differently, else None.

    The signatures' source is written to `folder`.
    """
    package_kernels = {}
    for variable, entry in kernels.items():
        if "signature" in entry:
            package_kernels[variable] = entry
    functions = _load_signatures(package_kernels.values(), folder)
    for number, (variable, entry) in enumerate(package_kernels.items()):
        function = getattr(functions, f"kernel_{number}")
        layers, kernel = _unwrap(_decorate(function, entry["layers"]))
        if layers != entry["layers"] or _describe_parameters(kernel) != entry["parameters"]:
            return variable
    for variable, entry in kernels.items():
        if "home" in entry and _library_parameters(entry["home"]) != entry["parameters"]:
            return variable
    return None


def _load_signatures(entries: Iterable[Mapping[str, Any]], folder: str) -> ModuleType:
    """Write a module with a function `kernel_N` for each entry, and import it."""
    lines = []
    for number, entry in enumerate(entries):
        lines.append(f"def kernel_{number}{entry['signature']}: ...")
    text = _HEAD + "\n".join(lines) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    module = f"signatures_{digest[:16]}"
    path = os.path.join(folder, f"{module}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return module_from(path, module)


def _unwrap(value: Any) -> tuple[list[Any], Any]:
    """Return the comparable properties of the decorators around a kernel, and the kernel."""
    from triton.runtime.autotuner import Autotuner, Heuristics

    layers: list[Any] = []
    while isinstance(value, (Autotuner, Heuristics)):
        if isinstance(value, Heuristics):
            layers.append(sorted(value.values))
        else:
            layers.append(_describe_tuner(value))
        value = value.fn
    return layers, value


def _describe_tuner(tuner: Any) -> dict[str, Any]:
    """Describe a tuner's configurations, its keys, and its pruning code if it prunes."""
    configs = [configuration(config, {}) for config in tuner.configs]
    pruning = ""
    if getattr(tuner, "perf_model", None) or getattr(tuner, "early_config_prune", None):
        pruning = fingerprint(type(tuner).prune_configs)
    return {"configs": configs, "keys": releases.key_names(tuner), "pruning": pruning}


def _describe_parameters(kernel: Any) -> list[list[Any]]:
    parameters = []
    for parameter in kernel.params:
        # Triton compares a default of its class `constexpr` and returns a `constexpr`.
        has_default = bool(parameter.has_default)
        parameters.append([parameter.name, parameter.is_constexpr, has_default])
    return parameters


def _library_parameters(home: str) -> list[list[Any]] | None:
    module, _, name = home.partition(":")
    try:
        kernel = getattr(importlib.import_module(module), name)
        return _describe_parameters(kernel)
    except (ImportError, AttributeError):
        return None


def _signature_source(function: Any) -> str:
    """Return a signature as source that needs no import but Triton.

    Annotations by Triton and Python stay; other annotations become their name, which is all that
    Triton reads of them.
    """
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        annotation = _plain_annotation(parameter.annotation)
        default = parameter.default
        if default is not _MISSING:
            # Triton reads only whether there is a default.
            default = None
        parameters.append(parameter.replace(annotation=annotation, default=default))
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return str(plain)


def _plain_annotation(annotation: Any) -> Any:
    """Return an annotation that can be evaluated without the package."""
    if annotation is _MISSING or isinstance(annotation, str):
        return annotation
    home = str(getattr(annotation, "__module__", "")).partition(".")[0]
    if isinstance(annotation, type) and home in ("triton", builtins.__name__):
        return annotation
    return getattr(annotation, "__name__", None) or repr(annotation)


def _decorate(function: Any, layers: Iterable[Any]) -> Any:
    """Apply decorators to a function, the innermost first."""
    import triton

    kernel: Any = triton.jit(function)
    for layer in reversed([*layers]):
        if isinstance(layer, dict):
            decorator = _tuner_decorator(layer)
        else:
            decorator = triton.heuristics(dict.fromkeys(layer, _empty_heuristic))
        kernel = decorator(kernel)
    return kernel


def _tuner_decorator(layer: Mapping[str, Any]) -> Any:
    import triton

    configs = [_build_config(description) for description in layer["configs"]]
    if len(configs) == 1 and not configs[0].kwargs and configs[0].num_warps == _DEFAULT_WARPS:
        # The package may have passed no configuration, and the other release inserted this one.
        configs = []
    prune = None
    if layer["pruning"]:
        prune = {"early_config_prune": lambda configs, args, **kwargs: configs}
    return triton.autotune(configs, layer["keys"], prune_configs_by=prune)


def _build_config(description: Mapping[str, Any]) -> Any:
    import triton

    options = dict(description)
    kwargs = options.pop("kwargs")
    return triton.Config(constants(kwargs, {}), **constants(options, {}))


def _empty_heuristic(arguments: object) -> None:
    """Take the place of a heuristic."""
