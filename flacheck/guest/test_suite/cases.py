"""The selection and order of the cases of a parametrised test.

A product of ten parameters has tens of thousands of cases, most of which launch the same kernels.
"""

import random
from typing import Any

# The maximum number of cases of a function: more would not run in the available time, and
# collecting them takes minutes.
MOST = 96


def thin(metafunc: Any) -> int:
    """Keep at most MOST of pytest's cases of a function; return the rest's count.

    They are shuffled, so that no parameter keeps its value for long; the order is always the same
    for the same number of cases. A pytest that stores its cases elsewhere is left unchanged.
    """
    calls = getattr(metafunc, "_calls", None)
    if not isinstance(calls, list):
        return 0
    shuffled = random.Random(len(calls)).sample(calls, len(calls))
    metafunc._calls = shuffled[:MOST]
    return len(shuffled[MOST:])
