"""Words for numbers that JSON does not have."""

import math
from collections.abc import Mapping
from typing import Any


def in_words(value: Any) -> Any:
    """Return the value with "inf", "-inf" and "nan" in place of the infinities and NaN.

    Only the arguments of a launch or the values of an autotuner contain these; no count or
    measurement does.
    """
    if isinstance(value, Mapping):
        return {name: in_words(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_words(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
