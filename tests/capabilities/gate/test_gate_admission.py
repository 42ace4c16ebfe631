"""Pairs of torch and Triton that pins admit, unknown releases and contradictions."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate.admission import Admission, admit
from tests.made_gate import (
    RELEASES,
    gate,
    installation,
    on,
    states,
)
from tests.made_records import record


def admission_of(*requirements: str) -> Admission:
    return admit(installation(*requirements), RELEASES)


@pytest.mark.parametrize(
    ("pins", "pairs"),
    [
        (["triton>=3.2,<3.4"], [(None, "3.2.0"), (None, "3.3.0"), (None, "3.3.1")]),
        (["torch==2.7.1"], [("2.7.1", "3.3.1")]),
        (["torch==2.7.1+cu126"], [("2.7.1+cu126", "3.3.1")]),
        (["torch>=2.6,<2.8", "triton!=3.3.0"], [("2.6.0", "3.2.0"), ("2.7.1", "3.3.1")]),
        (["torch>=2.5,<3", "triton==3.2.0"], [("2.6.0", "3.2.0")]),
        (["torch==2.8.0", "triton>=3.2"], [("2.8.0", "3.4.0")]),
        (["torch==2.7.1+cpu", "triton==3.2.0"], [(None, "3.2.0")]),
        (["triton>=3.2", "triton<3.3"], [(None, "3.2.0")]),
        (["triton==3.4.0+git1"], [(None, "3.4.0+git1")]),
        (["triton==3.2.7"], [(None, "3.2.7")]),
        (["torch==2.3.1", "triton==3.2.0"], [("2.3.1", "3.2.0")]),
        (["torch~=2.14.0"], [("2.14.0", "3.8.0"), ("2.14.1", "3.8.0")]),
    ],
)
def test_an_installation_admits_pairs(pins: list[str], pairs: list[tuple[str | None, str]]) -> None:
    """All pins and torch's own requirement hold; a build without Triton requires none."""
    pairs = [(torch and torch.partition("+")[0], triton) for torch, triton in pairs]
    assert [
        (torch and torch.partition("+")[0], triton) for torch, triton in admission_of(*pins).pairs
    ] == pairs
    assert admission_of(*pins).conflict is None


@pytest.mark.parametrize(
    ("pins", "unknown"),
    [
        (["triton>=3.4"], (">3.8.0",)),
        (["triton>=4"], (">3.8.0",)),
        (["triton>=3.4,<3.9"], ()),
        (["triton>=3.4,<4"], (">3.8.0",)),
        (["triton~=3.8.0"], ()),
        (["torch>=2.9"], (">3.8.0",)),
        (["torch>=2.9", "triton<3.9"], ()),
        (["torch<=2.9", "triton>=3.4"], ()),
        (["triton<3"], ("<3.1.0",)),
        (["torch==2.3.1"], ("of torch 2.3.1",)),
        (["torch==2.15.0"], (">3.8.0",)),
    ],
)
def test_what_nobody_knows_is_named(pins: list[str], unknown: tuple[str, ...]) -> None:
    """An open upper bound admits unknown releases."""
    assert admission_of(*pins).unknown == unknown


@pytest.mark.parametrize(
    ("pins", "lines", "reason"),
    [
        (
            ["torch==2.7.1", "triton==3.2.0"],
            [1, 2],
            "torch 2.7.1 requires triton==3.3.1, but r.txt:2 pins triton==3.2.0",
        ),
        (
            ["torch>=2.7,<2.8", "triton==3.2.0"],
            [1, 2],
            "torch 2.7.0 requires triton==3.3.0, torch 2.7.1 requires triton==3.3.1,"
            " but r.txt:2 pins triton==3.2.0",
        ),
        (
            ["triton>=3.1", "triton>=3.4", "triton<3.3"],
            [2, 3],
            "no release of triton satisfies triton>=3.4 (r.txt:2) and triton<3.3 (r.txt:3)",
        ),
        (["triton>3.2.0,<3.3"], [1], "no release of triton satisfies triton>3.2.0,<3.3 (r.txt:1)"),
        (
            ["torch==2.6.0", "torch==2.7.0"],
            [1, 2],
            "no release of torch satisfies torch==2.6.0 (r.txt:1) and torch==2.7.0",
        ),
    ],
)
def test_a_contradiction_names_the_pins_and_why(
    pins: list[str], lines: list[int], reason: str
) -> None:
    """The conflict has the contradicting pins and the reason."""
    conflict = admission_of(*pins).conflict
    assert conflict is not None
    assert conflict.reason.startswith(reason)
    assert [pin.line for pin in conflict.pins] == lines


def test_a_release_that_was_scanned_is_known() -> None:
    """A scanned release is known; a local build is not in a range."""
    new = [record(**on("3.9.0")), record(**on("3.9.1+local.0123abcd"))]
    assert states(gate(new, "triton>=3.8")) == {
        "3.8.0": "no-record",
        "3.9.0": "good",
        ">3.9.0": "no-record",
    }
