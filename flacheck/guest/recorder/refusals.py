"""What Triton's launcher refuses before it compiles anything, by the names alone."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable

from ..engine.messages import Kernel

# The launcher's own arguments, which are neither the kernel's nor the compiler's.
_OF_THE_LAUNCHER = ("grid", "warmup")


def check(function: Kernel, given: Iterable[str]) -> None:
    """Raises what Triton raises of a launch with these keyword arguments.

    A kernel that collects its constants in `**meta` is from before Triton 2.0: since then that is a
    parameter like any other, which no launch can give. A name that is neither a parameter's nor an
    option's ends a launch likewise.
    """
    for parameter in inspect.signature(function.fn).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(
                f"dynamic_func() missing 1 required positional argument: {parameter.name!r}"
            )
    unknown = [name for name in given if name not in function.arg_names]
    unknown = [name for name in unknown if name not in _OF_THE_LAUNCHER]
    if not unknown:
        return
    for name in unknown:
        if name not in _options():
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")


@functools.lru_cache(maxsize=1)
def _options() -> frozenset[str]:
    """The options of this release's compiler for the current card."""
    from triton.compiler.compiler import make_backend
    from triton.runtime import driver

    backend = make_backend(driver.active.get_current_target())
    return frozenset(vars(backend.parse_options({})))
