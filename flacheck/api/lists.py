"""`flacheck.list_…`: the kernels, matrices, targets, rules and advisories there are."""

from __future__ import annotations

from typing import Any

Rows = list[dict[str, Any]]


def list_kernels() -> Rows:
    """Return flacheck's own kernels with operator, form and number of configurations."""
    from flacheck.inputs import corpus

    rows: Rows = []
    for name, entry in corpus.load().items():
        row = {"kernel": name, "operator": entry.kernel.operator, "form": entry.kernel.form}
        rows.append({**row, "configs": len(entry.launches[0].configs)})
    return rows


def list_matrices() -> Rows:
    """Return the matrices that ship with flacheck."""
    from flacheck.inputs import matrix

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
