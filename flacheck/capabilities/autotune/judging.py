"""From records to results: what the release makes of each configuration, and of the whole run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flacheck.capabilities.autotune.cost import cost
from flacheck.capabilities.autotune.key_faults import faults
from flacheck.capabilities.autotune.keys import KeyEvidence
from flacheck.capabilities.autotune.missing_keys import find_unkeyed_constexprs
from flacheck.capabilities.autotune.occupancy import occupancy
from flacheck.capabilities.autotune.results import (
    ExaminedConfig,
    Fate,
    KeyFault,
    TunerResult,
    TuningKey,
)
from flacheck.capabilities.autotune.trials import DEFAULT_WARPS, Trials, version
from flacheck.model import Record, Verdict, canonical
from flacheck.tables import targets

# The fault of a key with which nothing is ever tried.
_FATAL = "past-end"


def judge(
    asked: Trials,
    records: Mapping[str, Record],
    estimates: Sequence[float],
    pruned: Sequence[Mapping[str, Any]] = (),
    workers: int = 1,
) -> TunerResult:
    """The result of a launch from its cells' records by key; `workers` could warm it up."""
    tuned = asked.tuned_launch
    evidence = KeyEvidence(tuned, version(tuned.cell), _audit(asked, records))
    keys = faults(evidence)
    fatal = next((fault for fault in keys if fault.fault == _FATAL), None)
    configs = []
    for place, cell in enumerate(asked.configs):
        record = records[cell.key]
        fate = _fate(record)
        # The compiler's verdict stays; the autotuner never gets that far.
        if fatal and fate:
            fate = Fate.ENDS_RUN
        configs.append(_examined(tuned.launch.configs[place], record, fate, estimates[place]))
    result = TunerResult(
        kernel=tuned.cell.kernel.name,
        package=tuned.cell.kernel.package,
        toolchain=tuned.cell.toolchain,
        target=tuned.cell.target,
        dtype=tuned.cell.dtype,
        launch=None,
        configs=configs,
        keys=keys,
        cost=None,
        ends=_ends(asked, records, configs, fatal),
        pruned=pruned,
        unkeyed=find_unkeyed_constexprs(evidence),
        tuning_keys=_tuning_keys(evidence),
    )
    if not configs:
        return result
    # A launch that no call was seen of is tuned for once.
    distinct = max(len(evidence.by_key), 1)
    return replace(result, launch=tuned.launch.to_json(), cost=cost(configs, distinct, workers))


def _tuning_keys(evidence: KeyEvidence) -> list[TuningKey]:
    """Return the distinct keys of the calls that the launch stands for."""
    keys: dict[str, TuningKey] = {}
    for call in evidence.tuned_launch.equivalent_calls:
        for key in evidence.tuning_keys(call):
            # As text: to Python 1 and True are equal, to a file they are not.
            keys[canonical([key.values, key.dtypes])] = key
    return list(keys.values())


def _audit(asked: Trials, records: Mapping[str, Record]) -> list[Mapping[str, Any]]:
    """What the release put into its key, where it was asked."""
    looked_up: dict[str, Mapping[str, Any]] = {}
    if asked.keys is not None:
        for finding in records[asked.keys.key].findings:
            for key in finding["facts"].get("keys", ()):
                looked_up[key["key"]] = key
    return list(looked_up.values())


def _examined(
    config: Mapping[str, Any], record: Record, fate: Fate | None, estimate: float
) -> ExaminedConfig:
    held, warps = record.resources, config.get("num_warps", DEFAULT_WARPS)
    filled = occupancy(targets.find(record.target), warps, held["registers"], held["shared"])
    return ExaminedConfig(config, record, filled, fate, estimate)


def _fate(record: Record) -> Fate | None:
    """The trial's own outcome; None where it has none."""
    if record.verdict is Verdict.COMPILES:
        return Fate.RUNS
    if record.verdict is not Verdict.FAILS:
        return None
    if record.tolerated:
        return Fate.SKIPPED
    return Fate.ENDS_RUN


def _ends(
    asked: Trials,
    records: Mapping[str, Record],
    configs: Sequence[ExaminedConfig],
    fatal: KeyFault | None,
) -> str | None:
    """Why no run of this autotuner comes to its end, the first reason it meets."""
    if asked.imports is not None:
        record = records[asked.imports.key]
        if record.verdict is not Verdict.FAILS:
            return None
        first_line = next(iter(record.message.splitlines()), "")
        return f"{record.code} {first_line}"
    if fatal:
        return f"key {fatal.key} {fatal.why}, before any configuration is tried"
    for place, config in enumerate(configs, 1):
        if config.fate is Fate.ENDS_RUN:
            return f"configuration {place} of {len(configs)} fails with {config.record.code}"
    if configs and all(config.fate is Fate.SKIPPED for config in configs):
        # The least of infinite times is launched.
        return (
            "every configuration is skipped, and the launch of one of them then raises "
            "what it was skipped for"
        )
    return None
