"""Which cases of a parametrised test are run, and in which order: a product of ten parameters has
tens of thousands of them, and most launch what others launch."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

# Cases of one function that are kept: more are not reached in the time that there is, and to
# collect them takes minutes.
MOST = 96


def in_order(cases: Sequence[Mapping[str, Any]]) -> list[int]:
    """The places of cases, each the values of its parameters by name: those first that bring a
    value which none before them had, then the others, without an order in which a parameter would
    keep its value for long. The same cases always come in the same order."""
    met: set[tuple[str, int]] = set()
    first, others = [], []
    for place, values in enumerate(cases):
        # The cases of a product share their values, which need be neither hashable nor comparable.
        brings = {(name, id(value)) for name, value in values.items()}
        if brings <= met and place:
            others.append(place)
        else:
            first.append(place)
        met |= brings
    random.Random(len(cases)).shuffle(others)
    return [*first, *others]


def thin(metafunc: Any) -> int:
    """Leave at most so many of the cases that pytest has made for a function, in that order; how
    many were left out. A pytest that keeps its cases elsewhere is left alone."""
    calls = getattr(metafunc, "_calls", None)
    if not isinstance(calls, list) or len(calls) < 2:
        return 0
    if not all(hasattr(call, "params") for call in calls):
        return 0
    order = in_order([call.params for call in calls])
    metafunc._calls = [calls[place] for place in order[:MOST]]
    return len(order) - len(metafunc._calls)
