"""How many programs a launch has: what the host gave as its grid, evaluated as Triton does."""

from __future__ import annotations

# What a grid may raise that is asked for a configuration which the host never came to.
_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def extents(grid, function, bound: dict) -> list | None:
    """A grid's numbers; a callable one is given the arguments `bound` and the defaults of the
    others.
    """
    if callable(grid):
        defaults = {p.name: p.default for p in function.params if p.has_default}
        grid = grid({**defaults, **bound})
    return None if grid is None else [int(extent) for extent in grid]


def of_each(trials, first) -> list:
    """The grid of each configuration on trial, None where it raises. It may leave something with
    the host, so the `first` of the launch is asked last, as if it were the only one.
    """
    found = [_known(trial) for trial in trials]
    _known(first)
    return found


def _known(trial) -> list | None:
    try:
        return extents(trial.given_grid, trial.function, trial.bound)
    except _ERRORS:
        return None
