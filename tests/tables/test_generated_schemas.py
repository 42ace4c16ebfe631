"""Schemas that are generated from Structs are the files in the package."""

from __future__ import annotations

import pytest

from tests import generated_schemas
from tests.paths import SCHEMAS


@pytest.mark.parametrize("name", generated_schemas.STRUCTS)
def test_a_schema_file_is_what_its_struct_generates(name: str) -> None:
    """`python -m tests.generated_schemas` writes them."""
    assert (SCHEMAS / f"{name}.json").read_text() == generated_schemas.text(name)
