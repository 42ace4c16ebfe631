"""Errors that Triton's launcher raises before it compiles, from the argument names alone."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Sequence

from ..engine.messages import Kernel
from ..workers.removed_api import collecting_parameter
from .repeated_launches import SWITCHES

# Names that launches passed beside their kernels' parameters, and True for an option of the
# release.
option_queries: dict[str, bool] = {}


def check(function: Kernel, positional: int, keyword_names: Iterable[str]) -> None:
    """Raise Triton's error for a launch with these positional and keyword arguments.

    A kernel that collects its constants in `**meta` is from before Triton 2.0: since then that is a
    parameter like any other, which no launch can pass. A launch also fails if a name is neither a
    parameter nor an option, or if an argument is missing.
    """
    keyword_names = [*keyword_names]
    collector = collecting_parameter(function)
    if collector is not None:
        raise TypeError(_missing([collector]))
    names = {*function.arg_names[:positional], *keyword_names}
    lacking = []
    for parameter in function.params:
        if not parameter.has_default and parameter.name not in names:
            lacking.append(parameter.name)
    if lacking:
        raise TypeError(_missing(lacking))
    for name in keyword_names:
        if name in function.arg_names or name in SWITCHES:
            continue
        if not is_option(name):
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")


def is_option(name: str) -> bool:
    """Return True if this release's compiler has such an option for the current card."""
    if name not in option_queries:
        option_queries[name] = name in option_names()
    return option_queries[name]


def _missing(names: Sequence[str]) -> str:
    plural = ""
    if len(names) > 1:
        plural = "s"
    shown_names = ", ".join(map(repr, names))
    return (
        f"dynamic_func() missing {len(names)} required positional argument{plural}: {shown_names}"
    )


@functools.lru_cache(maxsize=1)
def option_names() -> frozenset[str]:
    """Return the options of this release's compiler for the current card."""
    from triton.compiler.compiler import make_backend
    from triton.runtime import driver

    backend = make_backend(driver.active.get_current_target())
    # Triton's warnings about options belong to a compile, not to this check.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frozenset(vars(backend.parse_options({})))
