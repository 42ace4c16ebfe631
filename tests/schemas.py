"""Validation of documents against the JSON Schemas that flacheck ships."""

from __future__ import annotations

import json

import jsonschema

import flacheck


def validate_json(name: str, document: object) -> None:
    """Validate a document against the schema of this name, "run" for `run-1.json`."""
    plain = json.loads(json.dumps(document))
    jsonschema.validate(
        plain,
        flacheck.schema(name),
        jsonschema.Draft202012Validator,
        format_checker=jsonschema.FormatChecker(),
    )
