"""What Triton's launcher refuses before it compiles anything, by the names alone."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Iterable, Sequence

from ..engine.messages import Kernel
from .repeated_launches import SWITCHES

# What launches named beside their kernels' parameters, and whether the release has such an option.
option_queries: dict[str, bool] = {}


def check(function: Kernel, positional: int, given: Iterable[str]) -> None:
    """Raises what Triton raises of a launch with so many positional and these keyword arguments.

    A kernel that collects its constants in `**meta` is from before Triton 2.0: since then that is a
    parameter like any other, which no launch can give. A name that is neither a parameter's nor an
    option's ends a launch likewise, and so does an argument that is lacking.
    """
    given = [*given]
    for parameter in inspect.signature(function.fn).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(_missing([parameter.name]))
    names = {*function.arg_names[:positional], *given}
    lacking = [p.name for p in function.params if not p.has_default and p.name not in names]
    if lacking:
        raise TypeError(_missing(lacking))
    for name in given:
        if name in function.arg_names or name in SWITCHES:
            continue
        if not is_option(name):
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")


def is_option(name: str) -> bool:
    """Whether the compiler of this release, for the current card, has an option of this name."""
    if name not in option_queries:
        option_queries[name] = name in _options()
    return option_queries[name]


def _missing(names: Sequence[str]) -> str:
    plural = "s" * (len(names) > 1)
    said = ", ".join(map(repr, names))
    return f"dynamic_func() missing {len(names)} required positional argument{plural}: {said}"


@functools.lru_cache(maxsize=1)
def _options() -> frozenset[str]:
    """The options of this release's compiler for the current card."""
    from triton.compiler.compiler import make_backend
    from triton.runtime import driver

    backend = make_backend(driver.active.get_current_target())
    # What Triton warns of options is said when a kernel is compiled with them, not here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frozenset(vars(backend.parse_options({})))
