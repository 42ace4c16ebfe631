"""From records to the fate of each configuration and of the whole run."""

from __future__ import annotations

from pathlib import Path

from flacheck.capabilities.autotune.results import Fate
from tests.made_records import failure, unknown
from tests.made_tuned import fatal, good, result, skipped


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
