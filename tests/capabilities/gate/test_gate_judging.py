"""States of admitted releases, exit codes, waivers and known-good pins."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from flacheck.capabilities.gate.judged_pins import ReleaseState, WaiverUse
from flacheck.errors import Exit
from flacheck.model import Record
from flacheck.tables.settings.waivers import Waiver
from tests.made_gate import (
    BROKEN,
    COMPILES,
    RECORDS,
    gate,
    on,
    states,
)
from tests.made_records import DELTA, failure, record, skipped, unknown


@pytest.mark.parametrize(
    ("pins", "release_states", "code"),
    [
        (["triton==3.2.0"], {"3.2.0": "bad"}, Exit.FINDINGS),
        (["triton>=3.4,<3.9"], {"3.4.0": "good", "3.5.0": "good", "3.8.0": "good"}, Exit.OK),
        (["triton>=3.3.1,<3.5"], {"3.3.1": "no-record", "3.4.0": "good"}, Exit.OK),
        (["triton==3.3.1"], {"3.3.1": "no-record"}, Exit.INCOMPLETE),
        (["torch==2.7.1", "triton==3.4.0"], {}, Exit.FINDINGS),
        (["torch==2.6.0"], {"3.2.0": "bad"}, Exit.FINDINGS),
        (["torch==2.8.0"], {"3.4.0": "good"}, Exit.OK),
        (["triton>=3.5"], {"3.5.0": "good", "3.8.0": "good", ">3.8.0": "no-record"}, Exit.OK),
    ],
)
def test_records_decide(pins: list[str], release_states: dict[str, str], code: Exit) -> None:
    """A failing admitted release is a finding; one without a record is not if another has one."""
    outcome = gate(RECORDS, *pins)
    assert (states(outcome), outcome.exit_code()) == (release_states, code)


@pytest.mark.parametrize(
    ("records", "state", "why"),
    [
        (
            [record(**on("3.4.0")), unknown(**on("3.4.0"), kernel="m:other")],
            "screened",
            "compiled: 1 of 2 configurations, 1 of 2 kernels",
        ),
        ([record(**on("3.4.0")), unknown(**on("3.4.0"), options={"num_warps": 8})], "good", ""),
        ([skipped(**on("3.4.0"))], "no-record", "only skipped cells"),
        ([record(**on("3.4.0")), skipped(**on("3.4.0"), target="sm120")], "good", ""),
        (
            [
                record(**on("3.4.0")),
                failure("FC501", tolerated=True, **on("3.4.0"), options={"num_warps": 8}),
            ],
            "good",
            "",
        ),
        ([failure("FC501", tolerated=True, **on("3.4.0"))], "bad", ""),
        ([record(**on("3.4.0")), failure(**on("3.4.0"), target="sm80")], "bad", ""),
        ([record(**on("3.4.0+local.0123abcd"))], "no-record", "no record"),
    ],
)
def test_a_release_is_good_as_the_contract_has_it(
    records: list[Record], state: str, why: str
) -> None:
    """The state of a release follows the contract's definition."""
    (version,) = gate(records, "triton==3.4.0").versions
    assert (version.state.value, version.why) == (state, why)


def test_targets_that_are_asked_must_all_be_known() -> None:
    """Each requested target needs a record."""
    assert states(gate(RECORDS, "triton==3.4.0", targets=("sm90",))) == {"3.4.0": "good"}
    (version,) = gate(RECORDS, "triton==3.4.0", targets=("sm80", "sm90")).versions
    assert (version.state, version.why) == (ReleaseState.NO_RECORD, "no record on sm80")


