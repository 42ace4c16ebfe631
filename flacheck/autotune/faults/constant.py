"""A key that tells no two launches apart: it never changes, or another key already says it.

Judged by what a program launched. Of launches whose sizes a driver chose, and of fewer than four,
nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults.base import Case, plain
from flacheck.model import canonical

ENOUGH = 4
DISTINCT = 3


def find(case: Case) -> Iterator[KeyFault]:
    columns = _columns(case)
    if case.tuned.driven or len(case.by_key) < ENOUGH:
        return
    for name, column in columns.items():
        if len(set(column)) == 1:
            why = f"is {column[0]} in all {len(column)} launches seen"
            yield KeyFault(name, "constant", name, column[0], why)
        elif (other := _implying(name, columns)) is not None:
            yield KeyFault(
                name,
                "constant",
                name,
                other,
                f"follows from {other} in all {len(column)} launches seen",
            )


def _columns(case: Case) -> dict[str, list[str]]:
    """Each key's values over the calls, of keys that every call has."""
    present = [name for name in case.tuned.keys if all(name in call for call in case.calls)]
    return {name: [canonical(plain(call[name])) for call in case.calls] for name in present}


def _implying(name: str, columns: dict[str, list[str]]) -> str | None:
    """An earlier key of which this one is a function, with enough values to be no chance."""
    if len(set(columns[name])) < DISTINCT:
        return None
    for other in list(columns)[: list(columns).index(name)]:
        pairs = set(zip(columns[other], columns[name]))
        if len(pairs) == len(set(columns[other])):
            return other
    return None
