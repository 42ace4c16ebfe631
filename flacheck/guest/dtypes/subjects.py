"""Subjects to follow: a layer, a function or a model's config by name, or a package's layers."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar, cast

import torch

from ..inference.operators import FUNCTION, LAYER, Operator
from ..search.attempts import CaughtError, attempt
from ..search.modules import NotImported

T = TypeVar("T")
# CPU seconds for the import of a target's module.
_IMPORT_SECONDS = 60.0
CONFIG = "config"
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


class NoTarget(Exception):
    """A target that does not exist or cannot be followed; the text has the reason."""


@dataclass(frozen=True)
class Followable:
    """A subject of a `kind`: a layer, a function or a config."""

    operator: Operator
    kind: str

    @property
    def name(self) -> str:
        return self.operator.name


def find_subject(target: str) -> Followable:
    """Return the subject of `module:name` or `file.py:name`.

    Raises NoTarget if it does not exist or is neither module, function nor config.
    """
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise NoTarget(f"{target!r}: expected MODULE:NAME or FILE.py:NAME")
    module = _module(where)
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            raise NoTarget(f"{target}: {where} has no {name!r}{_near(module)}")
        thing = getattr(thing, part)
    return _subject(f"{module.__name__}:{name}", thing, target)


def module_of(target: str) -> str:
    """Return the name of a target's module after its import."""
    where = target.rpartition(":")[0]
    return os.path.basename(where).removesuffix(".py")


def model_class(config: type) -> Callable[[Any], torch.nn.Module]:
    """Return the constructor of the model for a config.

    It is the causal language model in the config's own package, else that of transformers. Packages
    register their models with transformers only when they are imported as a whole, which fails for
    a package that reuses a model name of transformers.
    """
    folder = config.__module__.rpartition(".")[0]
    package = importlib.import_module(folder)
    for entry in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{folder}."):
        module = importlib.import_module(entry.name)
        for name, thing in vars(module).items():
            if name.endswith("ForCausalLM") and getattr(thing, "config_class", None) is config:
                return cast("Callable[[Any], torch.nn.Module]", thing)
    # The import is safe here, because the config already comes from transformers.
    from transformers import AutoModelForCausalLM

    return cast("Callable[[Any], torch.nn.Module]", AutoModelForCausalLM.from_config)


def layers(operators: list[Operator]) -> list[Followable]:
    """Return all layers among a package's operators, first those that nothing else in it uses."""
    outer, inner = [], []
    for operator in operators:
        if operator.kind == LAYER and operator.outer:
            outer.append(Followable(operator, LAYER))
        elif operator.kind == LAYER:
            inner.append(Followable(operator, LAYER))
    return outer + inner


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        sys.path.append(os.getcwd())
        if not _exists(where):
            raise NoTarget(
                f"there is no module {where!r}; give FILE.py:NAME for a file, or --package for "
                "a package that is not installed"
            )
        return _run(where, lambda: importlib.import_module(where))
    if not os.path.isfile(where):
        raise NoTarget(f"there is no file {where}")
    name = os.path.basename(where).removesuffix(".py")
    earlier = sys.modules.get(name)
    if earlier is not None and getattr(earlier, "__file__", None) == os.path.abspath(where):
        # Two targets of one file share its classes.
        return earlier
    sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(where))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    run_module = spec.loader.exec_module
    _run(where, lambda: run_module(module))
    return module


def _exists(name: str) -> bool:
    """Return True if there is a module of this name; its packages are imported."""
    package = name.rpartition(".")[0]
    if package and not _exists(package):
        return False
    if package:
        _run(package, lambda: importlib.import_module(package))
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _run(name: str, code: Callable[[], T]) -> T:
    """Return the result of an import; raise NotImported for whatever the module raises."""
    outcome = attempt(code, _IMPORT_SECONDS)
    if isinstance(outcome, CaughtError):
        raise NotImported(name, outcome)
    return outcome


def _near(module: ModuleType) -> str:
    """Return the message with the names in a module that can be followed."""
    names = []
    for name, thing in vars(module).items():
        own = getattr(thing, "__module__", None) == module.__name__
        is_layer = isinstance(thing, type) and issubclass(thing, torch.nn.Module)
        if own and (is_layer or inspect.isfunction(thing)):
            names.append(name)
    if not names:
        return ""
    return f"; it defines {', '.join(names[:8])}"


def _subject(name: str, thing: Any, target: str) -> Followable:
    kind = None
    if isinstance(thing, type) and issubclass(thing, torch.nn.Module):
        kind, source = LAYER, inspect.unwrap(getattr(thing, "forward"))  # noqa: B009
    elif isinstance(thing, type) and getattr(thing, "model_type", None):
        kind, source = CONFIG, getattr(thing, "__init__")  # noqa: B009
    elif isinstance(thing, type) and issubclass(thing, torch.autograd.Function):
        raise NoTarget(f"{target} is an autograd function: name the function that applies it")
    elif type(thing).__module__.partition(".")[0] == "triton":
        raise NoTarget(f"{target} is a Triton kernel: name the function or module that launches it")
    elif callable(thing) and not isinstance(thing, type):
        kind, source = FUNCTION, inspect.unwrap(thing)
    if kind is None:
        raise NoTarget(f"{target} is neither a module, a function nor a model's config")
    try:
        parameters = tuple(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        parameters = ()
    parameters = tuple(p for p in parameters if p.kind not in _VARIADIC)
    return Followable(Operator(name, thing, kind, True, frozenset(), parameters, source), kind)
