"""From records to results: what the release makes of each configuration, and of the whole run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from flacheck.autotune.cost import cost
from flacheck.autotune.examined import ExaminedConfig, Fate, KeyFault, TunerResult
from flacheck.autotune.faults import Case, faults, unkeyed
from flacheck.autotune.occupancy import occupancy
from flacheck.autotune.trials import Trials, version
from flacheck.inputs.expand import main_dtype
from flacheck.model import Record, Verdict
from flacheck.tables import targets

_WARPS = 4
# Faults of a key with which nothing is ever tried.
_FATAL = ("past-end",)


def judge(
    asked: Trials,
    records: Mapping[str, Record],
    estimates: Sequence[float],
    pruned: Sequence[Mapping[str, Any]] = (),
    workers: int | None = None,
) -> TunerResult:
    """The result of a launch from the records of its cells, by key; so many `workers` could warm it
    up.
    """
    tuned = asked.tuned
    case = Case(tuned, version(tuned.cell), _audit(asked, records))
    keys = faults(case)
    configs = [
        _examined(asked, place, records[cell.key], keys, estimates[place])
        for place, cell in enumerate(asked.configs)
    ]
    distinct = max(len(case.by_key), 1)
    return TunerResult(
        kernel=tuned.cell.kernel.name,
        package=tuned.cell.kernel.package,
        toolchain=tuned.cell.toolchain,
        target=tuned.cell.target,
        dtype=tuned.cell.dtype,
        launch=tuned.launch.to_json() if configs else None,
        configs=configs,
        keys=keys,
        cost=cost(configs, distinct, workers or os.cpu_count() or 1) if configs else None,
        ends=_ends(asked, records, configs, keys),
        pruned=list(pruned),
        unkeyed=unkeyed(case),
        tuning_keys=_keys(case),
    )


def _keys(case: Case) -> list[tuple[list[Any], list[str]]]:
    """The distinct keys of calls in the dtype of the launch."""
    calls = [calls[0] for calls in case.by_key.values()]
    return [case.key(call) for call in calls if main_dtype(call) == case.tuned.cell.dtype]


def _audit(asked: Trials, records: Mapping[str, Record]) -> list[Mapping[str, Any]]:
    """What the release put into its key, where it was asked."""
    if asked.keys is None:
        return []
    findings = records[asked.keys.key].findings
    found = [key for finding in findings for key in finding["facts"].get("keys", ())]
    return list({key["key"]: key for key in found}.values())


def _examined(
    asked: Trials, place: int, record: Record, keys: Sequence[KeyFault], estimate: float
) -> ExaminedConfig:
    config = asked.tuned.launch.configs[place]
    held, target = record.resources, targets.find(record.target)
    warps = config.get("num_warps", _WARPS)
    filled = occupancy(target, warps, held["registers"], held["shared"])
    return ExaminedConfig(config, record, filled, _fate(record, keys), estimate)


def _fate(record: Record, keys: Sequence[KeyFault]) -> Fate | None:
    """The trial's own outcome; a key that ends every run ends it before any trial."""
    if record.verdict in (Verdict.UNKNOWN, Verdict.SKIPPED):
        return None
    if any(fault.fault in _FATAL for fault in keys):
        return Fate.ENDS_RUN
    if record.verdict is Verdict.COMPILES:
        return Fate.RUNS
    return Fate.SKIPPED if record.tolerated else Fate.ENDS_RUN


def _ends(
    asked: Trials,
    records: Mapping[str, Record],
    configs: Sequence[ExaminedConfig],
    keys: Sequence[KeyFault],
) -> str | None:
    """Why no run of this autotuner comes to its end, the first reason it meets."""
    if asked.imports is not None:
        record = records[asked.imports.key]
        return f"{record.code} {_line(record)}" if record.verdict is Verdict.FAILS else None
    fatal = next((fault for fault in keys if fault.fault in _FATAL), None)
    if fatal:
        return f"key {fatal.key} {fatal.why}, before any configuration is tried"
    for place, config in enumerate(configs, 1):
        if config.fate is Fate.ENDS_RUN:
            return f"configuration {place} of {len(configs)} fails with {config.record.code}"
    if configs and all(config.fate is Fate.SKIPPED for config in configs):
        return "every configuration is skipped, and the launch of one of them then raises what it was skipped for"
    return None


def _line(record: Record) -> str:
    return next(iter(record.message.splitlines()), "")
