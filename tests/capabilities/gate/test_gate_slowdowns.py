"""The gate's judgement of releases that are slower on a measured GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import flacheck
from flacheck.errors import Exit, UsageError
from flacheck.evidence.measured.comparison import FIELD, beside_first, slowdowns
from flacheck.model import Purpose
from flacheck.store import Store
from tests.evidence.measured.test_comparison import launch, measurement
from tests.made_gate import COMPILES, gate, states
from tests.made_records import record

OLD, NEW = "triton==3.4.0", "triton==3.5.0"
SLOW = measurement(launch("hgrn", {OLD: 10.0, NEW: 14.0}), launch("gla", {OLD: 10.0, NEW: 11.5}))
BETTER = measurement(launch("hgrn", {OLD: 10.0, NEW: 11.5}))


def test_a_release_with_a_slower_operator_is_bad() -> None:
    """The reason names the GPU, the release beside it and the operators; the others pass."""

    def find_slowdowns(release: str) -> list[str]:
        return slowdowns(beside_first([SLOW], f"triton=={release}"), 1.2)

    outcome = gate(COMPILES, "triton>=3.4,<3.6", find_slowdowns=find_slowdowns)
    assert states(outcome) == {"3.4.0": "good", "3.5.0": "bad"}
    assert outcome.exit_code() is Exit.FINDINGS
    (slow,) = [each for each in outcome.versions if each.triton == "3.5.0"]
    assert slow.why == "on an H200, slower than under triton==3.4.0 by more than 1.2: hgrn 1.40"


def test_the_newest_measurement_of_a_card_decides() -> None:
    """An older measurement on the same card no longer counts, one on another card does."""
    assert slowdowns(beside_first([SLOW, BETTER], NEW), 1.2) == []
    other = measurement(launch("hgrn", {OLD: 10.0, NEW: 13.0}), card="NVIDIA B200")
    (sentence,) = slowdowns(beside_first([other, SLOW, BETTER], NEW), 1.2)
    assert sentence.startswith("on a B200, ")
    assert beside_first([SLOW], OLD) == []


def test_the_option_reads_the_store(tmp_path: Path) -> None:
    """A ratio below 1, or a store without a measurement, is a usage error."""
    pins: dict[str, object] = {"triton": "==3.5.0", "store": tmp_path, "no_published": True}
    with pytest.raises(UsageError, match="nothing was measured"):
        flacheck.gate(max_slowdown=1.2, **pins)
    with Store.open(tmp_path) as store:
        run = store.begin_run({}, "package==1.0", purpose=Purpose.MEASURE)
        store.finish_run(run, {FIELD: SLOW.to_json()})
        scan = store.begin_run({}, "matrix")
        store.add_many(scan, [record(toolchain=NEW)])
        store.finish_run(scan)
    with pytest.raises(UsageError, match="at least 1"):
        flacheck.gate(max_slowdown=0.5, **pins)
    outcome = flacheck.gate(max_slowdown=1.2, **pins)
    assert outcome.exit_code() is not Exit.USAGE
