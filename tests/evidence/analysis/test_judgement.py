"""One standing for each subject, release and GPU, from all evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.evidence.analysis.judgement import judge, package_failures
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.evidence.answers import run_answer
from flacheck.model import Record
from flacheck.model.answer import VerdictWord
from tests.made_records import PACKAGE, failure, record, unknown, whole

RELEASES = ("triton==3.4.0", "triton==3.5.1", "triton==3.6.0")
OTHER = {"kernel": "m:other"}


def evidence(records: list[Record], configs: str = "usual", **more: Any) -> list[Standing]:
    """The standings of a package's scan with a choice of configurations."""
    return whole(records, about=PACKAGE, selection={"configs": [configs]}, **more)


def states(standings: list[Standing]) -> dict[str, str]:
    """The state of each release."""
    return {standing.toolchain: standing.state.value for standing in standings}


def test_a_failure_of_other_configurations_makes_a_release_bad() -> None:
    """A failure among `edges` makes a release bad whose usual configurations compile."""
    usual = evidence([record(toolchain=RELEASES[0])])
    edges = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "edges")
    (outcome,) = judge([*usual, *edges])
    assert outcome.state is StandingState.BAD
    assert [cell.options for cell in outcome.failing] == [{"num_warps": 8}]


def test_evidence_beside_adds_failures_and_no_numbers() -> None:
    """A wider scan does not change the number of kernels of a run's question."""
    usual = evidence([record(toolchain=RELEASES[0])])
    own = evidence([record(toolchain=RELEASES[0]), record(**OTHER, toolchain=RELEASES[0])], "own")
    (outcome,) = judge(usual, own)
    assert outcome.kernel_share.of == 1
    (outcome,) = judge([*usual, *own])
    assert outcome.kernel_share.of == 2


def test_a_partial_question_leaves_a_complete_one_as_it_is() -> None:
    """An interrupted scan does not replace a complete question."""
    usual = evidence([record(toolchain=RELEASES[0])])
    (partial,) = evidence([record(toolchain=RELEASES[0])], "own")
    partial = replace(partial, requested_count=9)
    assert states(judge([*usual, partial])) == {RELEASES[0]: "good"}
    assert states(judge([partial])) == {RELEASES[0]: "partial"}


def test_a_part_is_no_answer() -> None:
    """A failure does not make a scan that stopped early an answer; a complete release comes first."""
    bad = failure(kernel="m:bad", toolchain=RELEASES[1])
    parts = [*(record(kernel=f"m:{name}", toolchain=RELEASES[1]) for name in "ab"), bad]
    (partial,) = evidence(parts)
    partial = replace(partial, requested_count=9)
    answer = run_answer(judge([partial]), {})
    assert answer.verdict is VerdictWord.UNKNOWN
    assert answer.answer.endswith("; so far 1 of 3 kernels fails")
    whole_release = evidence([record(toolchain=RELEASES[0])])
    assert run_answer(judge([partial, *whole_release]), {}).answer.startswith("Yes: ")


def test_a_failure_of_a_partial_question_counts() -> None:
    """A failure of an interrupted scan makes the release bad."""
    usual = evidence([record(toolchain=RELEASES[0])])
    (partial,) = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "own")
    partial = replace(partial, requested_count=9)
    assert states(judge([*usual, partial])) == {RELEASES[0]: "bad"}


def test_the_first_question_decides_about_a_cell_of_both() -> None:
    """The first question's record of a cell is taken."""
    good = record(toolchain=RELEASES[0])
    own = evidence([good], "own")
    failing = Record.from_json({**failure(toolchain=RELEASES[0]).to_json(), "key": good.key})
    assert states(judge([*own, *evidence([failing])])) == {RELEASES[0]: "good"}


def test_equal_failures_are_counted_once() -> None:
    """A failure in two questions is counted once."""
    usual = evidence([failure(toolchain=RELEASES[0])])
    edges = evidence(
        [failure(toolchain=RELEASES[0]), failure(toolchain=RELEASES[0], options={"num_warps": 8})],
        "edges",
    )
    (outcome,) = judge([*usual, *edges])
    assert len(outcome.failing) == 2


def test_counts_of_equal_failures_are_not_added() -> None:
    """A file's count of a failure is not added to the scan's own."""
    own = evidence([failure(toolchain=RELEASES[0])])
    counts = evidence([failure(toolchain=RELEASES[0]), failure(toolchain=RELEASES[0], **OTHER)])
    header = []
    for standing in counts:
        cells = tuple(replace(cell, key=f"count of {cell.kernel}") for cell in standing.cells)
        shares = (standing.configurations, standing.kernel_share)
        header.append(replace(standing, cells=cells, stored_shares=shares))
    (outcome,) = judge([*own, *header])
    assert sorted(cell.kernel for cell in outcome.failing) == sorted(
        [own[0].cells[0].kernel, "m:other"]
    )


def test_a_failure_that_every_release_shares_is_the_packages() -> None:
    """A failure under every release is the package's, and the releases are screened."""
    records = []
    for release in RELEASES:
        source_failure = failure(
            "FC111", "Unsupported ptr type", toolchain=release, stage="ast", **OTHER
        )
        records += [record(toolchain=release), source_failure]
    outcome = judge(evidence(records))
    assert set(states(outcome).values()) == {"screened"}
    (shared,) = package_failures(outcome)
    assert shared.to_json() == {
        "kernel": "m:other",
        "package": PACKAGE,
        "code": "FC111",
        "line": "Unsupported ptr type",
        "toolchains": list(RELEASES),
        "targets": ["sm90"],
    }
    assert all(standing.failing == () for standing in outcome)
    sentence = run_answer(outcome, {}).answer
    assert "1 of 2 kernels compile, 1 under no release" in " ".join(sentence.split())


