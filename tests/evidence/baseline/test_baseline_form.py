"""The baseline file: its content, and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import Exit, UsageError
from flacheck.evidence.baseline import form
from flacheck.evidence.baseline.form import Baseline, BaselinePlace, BaselineQuestion, KnownFailure
from tests.schemas import validate_json

FAILURE = KnownFailure(
    signature="FC302:ttgir:f:9390298f", code="FC302", stage="ttgir", line="no", kernels={"m:k": 2}
)
WHOLE = {
    "configurations": {"answered": 5, "of": 5},
    "kernels": {"answered": 1, "of": 1},
}
BAD: dict[str, Any] = {
    "toolchain": "triton==3.2.0",
    "target": "sm90",
    "version": "1.0",
    "state": "bad",
    "requested_count": 5,
    "answered_count": 5,
    "keys": "0" * 16,
    "compiles": 2,
    "made_up_for": 1,
    "failures": (FAILURE,),
}
GOOD: dict[str, Any] = {**BAD, "target": "sm80", "state": "good", "compiles": 4, "failures": ()}


def baseline(*places: dict[str, Any], **more: Any) -> Baseline:
    question = BaselineQuestion(
        about="shop",
        kernels=("m:k", "m:l"),
        places=tuple(BaselinePlace(**place) for place in places),
    )
    return Baseline(flacheck="1.0", questions=(question,), **more)


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    """A baseline file follows the schema and is read back unchanged."""
    content = baseline(GOOD, BAD, accepted_releases=("3.2.0",))
    file = tmp_path / "b.json"
    file.write_text(form.text_of(content))
    assert form.read(file) == content
    validate_json("baseline", json.loads(file.read_text()))


def test_what_is_nought_is_left_out() -> None:
    """Empty values are left out, and each value has its line."""
    text = form.text_of(baseline(GOOD))
    assert "failures" not in text
    assert "skipped" not in text
    assert '\n     "compiles": 4,\n' in text
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answered": 4}, "4 cells are answered, 5 are listed"),
        ({"state": "good"}, "the state is good, the cells give bad"),
        ({"state": "bad", "failures": [], "compiles": 4}, "the state is bad, the cells give good"),
        ({"asked": 6, "failures": [], "compiles": 4}, "the cells give partial"),
        ({"asked": None, "failures": [], "compiles": 4}, "the cells give partial"),
        (
            {**WHOLE, "failures": [], "compiles": 3, "undecided": {"m:k": 1}},
            "the cells give screened",
        ),
        (
            {**WHOLE, "failures": [], "compiles": 3, "skipped": {"m:k": 1}},
            "the cells give screened",
        ),
        (
            {"failures": [], "compiles": 0, "made_up_for": 0, "untested": {"m:k": 5}},
            "the cells give no-record",
        ),
        ({"compiles": -1}, "Expected `int` >= 0"),
        ({"grid": 1}, "unknown field `grid`"),
        ({"skipped": {"m:k": 0}}, "Expected `int` >= 1"),
    ],
)
def test_a_file_that_was_edited_by_hand_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Counts that contradict the state are an error with their place."""
    plain = json.loads(form.text_of(baseline(BAD)))
    plain["questions"][0]["places"][0].update(change)
    file = tmp_path / "b.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(UsageError) as caught:
        form.read(file)
    assert message in str(caught.value)
    assert "places[0]" in str(caught.value)
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< HEAD\n{}", "is not JSON .*after a merge, take one side and write it again"),
        ("[]", "schema is None; this flacheck reads flacheck.baseline/1"),
        ('{"schema": "flacheck.baseline/2"}', "schema is 'flacheck.baseline/2'"),
        ('{"schema": "flacheck.baseline/1"}', "Object missing required field `flacheck`"),
        ("\xff", "is not a text file"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_baseline_says_so(tmp_path: Path, text: str, message: str) -> None:
    """The error names the file and the remedy."""
    file = tmp_path / "b.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=rf"b\.json: {message}"):
        form.read(file)


def test_a_file_that_counts_without_end_is_refused(tmp_path: Path) -> None:
    """A count beyond the limit is an error."""
    file = tmp_path / "b.json"
    file.write_text(
        form.text_of(
            baseline(
                {**GOOD, "requested_count": 10**9, "answered_count": 10**9, "compiles": 10**9 - 1}
            )
        )
    )
    with pytest.raises(UsageError, match="1,000,000,000 answered cells are too many"):
        form.read(file)


def test_a_selection_is_lists_of_words(tmp_path: Path) -> None:
    """A selection with another type is an error."""
    plain = json.loads(form.text_of(baseline(GOOD)))
    plain["questions"][0]["selection"] = {"kernels": 3}
    file = tmp_path / "b.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match=r"selection\[...\]"):
        form.read(file)


def test_a_file_that_is_not_there_says_how_to_write_one(tmp_path: Path) -> None:
    """The error has the command that writes a baseline."""
    with pytest.raises(UsageError, match=r"cannot be read .*flacheck scan --write-baseline "):
        form.read(tmp_path / "b.json")


def test_half_a_character_anywhere_in_a_baseline_is_refused(tmp_path: Path) -> None:
    """A lone surrogate in a key or value is an error."""
    file = tmp_path / "baseline.json"
    whole = form.text_of(baseline(BAD, GOOD))
    for word in ("shop", "triton==3.2.0", "FC302:ttgir:f:9390298f", "m:k", "about"):
        file.write_text(whole.replace(word, word + "\\ud800"))
        with pytest.raises(UsageError, match="lone surrogate"):
            form.read(file)
