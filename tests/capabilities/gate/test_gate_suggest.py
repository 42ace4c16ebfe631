"""Suggested changes of pins: as few and as small as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flacheck.capabilities.gate.admission import Releases, admit
from flacheck.capabilities.gate.judged_pins import ReleaseState
from flacheck.capabilities.gate.pins import Installation
from flacheck.capabilities.gate.suggest import Acceptance, suggest, with_changes
from flacheck.model import Record
from tests.made_gate import (
    BROKEN,
    RECORDS,
    RELEASES,
    gate,
    installation,
    on,
)
from tests.made_records import record


def changes(records: Sequence[Record], *pins: str, **more: Any) -> dict[int | None, str]:
    """Return the suggested requirement for each line."""
    return {
        change.pin.line: change.pin.name + change.to
        for change in gate(records, *pins, **more).suggest
    }


@pytest.mark.parametrize(
    ("pins", "new_pins"),
    [
        (["triton>=3.2,<3.9"], {1: "triton>=3.3.1,<3.9"}),
        (["triton>=3.1"], {1: "triton>=3.1,!=3.2.0,!=3.3.0"}),
        (["torch>=2.6", "triton>=3.2"], {2: "triton>=3.3.1"}),
        (["torch>=2.6"], {1: "torch>=2.7.1"}),
        (["triton==3.3.0"], {1: "triton==3.4.0"}),
        (["triton==3.2.0"], {1: "triton==3.1.0"}),
        (["torch==2.6.0"], {1: "torch==2.5.1"}),
        (["torch==2.8.0", "triton==3.5.0"], {1: "torch==2.9.0"}),
        (["torch==2.7.1", "triton==3.2.0"], {1: "torch==2.8.0", 2: "triton==3.4.0"}),
        (["triton==3.4.0", "triton==3.5.0"], {1: "triton==3.5.0"}),
        (["triton>=3.4"], {}),
        (["triton==3.3.1"], {}),
    ],
)
def test_the_fewest_and_smallest_changes_are_suggested(
    pins: list[str], new_pins: dict[int, str]
) -> None:
    """A range is narrowed; an exact pin moves to the nearest passing pair."""
    assert changes(RECORDS, *pins) == new_pins


def test_one_changed_pin_is_better_than_two_nearer_ones() -> None:
    """One changed pin is preferred to two nearer ones."""
    releases = Releases(
        ("3.1.0", "3.2.0", "3.3.0"),
        {"2.4": "==3.1.0", "2.5": "==3.2.0", "2.6": "==3.2.0", "2.7": "==3.3.0"},
    )
    good = [record(**on("3.1.0")), record(**on("3.2.0"))]
    assert changes(good, "torch==2.7", "triton==3.1.0", releases=releases) == {1: "torch==2.4"}


def test_strictly_only_what_is_good_stays() -> None:
    """Under --strict untested releases are excluded and open bounds closed."""
    assert changes(RECORDS, "triton>=3.2", strict=True) == {1: "triton>=3.4.0,<3.9"}


def test_where_nothing_is_good_nothing_is_suggested() -> None:
    """Without a good release there is no suggestion."""
    outcome = gate([BROKEN], "triton==3.2.0")
    assert (outcome.suggest, outcome.helpless) == ((), ("r.txt",))


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Installation], Mapping[str, ReleaseState], bool]:
    """Draw pins of all kinds, and a state for each release."""
    exact = st.sampled_from(
        ["triton==" + v for v in RELEASES.triton] + ["torch==" + v for v in RELEASES.torch]
    )
    ranges = st.builds("triton>={}".format, st.sampled_from(RELEASES.triton)) | st.builds(
        "torch>={},<3".format, st.sampled_from(list(RELEASES.torch))
    )
    pins = st.lists(exact | ranges, min_size=1, max_size=3).map(lambda texts: installation(*texts))
    states = draw(
        st.fixed_dictionaries(
            {triton: st.sampled_from(list(ReleaseState)) for triton in RELEASES.triton}
        )
    )
    return draw(st.lists(pins, min_size=1, max_size=2)), states, draw(st.booleans())


@settings(deadline=None)
@given(questions())
def test_what_is_suggested_passes(
    question: tuple[list[Installation], Mapping[str, ReleaseState], bool],
) -> None:
    """Every changed installation passes, and a passing one is not changed."""
    installations, states, strict = question
    acceptance = Acceptance(RELEASES, states, strict)
    edits, helpless = suggest(installations, acceptance)
    new = {change.pin: change.to for change in edits}
    if len(installations) == 1:
        before, after = (
            admit(i, RELEASES) for i in (installations[0], with_changes(installations[0], new))
        )
        assert bool(new) <= (not acceptance.is_harmless(before))
        assert helpless or acceptance.is_harmless(after)
        assert acceptance.passes(after) or not new
    if not any(map(acceptance.is_proven, RELEASES.triton)):
        assert not new


def test_a_torch_that_requires_no_triton_is_nothing_to_change() -> None:
    """A CPU build of torch gets no suggestion."""
    result = gate(RECORDS, "torch==2.7.1+cpu")
    assert result.suggest == ()
    assert result.helpless == ("r.txt",)
