"""A key that takes many values, such as a sequence length: each one tunes anew.

A key is one when its author tells the compiler not to look at it, when launches show many values, or when it is an
ordinary integer by the name of a length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults.base import Case, plain

MANY = 8
LENGTH = re.compile(r"(?:T|NT|L|seq_?len\w*|max_seq_?len\w*|total_\w*tokens|num_tokens|n_?tokens)", re.IGNORECASE)
_SHORT = ("T", "NT", "L")


def find(case: Case) -> Iterator[KeyFault]:
    for name in case.tuned.keys:
        why = _why(case, name)
        if why and name in case.arguments:
            yield KeyFault(name, "storm", None, name, f"{why}: each value tunes all configurations anew")


def is_length(case: Case, name: str) -> bool:
    """Whether an argument is a sequence length, by its name and by being an integer."""
    specs = [call[name] for call in case.calls if name in call]
    named = name in _SHORT or bool(LENGTH.fullmatch(name) and len(name) > 2)
    return named and all(isinstance(plain(spec), int) for spec in specs)


def _why(case: Case, name: str) -> str | None:
    declared = case.tuned.declared
    values = {plain(call[name]) for call in case.calls if name in call and isinstance(plain(call[name]), int)}
    if declared and name in declared.unspecialized:
        return "is in do_not_specialize, so it varies"
    if len(values) >= MANY:
        return f"took {len(values)} values in {len(case.calls)} launches"
    if is_length(case, name):
        return "is a sequence length"
    return None
