"""Validation of documents against the JSON Schemas that flacheck ships."""

from __future__ import annotations

import functools
import json

import jsonschema

import flacheck


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a schema, which is checked once."""
    schema = flacheck.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def validate_json(name: str, document: object) -> None:
    """Validate a document against the schema of this name, "run" for `run-1.json`."""
    _validator(name).validate(json.loads(json.dumps(document)))
