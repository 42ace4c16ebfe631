"""A key that takes many values, such as a sequence length: each one tunes anew.

A key is one when launches show many values, or when it is an integer by the name of a length. One
that the compiler is told not to look at is none by that alone: a length is often put into buckets
and handed over for the key only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults.base import Case, plain

MANY = 8
LENGTH = re.compile(r"T|NT|(?i:(?:max_|total_)?seq_?len\w*|(?:total_|num_|n_?)\w*tokens)")


def find(case: Case) -> Iterator[KeyFault]:
    for name in case.tuned.keys:
        why = _why(case, name)
        if why and name in case.arguments:
            yield KeyFault(
                name, "storm", None, name, f"{why}: each value tunes all configurations anew"
            )


def is_length(case: Case, name: str) -> bool:
    """Whether an argument is a sequence length, by its name and by being an integer."""
    specs = [call[name] for call in case.calls if name in call]
    return bool(LENGTH.fullmatch(name)) and all(isinstance(plain(spec), int) for spec in specs)


def _why(case: Case, name: str) -> str | None:
    values = {
        plain(call[name])
        for call in case.calls
        if name in call and isinstance(plain(call[name]), int)
    }
    if len(values) >= MANY:
        return f"took {len(values)} values in {len(case.calls)} launches"
    if is_length(case, name):
        return "is a sequence length"
    return None
