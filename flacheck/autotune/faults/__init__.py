"""Faults of an autotuner's keys: one file a fault, faults that end a run first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults import by_position, constant, missing, no_argument, storm
from flacheck.autotune.faults.base import Case, Fault
from flacheck.autotune.faults.missing import unkeyed

__all__ = ["Case", "faults", "unkeyed"]

_FAULTS: tuple[Fault, ...] = (no_argument.find, by_position.find, storm.find, missing.find, constant.find)


def faults(case: Case) -> Iterator[KeyFault]:
    """All that is wrong with the keys of a kernel under a release."""
    for find in _FAULTS:
        for fault in find(case):
            yield fault if fault.file else replace(fault, line=None, end_line=None)
