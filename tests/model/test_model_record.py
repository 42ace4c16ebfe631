"""Records: the stored result of a cell."""

from __future__ import annotations

from flacheck.model import Unrecorded
from flacheck.model.record import Record, Verdict
from tests.made_records import failure, record


def test_a_record_comes_back_from_its_json() -> None:
    """A record keeps its stored key."""
    original = failure(options={"num_warps": 8})
    back = Record.from_json(original.to_json())
    assert back == original
    assert back.key == original.key
    assert back.cell.kernel.origin == Unrecorded("stub")


def test_json_flattens_the_cell_into_the_record() -> None:
    """The JSON has the cell's fields beside the record's."""
    original = failure(options={"num_warps": 8})
    plain = original.to_json()
    assert plain["toolchain"] == original.cell.toolchain
    assert plain["options"] == {"num_warps": 8}
    assert plain["verdict"] == "fails"
    assert "cell" not in plain


def test_a_changed_record_is_of_the_same_cell() -> None:
    """A changed record keeps its key."""
    original = record()
    other = original.with_(verdict=Verdict.UNKNOWN, reason="time-out")
    assert (other.verdict, other.reason) == (Verdict.UNKNOWN, "time-out")
    assert other.key == original.key
    assert original.verdict is Verdict.COMPILES
