"""`flacheck.list_…`: the available kernels, matrices, targets, rules and advisories."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from flacheck import tables
from flacheck.errors import UsageError

Rows = list[dict[str, Any]]


def list_kernels() -> Rows:
    """Return flacheck's own kernels with operator, form and number of configurations."""
    from flacheck.subjects.inputs import corpus

    rows: Rows = []
    for name, entry in corpus.load().items():
        row = {"kernel": name, "operator": entry.kernel.operator, "form": entry.kernel.form}
        rows.append({**row, "configs": len(entry.launches[0].configs)})
    return rows


def list_matrices() -> Rows:
    """Return the matrices that ship with flacheck."""
    from flacheck.subjects.inputs import matrix

    matrices = {name: matrix.find(name) for name in matrix.names()}
    return [
        {"matrix": name, "description": each_matrix.description}
        for name, each_matrix in matrices.items()
    ]


def list_targets() -> Rows:
    """Return the targets with their GPU and shared memory per block in bytes."""
    from flacheck.tables.targets import TARGETS

    rows: Rows = []
    for name, row in TARGETS.items():
        note = "experimental" if row.experimental else ""
        rows.append({"target": name, "gpu": row.gpu, "shared": row.shared_limit, "note": note})
    return rows


def list_rules() -> Rows:
    """Return the failure codes with their titles.

    >>> [rule["code"] for rule in list_rules()][:2]
    ['FC000', 'FC101']
    """
    from flacheck.rules import RULES

    return [{"code": code, "title": rule.title} for code, rule in sorted(RULES.items())]


def list_advisories() -> Rows:
    """Return the advisories in full."""
    from flacheck.tables import advisories

    return [each.to_json() for each in advisories.every()]


def list_schemas() -> list[str]:
    """Return the names of the JSON Schemas of flacheck's output, such as `run` or `gate`."""
    return sorted(_schema_files())


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of an output, by the name of `list_schemas` or as `flacheck.run/1`.

    >>> schema("gate")["title"]
    'flacheck.gate/1'

    Raises:
        UsageError: If the schema does not exist.
    """
    schemas = _schema_files()
    short_name = name.removeprefix("flacheck.").partition("/")[0]
    file = schemas.get(short_name)
    if file is None:
        raise UsageError(f"unknown schema {name!r}: there are {', '.join(sorted(schemas))}")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if name not in (short_name, content["title"]):
        raise UsageError(f"unknown schema {name!r}: this release writes {content['title']}")
    return content


def _schema_files() -> dict[str, Any]:
    """Return the newest schema of each output by its name."""
    schemas = {}
    folder = files(tables) / "schemas"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".json"):
            schemas[file.name.rpartition("-")[0]] = file
    return schemas
