"""One standing for each subject, release and GPU, by all evidence about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.evidence.analysis.judgement import judge, package_failures
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import StandingState
from flacheck.model import Record
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
    """The usual configurations compile, and one of `edges` fails."""
    usual = evidence([record(toolchain=RELEASES[0])])
    edges = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "edges")
    (judged,) = judge([*usual, *edges])
    assert judged.state is StandingState.BAD
    assert [cell.options for cell in judged.failing] == [{"num_warps": 8}]


def test_evidence_beside_adds_failures_and_no_numbers() -> None:
    """A wider scan makes a run's own question no wider."""
    usual = evidence([record(toolchain=RELEASES[0])])
    own = evidence([record(toolchain=RELEASES[0]), record(**OTHER, toolchain=RELEASES[0])], "own")
    (judged,) = judge(usual, own)
    assert judged.kernel_share.of == 1
    (judged,) = judge([*usual, *own])
    assert judged.kernel_share.of == 2


def test_a_partial_question_leaves_a_complete_one_as_it_is() -> None:
    """An interrupted scan of all configurations does not replace the usual ones."""
    usual = evidence([record(toolchain=RELEASES[0])])
    (partial,) = evidence([record(toolchain=RELEASES[0])], "own")
    partial = replace(partial, requested_count=9)
    assert states(judge([*usual, partial])) == {RELEASES[0]: "good"}
    assert states(judge([partial])) == {RELEASES[0]: "partial"}


def test_a_failure_of_a_partial_question_counts() -> None:
    """A failure is one, whatever the missing cells would show."""
    usual = evidence([record(toolchain=RELEASES[0])])
    (partial,) = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "own")
    partial = replace(partial, requested_count=9)
    assert states(judge([*usual, partial])) == {RELEASES[0]: "bad"}


def test_the_first_question_decides_about_a_cell_of_both() -> None:
    """The user's own record comes first: the cell compiles here."""
    good = record(toolchain=RELEASES[0])
    own = evidence([good], "own")
    failing = Record.from_json({**failure(toolchain=RELEASES[0]).to_json(), "key": good.key})
    assert states(judge([*own, *evidence([failing])])) == {RELEASES[0]: "good"}


def test_equal_failures_are_counted_once() -> None:
    """Two files of counts may hold the same cell under keys of their own."""
    usual = evidence([failure(toolchain=RELEASES[0])])
    edges = evidence(
        [failure(toolchain=RELEASES[0]), failure(toolchain=RELEASES[0], options={"num_warps": 8})],
        "edges",
    )
    (judged,) = judge([*usual, *edges])
    assert len(judged.failing) == 2


def test_counts_of_equal_failures_are_not_added() -> None:
    """The header of a file has a failure that the user's own scan has under its key."""
    own = evidence([failure(toolchain=RELEASES[0])])
    counted = evidence([failure(toolchain=RELEASES[0]), failure(toolchain=RELEASES[0], **OTHER)])
    header = []
    for standing in counted:
        cells = tuple(replace(cell, key=f"count of {cell.kernel}") for cell in standing.cells)
        shares = (standing.configurations, standing.kernel_share)
        header.append(replace(standing, cells=cells, stored_shares=shares))
    (judged,) = judge([*own, *header])
    assert sorted(cell.kernel for cell in judged.failing) == sorted(
        [own[0].cells[0].kernel, "m:other"]
    )


def test_a_failure_that_every_release_shares_is_the_packages() -> None:
    """It makes none of them bad, and none of them good."""
    records = []
    for release in RELEASES:
        refused = failure("FC111", "Unsupported ptr type", toolchain=release, stage="ast", **OTHER)
        records += [record(toolchain=release), refused]
    judged = judge(evidence(records))
    assert set(states(judged).values()) == {"screened"}
    (shared,) = package_failures(judged)
    assert shared.to_json() == {
        "kernel": "m:other",
        "package": PACKAGE,
        "code": "FC111",
        "line": "Unsupported ptr type",
        "toolchains": list(RELEASES),
        "targets": ["sm90"],
    }
    assert all(standing.failing == () for standing in judged)


@pytest.mark.parametrize("code", ["FC111", "FC501", "FC302"])
def test_a_failure_that_one_release_is_free_of_is_the_releases(code: str) -> None:
    """The kernel compiles under one of them."""
    records = [record(toolchain=RELEASES[0])]
    records += [failure(code, toolchain=release) for release in RELEASES[1:]]
    judged = judge(evidence(records))
    assert states(judged) == dict(zip(RELEASES, ("good", "bad", "bad")))
    assert package_failures(judged) == ()


@pytest.mark.parametrize(("code", "state"), [("FC111", "screened"), ("FC302", "bad")])
def test_two_minors_share_a_refused_source_but_not_a_fault_of_the_compiler(
    code: str, state: str
) -> None:
    """A compiler's fault may live for two releases."""
    records = []
    for release in RELEASES[:2]:
        records += [record(toolchain=release), failure(code, toolchain=release, **OTHER)]
    assert set(states(judge(evidence(records))).values()) == {state}


