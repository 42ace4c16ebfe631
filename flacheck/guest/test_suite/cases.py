"""The selection and order of the cases of a parametrised test.

A product of ten parameters has tens of thousands of cases, most of which launch the same kernels.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

# The maximum number of cases of a function: more would not run in the available time, and
# collecting them takes minutes.
MOST = 96


def in_order(cases: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the indices of cases in the order in which to run them.

    Each case is the values of its parameters by name. Cases with a value that no earlier case has
    come first. The others follow in shuffled order, so that no parameter keeps its value for long.
    The order is always the same for the same cases.
    """
    previous_values: set[tuple[str, int]] = set()
    first, others = [], []
    for place, values in enumerate(cases):
        # The cases of a product share their values, which may be neither hashable nor comparable.
        own_values = set()
        for name, value in values.items():
            own_values.add((name, id(value)))
        if own_values <= previous_values and place:
            others.append(place)
        else:
            first.append(place)
        previous_values |= own_values
    random.Random(len(cases)).shuffle(others)
    return [*first, *others]


def thin(metafunc: Any) -> int:
    """Keep at most MOST of pytest's cases of a function, in that order; return the rest's count.

    A pytest that stores its cases elsewhere is left unchanged.
    """
    calls = getattr(metafunc, "_calls", None)
    if not isinstance(calls, list) or len(calls) < 2:
        return 0
    if not all(hasattr(call, "params") for call in calls):
        return 0
    order = in_order([call.params for call in calls])
    metafunc._calls = [calls[place] for place in order[:MOST]]
    return len(order) - len(metafunc._calls)
