"""Numbers that JSON does not have, as words."""

import math
from collections.abc import Mapping
from typing import Any


def in_words(value: Any) -> Any:
    """The value with "inf", "-inf" and "nan" for the infinities and NaN that a launch was called
    with, or that an autotuner tries. Nothing that is counted or measured is one."""
    if isinstance(value, Mapping):
        return {name: in_words(held) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_words(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
