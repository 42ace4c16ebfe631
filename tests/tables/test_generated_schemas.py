"""Schemas that are generated from Structs are the files in the package."""

from __future__ import annotations

import pytest

from tests import generated_schemas


@pytest.mark.parametrize("name", generated_schemas.STRUCTS)
def test_a_schema_file_is_what_its_struct_generates(name: str) -> None:
    """`python -m tests.generated_schemas` writes them."""
    file = generated_schemas.FOLDER / f"{name}.json"
    assert file.read_text() == generated_schemas.text(name)