def test_patch_releases_share_their_faults() -> None:
    """A failure under 3.3.0 and 3.3.1 says nothing about the package."""
    records = []
    for release in ("triton==3.3.0", "triton==3.3.1"):
        records += [record(toolchain=release), failure("FC111", toolchain=release, **OTHER)]
    assert set(states(judge(evidence(records))).values()) == {"bad"}


def test_more_failures_than_the_other_releases_have_are_the_releases() -> None:
    """One kernel lacks memory everywhere, and twice as often under the newest release."""
    records = []
    for release in RELEASES:
        records += [record(toolchain=release), failure("FC501", toolchain=release, **OTHER)]
    records.append(failure("FC501", toolchain=RELEASES[2], options={"num_warps": 8}, **OTHER))
    judged = judge(evidence(records))
    assert states(judged) == dict(zip(RELEASES, ("screened", "screened", "bad")))


def test_a_release_without_a_verdict_about_the_kernel_frees_nobody() -> None:
    """A time-out is no evidence."""
    records = [record(toolchain=RELEASES[0]), unknown(toolchain=RELEASES[0], **OTHER)]
    for release in RELEASES[1:]:
        records += [record(toolchain=release), failure("FC111", toolchain=release, **OTHER)]
    judged = judge(evidence(records))
    assert states(judged)[RELEASES[1]] == states(judged)[RELEASES[2]] == "screened"


def test_an_import_that_fails_has_no_cell_under_a_release_where_it_works() -> None:
    """The package refuses two releases, and a third imports it."""
    records = [record(toolchain=release) for release in RELEASES]
    for release in RELEASES[:2]:
        records.append(
            failure("FC702", "refused", toolchain=release, stage="call", launch=None, **OTHER)
        )
    judged = judge(evidence(records))
    assert states(judged) == dict(zip(RELEASES, ("bad", "bad", "good")))


def test_kernels_without_a_launch_that_compiles_leave_a_question_screened() -> None:
    """All configurations are answered, and a kernel of the package has no launch."""
    (standing,) = evidence([record(toolchain=RELEASES[0])])
    assert standing.is_good
    wider = replace(standing, kernels=standing.kernels | {"m:not_launched"})
    assert wider.configurations.is_whole
    assert wider.state is StandingState.SCREENED


def test_failures_of_several_sources_add_up() -> None:
    """Each source has a failure that the others lack, and the names of their files stay."""
    usual = evidence([record(toolchain=RELEASES[0])])
    others = []
    for warps, configs in ((8, "edges"), (16, "own")):
        (standing,) = evidence(
            [failure(toolchain=RELEASES[0], options={"num_warps": warps})], configs
        )
        others.append(replace(standing, sources=(f"{configs}.zst",), requested_count=2))
    (judged,) = judge([replace(usual[0], sources=("usual.zst",)), *others])
    assert {cell.options["num_warps"] for cell in judged.failing} == {8, 16}
    assert judged.sources == ("usual.zst", "edges.zst", "own.zst")


def test_a_package_failure_of_another_source_stays_the_packages() -> None:
    """It is merged into the widest question as one of every release."""
    usual = evidence([record(toolchain=release) for release in RELEASES])
    edges = evidence(
        [failure("FC111", toolchain=release, **OTHER) for release in RELEASES], "edges"
    )
    partial = [replace(standing, requested_count=9) for standing in edges]
    judged = judge([*usual, *partial])
    assert set(states(judged).values()) == {"screened"}
    assert [len(standing.package_failures) for standing in judged] == [1, 1, 1]


def test_subjects_are_judged_apart() -> None:
    """A failure of one package makes no other package bad; a package's digest makes no difference."""
    fine = evidence([record(toolchain=RELEASES[0])])
    other = whole(
        [failure(toolchain=RELEASES[0])], about="other==1.0", selection={"configs": ["usual"]}
    )
    judged = judge([*fine, *other])
    assert [standing.state.value for standing in judged] == ["good", "bad"]
    (installed,) = evidence([failure(toolchain=RELEASES[0], options={"num_warps": 8})], "own")
    question = replace(installed.question, source="flash-linear-attention==0.1.1 0a1b2c")
    (judged_one,) = judge([*fine, replace(installed, question=question, requested_count=2)])
    assert judged_one.state is StandingState.BAD


def test_a_sized_releases_order_is_by_version() -> None:
    """3.10 follows 3.9, and sm100 follows sm90."""
    releases = ("triton==3.10.0", "triton==3.9.0")
    records = []
    for release in releases:
        for target in ("sm100", "sm90"):
            cell = {"toolchain": release, "target": target}
            records += [record(**cell), failure("FC111", "no", stage="ast", **cell, **OTHER)]
    (shared,) = package_failures(judge(evidence(records)))
    assert shared.toolchains == releases[::-1]
    assert shared.targets == ("sm90", "sm100")