def test_an_advisory_makes_a_good_release_compile_but() -> None:
    """An advisory is a finding only under --strict."""

    def advise(kernels: Any, triton: str, target: str, packages: Any) -> list[str]:
        return (
            [f"{triton} computes wrong gradients"] if DELTA in kernels and target == "sm90" else []
        )

    outcome = gate(RECORDS, "triton>=3.4,<3.5", advise=advise)
    assert states(outcome) == {"3.4.0": "advised"}
    assert outcome.versions[0].advisories == ("3.4.0 computes wrong gradients",)
    assert (outcome.exit_code(), outcome.exit_code(strict=True)) == (Exit.OK, Exit.FINDINGS)
    assert states(gate(RECORDS, "triton==3.2.0", advise=advise)) == {"3.2.0": "bad"}


def test_strictly_a_release_without_record_is_incomplete() -> None:
    """Under --strict a missing record is incomplete, after findings."""
    assert gate(RECORDS, "triton>=3.5").exit_code(strict=True) is Exit.INCOMPLETE
    assert gate(RECORDS, "triton>=3.2").exit_code(strict=True) is Exit.FINDINGS


@pytest.mark.parametrize(
    "waiver",
    [
        Waiver(reason="known", signature=BROKEN.signature),
        Waiver(reason="known", kernel="chunk_gated_*"),
    ],
)
def test_a_waived_failure_is_no_finding(waiver: Waiver) -> None:
    """The release is judged by its other cells, and the waiver has its count."""
    outcome = gate([BROKEN, record(**on("3.2.0"))], "triton==3.2.0", waivers=(waiver,))
    assert states(outcome) == {"3.2.0": "good"}
    assert outcome.exit_code() is Exit.OK
    assert [
        (waiver_result.use, waiver_result.cells) for waiver_result in outcome.judged_waivers
    ] == [(WaiverUse.ACTIVE, 1)]
    assert outcome.to_json()["versions"][0]["codes"] == []


def test_a_release_all_of_whose_cells_are_waived_passes() -> None:
    """A release whose cells are all waived passes."""
    outcome = gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),))
    assert outcome.exit_code() is Exit.OK


def test_an_expired_waiver_is_a_finding_and_waives_nothing() -> None:
    """An expired waiver is a finding even without a failure."""
    waiver = Waiver(reason="known", kernel="*", expires=date(2026, 11, 20))
    assert states(gate(RECORDS, "triton==3.2.0", waivers=(waiver,))) == {"3.2.0": "bad"}
    outcome = gate(COMPILES, "triton==3.4.0", waivers=(waiver,))
    assert [waiver_result.use for waiver_result in outcome.judged_waivers] == [WaiverUse.EXPIRED]
    assert outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_whose_cell_compiles_again_is_a_finding() -> None:
    """A waiver of a kernel or signature that compiles again is a finding."""
    by_kernel = gate(
        COMPILES, "triton==3.4.0", waivers=(Waiver(reason="known", kernel="chunk_gated_*"),)
    )
    records = [*COMPILES, record(**on("3.2.0"), options={"num_warps": 8})]
    once = Waiver(reason="known", signature=BROKEN.signature)
    by_signature = gate(records, "triton==3.4.0", waivers=(once,), history=[BROKEN])
    for outcome in (by_kernel, by_signature):
        assert [waiver_result.use for waiver_result in outcome.judged_waivers] == [WaiverUse.MENDED]
        assert outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_of_something_that_was_not_tried_is_no_finding() -> None:
    """A waiver without a tested cell is unused."""
    without_cell = (
        Waiver(reason="known", kernel="other"),
        Waiver(reason="known", signature="FC302:other"),
    )
    outcome = gate(COMPILES, "triton==3.4.0", waivers=without_cell)
    assert {waiver_result.use for waiver_result in outcome.judged_waivers} == {WaiverUse.UNUSED}
    assert outcome.exit_code() is Exit.OK


def test_what_is_known_good_is_said_as_a_requirement() -> None:
    """Known-good releases are given as requirements of Triton and torch."""
    assert gate(RECORDS, "triton==3.2.0").known_good == (
        "triton>=3.4.0,<3.9",
        "torch>=2.8.0,<2.15",
    )
    assert gate([BROKEN], "triton==3.2.0").known_good == ()
    assert (
        gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),)).known_good
        == ()
    )
