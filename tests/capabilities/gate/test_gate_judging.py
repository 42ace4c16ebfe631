"""What the records say of what is admitted: states, exit codes, waivers, what is known good."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from flacheck import reports
from flacheck.capabilities.gate.result import ReleaseState, WaiverUse
from flacheck.errors import Exit
from flacheck.model import Record
from flacheck.reports import gate as gate_report
from flacheck.reports.document import Display
from flacheck.tables.settings.waivers import Waiver
from tests.made_gate import (
    BROKEN,
    COMPILES,
    RECORDS,
    gate,
    on,
    states,
)
from tests.made_records import DELTA, PACKAGE, failure, record, skipped, unknown


@pytest.mark.parametrize(
    ("pins", "found", "code"),
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
def test_records_decide(pins: list[str], found: dict[str, str], code: Exit) -> None:
    """A failing release that is admitted is a finding, one without a record is none while another
    has one.
    """
    outcome = gate(RECORDS, *pins)
    assert (states(outcome), outcome.exit_code()) == (found, code)


def test_a_failing_release_names_codes_and_kernels() -> None:
    """And the torch releases that bring it."""
    (version,) = gate(RECORDS, "triton==3.2.0").to_json()["versions"]
    assert version == {
        "triton": "3.2.0",
        "torch": ["2.6.0"],
        "state": "bad",
        "standing": "bad",
        "codes": ["FC302"],
        "kernels": [DELTA],
        "why": "",
        "advisories": [],
        "answered": 2,
        "asked": 2,
        "known": 0,
    }


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
    """An unknown cell leaves it without a verdict, a skipped one does not count, a tolerated failure is
    served by another.
    """
    (version,) = gate(records, "triton==3.4.0").versions
    assert (version.state.value, version.why) == (state, why)


def test_a_good_release_counts_only_cells_with_evidence() -> None:
    """A timeout that another configuration makes up for is counted apart from the cells."""
    records = [record(**on("3.4.0")), unknown(**on("3.4.0"), options={"num_warps": 8})]
    result = gate(records, "triton==3.4.0")
    (version,) = result.versions
    assert (version.cells, version.unknown) == (1, 1)
    report = gate_report.report(result, "flacheck gate", suggest=False, strict=False)
    shown = "".join(reports.render("markdown", report, Display()))
    assert "1 cell on sm90, 1 without a verdict" in shown


def test_targets_that_are_asked_must_all_be_known() -> None:
    """Without targets those count that have records."""
    assert states(gate(RECORDS, "triton==3.4.0", targets=("sm90",))) == {"3.4.0": "good"}
    (version,) = gate(RECORDS, "triton==3.4.0", targets=("sm80", "sm90")).versions
    assert (version.state, version.why) == (ReleaseState.NO_RECORD, "no record on sm80")


def test_an_advisory_makes_a_good_release_compile_but() -> None:
    """A finding only when strict; a failing release stays failing."""

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
    """And a finding comes before that."""
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
    """The release is judged by the rest, and the waiver says how many cells it lets pass."""
    outcome = gate([BROKEN, record(**on("3.2.0"))], "triton==3.2.0", waivers=(waiver,))
    assert states(outcome) == {"3.2.0": "good"}
    assert outcome.exit_code() is Exit.OK
    assert [(found.use, found.cells) for found in outcome.judged_waivers] == [(WaiverUse.ACTIVE, 1)]
    assert outcome.to_json()["versions"][0]["codes"] == []


def test_a_release_all_of_whose_cells_are_waived_passes() -> None:
    """There is nothing left to ask of it."""
    outcome = gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),))
    assert outcome.exit_code() is Exit.OK


def test_an_expired_waiver_is_a_finding_and_waives_nothing() -> None:
    """Even where nothing that is admitted fails."""
    waiver = Waiver(reason="known", kernel="*", expires=date(2026, 11, 20))
    assert states(gate(RECORDS, "triton==3.2.0", waivers=(waiver,))) == {"3.2.0": "bad"}
    outcome = gate(COMPILES, "triton==3.4.0", waivers=(waiver,))
    assert [found.use for found in outcome.judged_waivers] == [WaiverUse.EXPIRED]
    assert outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_whose_cell_compiles_again_is_a_finding() -> None:
    """By a kernel, or by the signature that the same cell once failed with."""
    by_kernel = gate(
        COMPILES, "triton==3.4.0", waivers=(Waiver(reason="known", kernel="chunk_gated_*"),)
    )
    mended = [*COMPILES, record(**on("3.2.0"), options={"num_warps": 8})]
    once = Waiver(reason="known", signature=BROKEN.signature)
    by_signature = gate(mended, "triton==3.4.0", waivers=(once,), history=[BROKEN])
    for outcome in (by_kernel, by_signature):
        assert [found.use for found in outcome.judged_waivers] == [WaiverUse.MENDED]
        assert outcome.exit_code() is Exit.FINDINGS


def test_a_waiver_of_something_that_was_not_tried_is_no_finding() -> None:
    """Another store may hold it."""
    unused = (
        Waiver(reason="known", kernel="other"),
        Waiver(reason="known", signature="FC302:other"),
    )
    outcome = gate(COMPILES, "triton==3.4.0", waivers=unused)
    assert {found.use for found in outcome.judged_waivers} == {WaiverUse.UNUSED}
    assert outcome.exit_code() is Exit.OK


def test_what_is_known_good_is_said_as_a_requirement() -> None:
    """Of Triton and of torch, whatever the pins admit; nothing where nothing is good."""
    assert gate(RECORDS, "triton==3.2.0").known_good == (
        "triton>=3.1.0,!=3.2.0,!=3.3.0,!=3.3.1,<3.9",
        "torch>=2.5.1,!=2.6.0,!=2.7.0,!=2.7.1,<2.15",
    )
    assert gate([BROKEN], "triton==3.2.0").known_good == ()
    assert (
        gate([BROKEN], "triton==3.2.0", waivers=(Waiver(reason="known", kernel="*"),)).known_good
        == ()
    )


def test_an_advisory_is_said_of_a_release_that_nobody_compiled_for() -> None:
    """By the kernels and packages that other releases were asked about; no state follows."""
    asked: list[Any] = []

    def advise(kernels: Any, triton: str, target: str, packages: Any) -> list[str]:
        asked.append((set(kernels), triton, target, set(packages)))
        return ["wrong gradients"]

    outcome = gate(COMPILES, "triton==3.3.1", advise=advise)
    (version,) = outcome.versions
    assert (version.state, version.advisories) == (ReleaseState.NO_RECORD, ("wrong gradients",))
    assert ({DELTA}, "3.3.1", "sm90", {PACKAGE}) in asked
    assert outcome.exit_code() is Exit.INCOMPLETE
    assert outcome.exit_code(strict=True) is Exit.FINDINGS
