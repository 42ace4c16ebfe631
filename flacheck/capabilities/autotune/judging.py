"""The result of each tuned launch, from the records of its configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

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

# The fault of a key that prevents every trial.
_FATAL = "past-end"


def judge(
    trials: Trials,
    records: Mapping[str, Record],
    estimates: Sequence[float],
    pruned_configs: Sequence[Mapping[str, Any]] = (),
) -> TunerResult:
    """Return the result of a launch.

    Args:
        trials: The launch and its cells.
        records: The records of the cells by key.
        estimates: The estimated time of each configuration.
        pruned_configs: The configurations that the kernel prunes itself.
    """
    tuned_launch = trials.tuned_launch
    cell = tuned_launch.cell
    evidence = KeyEvidence(tuned_launch, version(cell), _audit(trials, records))
    keys = faults(evidence)
    fatal = None
    for fault in keys:
        if fault.fault == _FATAL:
            fatal = fault
            break
    configs = []
    for index, trial in enumerate(trials.configs):
        record = records[trial.key]
        fate = _fate(record)
        # The compiler's verdict stays, but the autotuner never reaches the trial.
        if fatal and fate:
            fate = Fate.ENDS_RUN
        config = tuned_launch.launch.configs[index]
        configs.append(_examined_config(config, record, fate, estimates[index]))
    launch = tuned_launch.launch.to_json() if configs else None
    return TunerResult(
        kernel=cell.kernel.name,
        package=cell.kernel.package,
        toolchain=cell.toolchain,
        target=cell.target,
        dtype=cell.dtype,
        launch=launch,
        configs=configs,
        keys=keys,
        ends=_ends(trials, records, configs, fatal),
        pruned=pruned_configs,
        unkeyed=find_unkeyed_constexprs(evidence),
        tuning_keys=_tuning_keys(evidence),
    )


def _tuning_keys(evidence: KeyEvidence) -> list[TuningKey]:
    """Return the distinct keys of the calls that the launch stands for."""
    keys: dict[str, TuningKey] = {}
    for call in evidence.tuned_launch.equivalent_calls:
        for key in evidence.tuning_keys(call):
            # Compared as text, because 1 equals True in Python, but not in a file.
            keys[canonical([key.values, key.dtypes])] = key
    return list(keys.values())


def _audit(trials: Trials, records: Mapping[str, Record]) -> list[Mapping[str, Any]]:
    """Return the values that the release put into its key; empty without a cell for that."""
    by_name: dict[str, Mapping[str, Any]] = {}
    if trials.keys is not None:
        for finding in records[trials.keys.key].findings:
            for key in finding["facts"].get("keys", ()):
                by_name[key["key"]] = key
    return list(by_name.values())


def _examined_config(
    config: Mapping[str, Any], record: Record, fate: Fate | None, estimate: float
) -> ExaminedConfig:
    resources = record.resources
    warps = config.get("num_warps", DEFAULT_WARPS)
    target = targets.find(record.target)
    fill = occupancy(target, warps, resources["registers"], resources["shared"])
    return ExaminedConfig(config, record, fill, fate, estimate)


def _fate(record: Record) -> Fate | None:
    """Return the outcome of a trial; None without a verdict."""
    if record.verdict is Verdict.COMPILES:
        return Fate.RUNS
    if record.verdict is not Verdict.FAILS:
        return None
    if record.tolerated:
        return Fate.SKIPPED
    return Fate.ENDS_RUN


def _ends(
    trials: Trials,
    records: Mapping[str, Record],
    configs: Sequence[ExaminedConfig],
    fatal: KeyFault | None,
) -> str | None:
    """Return the first reason why every run of this autotuner fails; None if a run succeeds."""
    if trials.imports is not None:
        record = records[trials.imports.key]
        if record.verdict is not Verdict.FAILS:
            return None
        lines = record.message.splitlines() or [""]
        return f"{record.code} {lines[0]}"
    if fatal:
        return f"key {fatal.key} {fatal.why}, before any configuration is tried"
    for number, config in enumerate(configs, 1):
        if config.fate is Fate.ENDS_RUN:
            return f"configuration {number} of {len(configs)} fails with {config.record.code}"
    if configs and all(config.fate is Fate.SKIPPED for config in configs):
        # Every time is infinite, and the autotuner launches the first of the least.
        return (
            "every configuration is skipped, and the launch of one of them then raises "
            "what it was skipped for"
        )
    return None
