"""The JSON of `flacheck dtypes`, operands in the source, and places without columns."""

from __future__ import annotations

import json
import os
import types
from pathlib import Path

import pytest

from flacheck.capabilities.dtypes import expressions
from flacheck.capabilities.dtypes.observation import Operand, Place
from flacheck.guest.dtypes import places
from flacheck.reports import dtypes
from tests.made_dtypes import answer
from tests.paths import TESTS
from tests.schemas import validate_json

GOLDEN = TESTS / "golden" / "reports" / "dtypes.json.txt"
SOURCE = """def forward(self, k, a):
    k = k + self.gain
    k = k * a + self.gain
    return k.addcmul(k, self.gain)
"""


def test_the_json_that_programs_read() -> None:
    """The JSON equals the golden file and follows the schema."""
    value = dtypes.report(answer()).value
    text = json.dumps(value, indent=1) + "\n"
    if os.environ.get("FLACHECK_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    validate_json("dtypes", json.loads(text))


def test_lines_are_enough_where_an_operation_stands_alone(tmp_path: Path) -> None:
    """Without columns, an operand is found only if its line has one operation."""
    file = tmp_path / "layer.py"
    file.write_text(SOURCE)
    wide = Operand("float32", 1, (), at="1", kind="parameter", name="gain")
    alone, two = Place(str(file), 2), Place(str(file), 3)
    assert expressions.describe_operand(alone, True, wide) == "self.gain"
    assert expressions.find_statement(alone) == "k = k + self.gain"
    assert expressions.describe_operand(two, True, wide) == "self.gain"
    assert expressions.find_statement(two) == "k = k * a + self.gain"


@pytest.mark.parametrize(
    ("text", "at", "operand"),
    [
        ("y = torch.cat((a, b[:, 2:]), 1)", "0.1", "b[:, 2:]"),
        ("y = torch.cat(tensors=(a, b))", "tensors.1", "b"),
        ("y = torch.where(m, a, b if m else c)", "2", "b if m else c"),
        # The text of the whole list stands for an element that the source does not show.
        ("y = torch.cat(parts)", "0.1", "parts"),
        ("y = torch.cat((*parts, a))", "0.1", "(*parts, a)"),
    ],
)
def test_an_operand_is_named_by_its_text(tmp_path: Path, text: str, at: str, operand: str) -> None:
    """An operand may be an element of a list, a keyword or a computed value."""
    file = tmp_path / "layer.py"
    file.write_text(f"import torch\n{text}")
    expressions.read_source.cache_clear()
    wide = Operand("float32", 1, (), at=at)
    assert expressions.describe_operand(Place(str(file), 2), True, wide) == operand


def test_a_place_has_columns_where_python_tells_them() -> None:
    """A place has columns if the code object has `co_positions`."""
    code = types.SimpleNamespace(co_filename="layer.py")
    frame = types.SimpleNamespace(f_code=code)
    old = places.place_of(frame, 4, 7)  # type: ignore[arg-type]
    assert (old.line, old.column, old.end_line) == (7, None, None)
    code.co_positions = lambda: iter([(7, 7, 0, 1), (7, 8, 4, 9)])
    new = places.place_of(frame, 2, 7)  # type: ignore[arg-type]
    assert (new.line, new.end_line, new.column, new.end_column) == (7, 8, 4, 9)
