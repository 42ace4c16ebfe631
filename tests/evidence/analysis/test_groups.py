"""Failures with one signature, together."""

from __future__ import annotations

from collections.abc import Sequence

from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.summary import summarise
from tests.made_records import (
    CONTEXT,
    DELTA,
    failure,
    record,
)


def test_failures_are_grouped_by_signature() -> None:
    """A group has its releases, targets and kernels in order, the most severe group first."""
    same = [
        failure(toolchain=f"triton=={v}", target=t)
        for v in ("3.3.0", "3.10.0")
        for t in ("sm100", "sm90")
    ]
    skips = [
        failure("FC501", "out of resource", tolerated=True, options={"num_warps": n})
        for n in range(1, 9)
    ]
    groups = summarise([*skips, *same, record()], CONTEXT).by_signature
    assert [group.code for group in groups] == ["FC302", "FC501"]
    assert groups[0].document().to_json() == {
        "signature": same[0].signature,
        "code": "FC302",
        "count": 4,
        "toolchains": ["triton==3.3.0", "triton==3.10.0"],
        "targets": ["sm90", "sm100"],
        "kernels": [DELTA],
    }
    assert (groups[0].line, groups[0].tolerated_count, groups[1].tolerated_count) == (
        "Assertion `reshapeOuts' failed.",
        0,
        8,
    )


def test_a_failure_without_a_signature_is_grouped_by_its_code() -> None:
    """Without a signature the code is the group, without a code FC000."""
    groups: Sequence[SignatureGroup] = summarise(
        [failure(signature=None), failure(signature=None, code=None, target="sm80")], CONTEXT
    ).by_signature
    assert {(group.signature, group.code) for group in groups} == {
        ("FC302", "FC302"),
        ("FC000", "FC000"),
    }
