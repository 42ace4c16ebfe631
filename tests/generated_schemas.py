"""JSON Schemas that are generated from Structs. `python -m tests.generated_schemas` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import flacheck
from flacheck.model.housekeeping import CacheListing, RunListing

FOLDER = Path(flacheck.__file__).parent / "tables" / "schemas"
STRUCTS: dict[str, Any] = {"cache-1": CacheListing, "runs-1": RunListing}


def text(name: str) -> str:
    """Return the schema file of an output; every property is always written."""
    (_,), definitions = msgspec.json.schema_components(
        [STRUCTS[name]], ref_template="#/$defs/{name}"
    )
    for each in definitions.values():
        if "description" in each:
            each["description"] = " ".join(each["description"].split())
        if "properties" in each:
            each["required"] = list(each["properties"])
            each["additionalProperties"] = False
    short, _, version = name.rpartition("-")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:flacheck:schema:{short}:{version}",
    }
    body = definitions.pop(STRUCTS[name].__name__)
    schema = {**head, **body, "title": f"flacheck.{short}/{version}", "$defs": definitions}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in STRUCTS:
        (FOLDER / f"{each}.json").write_text(text(each))
