"""Records: what is stored of a cell."""

from __future__ import annotations

from flacheck.model import Unrecorded
from flacheck.model.record import Record, Verdict
from tests.made_records import failure, record


def test_a_record_comes_back_from_its_json() -> None:
    """With the key that it was stored by, though nobody knows its source any more."""
    made = failure(options={"num_warps": 8})
    back = Record.from_json(made.to_json())
    assert back == made
    assert back.key == made.key
    assert back.cell.kernel.origin == Unrecorded("stub")


def test_json_flattens_the_cell_into_the_record() -> None:
    """A reader of the output needs no second document."""
    made = failure(options={"num_warps": 8})
    plain = made.to_json()
    assert plain["toolchain"] == made.cell.toolchain
    assert plain["options"] == {"num_warps": 8}
    assert plain["verdict"] == "fails"
    assert "cell" not in plain


def test_a_changed_record_is_of_the_same_cell() -> None:
    """It keeps the key that it was stored by."""
    made = record()
    changed = made.with_(verdict=Verdict.UNKNOWN, reason="time-out")
    assert (changed.verdict, changed.reason) == (Verdict.UNKNOWN, "time-out")
    assert changed.key == made.key
    assert made.verdict is Verdict.COMPILES