def test_a_package_that_mostly_fails_everywhere_is_no_plain_yes() -> None:
    """Yes turns into Yes, but if no release compiles more than half of the kernels."""
    records = []
    for release in RELEASES:
        records.append(record(toolchain=release))
        for kernel in ("m:other", "m:third"):
            records.append(failure("FC111", toolchain=release, kernel=kernel))
    answer = run_answer(judge(evidence(records)), {})
    assert answer.verdict is VerdictWord.YES_BUT
    assert "2 of 3 kernels compile under no release" in " ".join(answer.answer.split())


@pytest.mark.parametrize("code", ["FC111", "FC501", "FC302"])
def test_a_failure_that_one_release_is_free_of_is_the_releases(code: str) -> None:
    """If a kernel compiles under one release, its failures belong to the other releases."""
    records = [record(toolchain=RELEASES[0])]
    records += [failure(code, toolchain=release) for release in RELEASES[1:]]
    outcome = judge(evidence(records))
    assert states(outcome) == dict(zip(RELEASES, ("good", "bad", "bad")))
    assert package_failures(outcome) == ()


@pytest.mark.parametrize(("code", "state"), [("FC111", "screened"), ("FC302", "bad")])
def test_two_minors_share_a_refused_source_but_not_a_fault_of_the_compiler(
    code: str, state: str
) -> None:
    """Two minor releases share an invalid source, but not a compiler bug."""
    records = []
    for release in RELEASES[:2]:
        records += [record(toolchain=release), failure(code, toolchain=release, **OTHER)]
    assert set(states(judge(evidence(records))).values()) == {state}


def test_patch_releases_share_their_faults() -> None:
    """A failure under two patch releases of a minor is not the package's."""
    records = []
    for release in ("triton==3.3.0", "triton==3.3.1"):
        records += [record(toolchain=release), failure("FC111", toolchain=release, **OTHER)]
    assert set(states(judge(evidence(records))).values()) == {"bad"}


def test_more_failures_than_the_other_releases_have_are_the_releases() -> None:
    """Failures beyond those of the other releases count against this release."""
    records = []
    for release in RELEASES:
        records += [record(toolchain=release), failure("FC501", toolchain=release, **OTHER)]
    records.append(failure("FC501", toolchain=RELEASES[2], options={"num_warps": 8}, **OTHER))
    outcome = judge(evidence(records))
    assert states(outcome) == dict(zip(RELEASES, ("screened", "screened", "bad")))


def test_a_release_without_a_verdict_about_the_kernel_frees_nobody() -> None:
    """A timeout is not evidence that a kernel compiles."""
    records = [record(toolchain=RELEASES[0]), unknown(toolchain=RELEASES[0], **OTHER)]
    for release in RELEASES[1:]:
        records += [record(toolchain=release), failure("FC111", toolchain=release, **OTHER)]
    outcome = judge(evidence(records))
    assert states(outcome)[RELEASES[1]] == states(outcome)[RELEASES[2]] == "screened"


def test_an_import_that_fails_has_no_cell_under_a_release_where_it_works() -> None:
    """A refusal under two releases of three is the releases'."""
    records = [record(toolchain=release) for release in RELEASES]
    for release in RELEASES[:2]:
        records.append(
            failure("FC702", "refused", toolchain=release, stage="call", launch=None, **OTHER)
        )
    outcome = judge(evidence(records))
    assert states(outcome) == dict(zip(RELEASES, ("bad", "bad", "good")))


def test_kernels_without_a_launch_that_compiles_leave_a_question_screened() -> None:
    """A kernel without a launch leaves the release screened."""
    (standing,) = evidence([record(toolchain=RELEASES[0])])
    assert standing.is_good
    wider = replace(standing, kernels=standing.kernels | {"m:not_launched"})
    assert wider.configurations.is_whole
    assert wider.state is StandingState.SCREENED


def test_failures_of_several_sources_add_up() -> None:
    """Failures and file names of all sources are kept."""
    usual = evidence([record(toolchain=RELEASES[0])])
    others = []
    for warps, configs in ((8, "edges"), (16, "own")):
        (standing,) = evidence(
            [failure(toolchain=RELEASES[0], options={"num_warps": warps})], configs
        )
        others.append(replace(standing, sources=(f"{configs}.zst",), requested_count=2))
    (outcome,) = judge([replace(usual[0], sources=("usual.zst",)), *others])
    assert {cell.options["num_warps"] for cell in outcome.failing} == {8, 16}
    assert outcome.sources == ("usual.zst", "edges.zst", "own.zst")


def test_a_package_failure_of_another_source_stays_the_packages() -> None:
    """A package's failure from another source stays the package's."""
    usual = evidence([record(toolchain=release) for release in RELEASES])
    edges = evidence(
        [failure("FC111", toolchain=release, **OTHER) for release in RELEASES], "edges"
    )
    partial = [replace(standing, requested_count=9) for standing in edges]
    outcome = judge([*usual, *partial])
    assert set(states(outcome).values()) == {"screened"}
    assert [len(standing.package_failures) for standing in outcome] == [1, 1, 1]


def test_subjects_are_judged_apart() -> None:
    """A failure of one package does not affect another; the digest does not matter."""
    fine = evidence([record(toolchain=RELEASES[0])])
    other = whole(
        [failure(toolchain=RELEASES[0])], about="other==1.0", selection={"configs": ["usual"]}
    )
    outcome = judge([*fine, *other])
    assert [standing.state.value for standing in outcome] == ["good", "bad"]
    (own_scan,) = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "own")
    question = replace(own_scan.question, source="flash-linear-attention==0.1.1 0a1b2c")
    (judged_one,) = judge([*fine, replace(own_scan, question=question, requested_count=2)])
    assert judged_one.state is StandingState.BAD
