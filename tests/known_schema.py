"""Writes the JSON Schema of flacheck.known/1 from its structs: `python -m tests.known_schema`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

import flacheck
from flacheck.capabilities.known.document import Known

FILE = Path(flacheck.__file__).parent / "tables" / "schemas" / "known-1.json"


def schema_text() -> str:
    """The schema with the fields that every schema of flacheck's has."""
    (reference,), definitions = msgspec.json.schema_components(
        [Known], ref_template="#/$defs/{name}"
    )
    assert reference == {"$ref": "#/$defs/Known"}
    whole = definitions.pop("Known")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:flacheck:schema:known:1",
        "title": "flacheck.known/1",
    }
    del whole["title"]
    for part in (whole, *definitions.values()):
        part["additionalProperties"] = False
    return json.dumps({**head, **whole, "$defs": definitions}, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
