"""Findings without a log: GPU limits, slow compiles and autotuner keys."""

from __future__ import annotations

import statistics

from flacheck.model import Attempt, Resources
from flacheck.rules import RULES, classify, signature
from flacheck.rules.measurements import key_findings, over_limits, slow
from flacheck.tables.targets import TARGETS
from tests.rule_logs import json_of, signature_of


def test_shifted_keys_are_named() -> None:
    """The finding names the wrong key and its value."""
    (finding,) = classify(Attempt.from_json(json_of("FC602/golden-key-behind-tuned-3.1.0.json")))
    assert finding.code == "FC602"
    assert finding.title.endswith(": K")
    assert finding.message == "autotune keys: K reads V"
    assert finding.facts["keys"][0]["got"] == "V"
    assert classify(Attempt.from_json(json_of("FC602/near-by-name-3.2.0.json"))) == []


def test_a_slow_compile_is_a_finding_that_changes_no_verdict() -> None:
    """A slow compile takes ten seconds and five medians."""
    slowest, quick = (
        json_of("FC921/golden-fp16-sm70-3.4.0.json"),
        json_of("FC921/near-bf16-sm70-3.6.0.json"),
    )
    assert [
        f.code for f in slow(slowest["seconds"], statistics.median(slowest["others"].values()))
    ] == ["FC921"]
    assert slow(quick["seconds"], statistics.median(quick["others"].values())) == []
    assert slow(9.9, 0.1) == []
    assert slow(40.0, 8.1) == []
    assert RULES["FC921"].effect == "compiles"


def test_resources_over_the_limits_of_a_target() -> None:
    """The limits are those of the GPU."""
    need = Resources(shared=166_912, registers=64, threads=128)
    assert over_limits(need, TARGETS["sm90"]) == []
    (finding,) = over_limits(need, TARGETS["sm89"])
    assert (finding.code, finding.facts) == ("FC501", {"required": 166_912, "limit": 101_376})


def test_every_limit_has_its_code() -> None:
    """Each exceeded limit has its code, in Triton's order."""
    need = Resources(shared=300_000, registers=255, threads=2_048, tensor_memory=768)
    assert [finding.code for finding in over_limits(need, TARGETS["sm100"])] == [
        "FC501",
        "FC504",
        "FC502",
        "FC503",
    ]
    assert over_limits(Resources(), TARGETS["sm70"]) == []


def test_a_limit_has_one_signature_at_compile_time_and_at_run_time() -> None:
    """flacheck's limit and Triton's OutOfResources have one signature."""
    (finding,) = over_limits(Resources(shared=245_760), TARGETS["sm90"])
    assert signature(finding, "load") == signature_of("FC501/golden-sm90-3.2.0.log", "load")


def test_registers_are_handed_out_in_eights() -> None:
    """Registers are rounded up to eight a thread."""
    fits = Resources(registers=64, threads=1_024)
    over = Resources(registers=65, threads=1_024)
    assert over_limits(fits, TARGETS["sm90"]) == []
    (finding,) = over_limits(over, TARGETS["sm90"])
    assert (finding.code, finding.facts) == ("FC503", {"required": 73_728, "limit": 65_536})


def test_keys_of_one_fault_are_one_finding() -> None:
    """Keys of one fault are one finding, the fatal one first."""
    audits = [
        {"key": "K", "got": "V", "fault": "shifted"},
        {"key": "BT", "got": None, "fault": "past-end"},
        {"key": "V", "got": "K", "fault": "shifted"},
        {"key": "T", "got": "T", "fault": None},
    ]
    past, wrong = key_findings(audits)
    assert (past.code, past.message) == ("FC601", "autotune keys: BT reads nothing")
    assert (wrong.code, wrong.message) == ("FC602", "autotune keys: K reads V; V reads K")
    assert wrong.facts == {"keys": [audits[0], audits[2]]}
    assert key_findings([]) == []
