"""From records to results: what the release makes of each configuration, and of the whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flacheck.capabilities.autotune import judging
from flacheck.capabilities.autotune.results import Fate
from flacheck.capabilities.autotune.trials import trials
from tests.made_records import failure, unknown
from tests.made_tuned import call, constexpr, fatal, good, result, skipped, tuned


def test_a_fate_is_what_the_trial_showed(tmp_path: Path) -> None:
    """Compiled, forgiven, or neither."""
    judged = result(tmp_path, good(), skipped(), fatal())
    assert [each.fate for each in judged.configs] == [Fate.RUNS, Fate.SKIPPED, Fate.ENDS_RUN]
    assert judged.ends == "configuration 3 of 3 fails with FC302"
    assert judged.is_finding


def test_of_what_is_unknown_nothing_is_said(tmp_path: Path) -> None:
    """A time-out has no fate, and is no finding."""
    judged = result(tmp_path, good(), unknown())
    assert [each.fate for each in judged.configs] == [Fate.RUNS, None]
    assert judged.ends is None
    assert not judged.is_finding


def test_a_run_of_skipped_configurations_ends_too(tmp_path: Path) -> None:
    """The least of infinite times is launched, and raises."""
    judged = result(tmp_path, skipped(), skipped())
    assert judged.ends is not None
    assert "every configuration is skipped" in judged.ends
    assert judged.is_finding


def test_a_key_past_the_end_ends_the_run_before_any_trial(tmp_path: Path) -> None:
    """The verdicts stay, the fates do not."""
    audit = {"key": "K", "want": "K", "got": None, "fault": "past-end"}
    findings = ({"code": "FC601", "title": "", "facts": {"keys": [audit]}},)
    keys = failure("FC601").with_(findings=findings)
    judged = result(tmp_path, good(), good(), keys=keys, toolchain="triton==3.1.0")
    assert [(each.compiles, each.fate) for each in judged.configs] == [(True, Fate.ENDS_RUN)] * 2
    assert judged.ends is not None
    assert "IndexError" in judged.ends


def test_tuning_keys_are_those_of_the_calls_that_the_launch_stands_for(tmp_path: Path) -> None:
    """Each once, with the names of the values; calls of other binaries have launches of their
    own."""
    other = call(x={"dtype": "fp16", "align": 16})
    alike = (call(), call(T={"int": 1024}), call(H=constexpr(8)))
    made = replace(tuned(tmp_path, *alike, other), equivalent_calls=alike)
    asked = trials(made)
    known = {cell.key: good() for cell in asked.configs}
    judged = judging.judge(asked, known, [1.0, 2.0])
    assert [str(key) for key in judged.tuning_keys] == [
        "H=4 K=64 USE_G=False bf16",
        "H=8 K=64 USE_G=False bf16",
    ]
    assert judged.cost is not None
    assert judged.cost.keys == 3
