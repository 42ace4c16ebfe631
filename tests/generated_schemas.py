"""JSON Schemas that are generated from Structs. `python -m tests.generated_schemas` writes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec.inspect import StructType, type_info

from flacheck.capabilities.bench.results import BenchDocument
from flacheck.capabilities.bisect.history import BisectDocument
from flacheck.capabilities.known.document import Known
from flacheck.capabilities.repro.output.result import ReproDocument
from flacheck.model.housekeeping import CacheListing, RunListing
from flacheck.reports.plan import PlanDocument
from flacheck.rules.explanation import ExplainDocument
from tests.paths import SCHEMAS

STRUCTS: dict[str, Any] = {
    "bench-1": BenchDocument,
    "bisect-1": BisectDocument,
    "cache-1": CacheListing,
    "explain-1": ExplainDocument,
    "known-1": Known,
    "plan-1": PlanDocument,
    "repro-1": ReproDocument,
    "runs-1": RunListing,
}


def text(name: str) -> str:
    """Return the schema file of an output."""
    root = STRUCTS[name]
    (_,), definitions = msgspec.json.schema_components([root], ref_template="#/$defs/{name}")
    for each in definitions.values():
        if "description" in each:
            each["description"] = " ".join(each["description"].split())
    for struct in _structs(root):
        properties = definitions[struct.cls.__name__]
        properties["required"] = _written_fields(struct)
        properties["additionalProperties"] = False
    short, _, version = name.rpartition("-")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:flacheck:schema:{short}:{version}",
    }
    body = definitions.pop(root.__name__)
    schema = {**head, **body, "title": f"flacheck.{short}/{version}", "$defs": definitions}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _written_fields(struct: StructType) -> list[str]:
    """Return the fields that are in every document: all but those that may be unset."""
    names = []
    for field in struct.fields:
        may_be_left_out = struct.cls.__struct_config__.omit_defaults and not field.required
        if field.default is not msgspec.UNSET and not may_be_left_out:
            names.append(field.encode_name)
    return names


def _structs(root: type) -> list[StructType]:
    """Return all Structs of a document."""
    structs: dict[type, StructType] = {}

    def visit(value: Any) -> None:
        if isinstance(value, StructType):
            if value.cls in structs:
                return
            structs[value.cls] = value
        if isinstance(value, (list, tuple)):
            for item in value:
                visit(item)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                visit(getattr(value, name))

    visit(type_info(root))
    return list(structs.values())


if __name__ == "__main__":
    for each in STRUCTS:
        (SCHEMAS / f"{each}.json").write_text(text(each))
