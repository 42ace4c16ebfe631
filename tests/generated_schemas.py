"""JSON Schemas that are generated from Structs. `python -m tests.generated_schemas` writes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import StructType, TypedDictType, type_info

from flacheck.capabilities.autotune.results import AutotuneDocument
from flacheck.capabilities.bench.results import FormsCompared
from flacheck.capabilities.bisect.history import BisectDocument
from flacheck.capabilities.check.document import Checked
from flacheck.capabilities.diff.document import DiffDocument
from flacheck.capabilities.dtypes.result import DtypesDocument
from flacheck.capabilities.gate.result import GateDocument
from flacheck.capabilities.known_results.document import Known
from flacheck.capabilities.repro.output.result import ReproDocument
from flacheck.evidence.baseline.form import Baseline
from flacheck.evidence.measured.results import MeasureDocument
from flacheck.model.housekeeping import CacheListing, RunListing
from flacheck.model.record import RecordedResources
from flacheck.reports.plan import PlanDocument
from flacheck.reports.scan import RunDocument
from flacheck.rules.explanation import ExplainDocument
from tests.paths import SCHEMAS

STRUCTS: dict[str, Any] = {
    "autotune-1": AutotuneDocument,
    "baseline-1": Baseline,
    "bench-1": FormsCompared,
    "bisect-1": BisectDocument,
    "cache-1": CacheListing,
    "diff-1": DiffDocument,
    "dtypes-1": DtypesDocument,
    "explain-1": ExplainDocument,
    "gate-1": GateDocument,
    "check-1": Checked,
    "known-1": Known,
    "measure-1": MeasureDocument,
    "plan-1": PlanDocument,
    "repro-1": ReproDocument,
    "run-1": RunDocument,
    "runs-1": RunListing,
}


def text(name: str) -> str:
    """Return the schema file of an output."""
    root = STRUCTS[name]
    (_,), definitions = msgspec.json.schema_components([root], ref_template="#/$defs/{name}")
    for each in definitions.values():
        if "description" in each:
            each["description"] = " ".join(each["description"].split())
    structs, typed_dicts = _parts(root)
    for struct in structs:
        properties = definitions[struct.cls.__name__]
        properties["required"] = _written_fields(struct)
        properties["additionalProperties"] = False
    for typed_dict in typed_dicts:
        is_open = typed_dict.cls is RecordedResources
        definitions[typed_dict.cls.__name__]["additionalProperties"] = is_open
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
    if struct.tag_field is not None:
        names.append(struct.tag_field)
    for field in struct.fields:
        may_be_left_out = struct.cls.__struct_config__.omit_defaults and not field.required
        # msgspec lists a default that is UNSET as none.
        has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
        may_be_unset = not field.required and not has_default
        if not (may_be_unset or may_be_left_out):
            names.append(field.encode_name)
    return names


def _parts(root: type) -> tuple[list[StructType], list[TypedDictType]]:
    """Return all Structs and all TypedDicts of a document."""
    structs: dict[type, StructType] = {}
    typed_dicts: dict[type, TypedDictType] = {}

    def visit(value: Any) -> None:
        if isinstance(value, StructType):
            if value.cls in structs:
                return
            structs[value.cls] = value
        if isinstance(value, TypedDictType):
            if value.cls in typed_dicts:
                return
            typed_dicts[value.cls] = value
        if isinstance(value, (list, tuple)):
            for item in value:
                visit(item)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                visit(getattr(value, name))

    visit(type_info(root))
    return list(structs.values()), list(typed_dicts.values())


if __name__ == "__main__":
    for each in STRUCTS:
        (SCHEMAS / f"{each}.json").write_text(text(each))
