"""From records to the fate of each configuration and of the whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.autotune import judging
from flacheck.capabilities.autotune.results import Fate
from flacheck.capabilities.autotune.trials import trials
from tests.made_records import failure, unknown
from tests.made_tuned import call, constexpr, fatal, good, result, skipped, tuned_launch


def test_a_fate_is_what_the_trial_showed(tmp_path: Path) -> None:
    """A configuration runs, is skipped, or ends the run."""
    outcome = result(tmp_path, good(), skipped(), fatal())
    assert [each.fate for each in outcome.configs] == [Fate.RUNS, Fate.SKIPPED, Fate.ENDS_RUN]
    assert outcome.ends == "configuration 3 of 3 fails with FC302"
    assert outcome.is_finding


def test_of_what_is_unknown_nothing_is_said(tmp_path: Path) -> None:
    """A timeout has no fate and is not a finding."""
    outcome = result(tmp_path, good(), unknown())
    assert [each.fate for each in outcome.configs] == [Fate.RUNS, None]
    assert outcome.ends is None
    assert not outcome.is_finding


def test_a_run_of_skipped_configurations_ends_too(tmp_path: Path) -> None:
    """A run that skips every configuration is a finding."""
    outcome = result(tmp_path, skipped(), skipped())
    assert outcome.ends is not None
    assert "every configuration is skipped" in outcome.ends
    assert outcome.is_finding


def test_a_key_past_the_end_ends_the_run_before_any_trial(tmp_path: Path) -> None:
    """A key past the end is every configuration's fate; the verdicts stay."""
    audit = {"key": "K", "want": "K", "got": None, "fault": "past-end"}
    findings = ({"code": "FC601", "title": "", "facts": {"keys": [audit]}},)
    keys = failure("FC601").with_(findings=findings)
    outcome = result(tmp_path, good(), good(), keys=keys, toolchain="triton==3.1.0")
    assert [(each.compiles, each.fate) for each in outcome.configs] == [(True, Fate.ENDS_RUN)] * 2
    assert outcome.ends is not None
    assert "IndexError" in outcome.ends


def test_tuning_keys_are_those_of_the_calls_that_the_launch_stands_for(tmp_path: Path) -> None:
    """Calls that share the launch's binary give its tuning keys, each once."""
    other = call(x={"dtype": "fp16", "align": 16})
    alike = (call(), call(T={"int": 1024}), call(H=constexpr(8)))
    launch = replace(tuned_launch(tmp_path, *alike, other), equivalent_calls=alike)
    tuner_trials = trials(launch)
    records = {cell.key: good() for cell in tuner_trials.configs}
    outcome = judging.judge(tuner_trials, records, [1.0, 2.0])
    assert [str(key) for key in outcome.tuning_keys] == [
        "H=4 K=64 USE_G=False bf16",
        "H=8 K=64 USE_G=False bf16",
    ]
    assert outcome.cost is not None
    assert outcome.cost.keys == 3
