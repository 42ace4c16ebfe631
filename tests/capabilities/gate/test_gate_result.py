"""The JSON of a gate, and the releases without a record."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from flacheck.capabilities.gate.result import Gate
from flacheck.tables.settings.waivers import Waiver
from tests.made_gate import RECORDS, gate
from tests.schemas import validate_json

WAIVER = Waiver(kernel="other", reason="issue 7", expires=date(2027, 3, 31))


def valid(result: Gate) -> dict[str, object]:
    """Return the result's JSON after validation against its schema."""
    document = result.to_json()
    validate_json("gate", document)
    return document


def test_json_holds_pins_releases_waivers_and_changes() -> None:
    """The JSON has plain values in the order of the schema."""
    document = valid(gate(RECORDS, "triton==3.2.0", waivers=(WAIVER,)))
    words = {name: document.pop(name) for name in ("answer", "verdict", "recommendation", "next")}
    assert words == {
        "answer": "No: your pins allow 1 Triton release: 1 bad",
        "verdict": "No",
        "recommendation": "r.txt:1: triton==3.2.0 → triton==3.1.0",
        "next": [],
    }
    assert "exclude it: triton!=3.2.0" in str(document.pop("points"))
    assert document == {
        "schema": "flacheck.gate/1",
        "pins": [{"file": "r.txt", "line": 1, "name": "triton", "specifier": "==3.2.0"}],
        "compiler": "triton",
        "versions": [
            {
                "triton": "3.2.0",
                "torch": ["2.6.0"],
                "state": "bad",
                "standing": "bad",
                "codes": ["FC302"],
                "kernels": [RECORDS[0].kernel],
                "why": "",
                "advisories": [],
                "answered": 2,
                "asked": 2,
                "known": 0,
                "sizes": None,
            }
        ],
        "questions": ["seeds"],
        "untested": [],
        "package_failures": [],
        "baseline": None,
        "source": "own",
        "published": None,
        "conflicts": [],
        "waived": [
            {
                "signature": None,
                "kernel": "other",
                "reason": "issue 7",
                "expires": "2027-03-31",
                "use": "unused",
                "cells": 0,
            }
        ],
        "suggest": [
            {
                "file": "r.txt",
                "line": 1,
                "name": "triton",
                "specifier": "==3.2.0",
                "to": "==3.1.0",
                "obstacle": None,
            }
        ],
    }


def test_json_holds_contradictions() -> None:
    """A conflict has all its pins."""
    document = valid(gate(RECORDS, "torch==2.7.1", "triton==3.2.0"))
    assert document["conflicts"] == [
        {
            "installation": "r.txt",
            "pins": document["pins"],
            "reason": "torch 2.7.1 requires triton==3.3.1, but r.txt:2 pins triton==3.2.0",
        }
    ]


def test_gaps_are_releases_that_exist() -> None:
    """An unknown newer release is not a gap."""
    result = gate(RECORDS, "triton>=3.3.1,!=3.4.0")
    assert [release.triton for release in result.versions] == ["3.3.1", "3.5.0", "3.8.0", ">3.8.0"]
    assert result.gaps == ["3.3.1"]


@pytest.mark.parametrize(
    ("requirement", "answer"),
    [
        ("triton==3.2.0", "1 kernel that models do not meet fails under the Triton release"),
        ("triton<3.4", "1 kernel that models do not meet fails under 2 of the 4 Triton releases"),
    ],
)
def test_failures_that_models_do_not_meet_are_one_plain_sentence(
    requirement: str, answer: str
) -> None:
    """The answer counts the kernels and the releases, without a second colon."""
    result = gate(RECORDS, requirement)
    rare = replace(result, versions=tuple(replace(each, decides=False) for each in result.versions))
    assert rare.in_words.answer == f"Yes, but {answer} that your pins allow"
