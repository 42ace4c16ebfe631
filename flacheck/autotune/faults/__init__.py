"""Faults of an autotuner's keys: one file a fault, faults that end a run first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flacheck.autotune.examined import KeyFault
from flacheck.autotune.faults import by_position, constant, missing, no_argument, storm
from flacheck.autotune.faults.base import Case, Fault
from flacheck.autotune.faults.missing import unkeyed

__all__ = ["Case", "faults", "mended", "unkeyed"]

_FAULTS: tuple[Fault, ...] = (
    no_argument.find,
    by_position.find,
    storm.find,
    missing.find,
    constant.find,
)


def faults(case: Case) -> list[KeyFault]:
    """All that is wrong with the keys of a kernel under a release, each with the lines to write
    instead.
    """
    found = [fault for find in _FAULTS for fault in find(case)]
    keys = mended(case.tuned.keys, found)
    return [fault if fault.fix else _with_list(case, fault, keys) for fault in found]


def mended(keys: Sequence[str], found: Sequence[KeyFault]) -> list[str]:
    """The list of keys that is free of all faults that another list mends."""
    instead = {
        fault.key: fault.want if fault.fault == "no-argument" else None
        for fault in found
        if _in_list(fault)
    }
    kept = [instead.get(key, key) for key in keys]
    added = [fault.key for fault in found if fault.fault == "missing" and not fault.fix]
    return list(dict.fromkeys(key for key in [*kept, *added] if key))


def _in_list(fault: KeyFault) -> bool:
    return fault.fault in ("no-argument", "storm", "constant")


def _with_list(case: Case, fault: KeyFault, keys: Sequence[str]) -> KeyFault:
    declared = case.tuned.declared
    if declared is None or declared.file is None:
        return replace(fault, fix=f"key={list(keys)!r},")
    span = declared.key_list
    line, end = (span.line, span.end_line) if span else (declared.line, declared.line)
    return replace(fault, file=declared.file, line=line, end_line=end, fix=declared.with_keys(keys))
