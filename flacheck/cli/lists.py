"""flacheck list: the kernels, matrices, targets and rules there are."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

Rows = list[dict[str, Any]]


@common.command
def show(
    what: Annotated[str, typer.Argument(metavar="kernels|matrices|targets|rules")],
    format: common.ShortFormat = "table",
) -> int:
    """List the kernels, matrices, targets or rules there are."""
    from flacheck import reports
    from flacheck.reports.document import listing

    if what not in _ROWS:
        raise UsageError(f"cannot list {what!r}: there are {', '.join(_ROWS)}")
    reports.check(format, reports.TABLE_OR_JSON)
    common.show(format, listing(_ROWS[what]()))
    return Exit.OK


def _kernels() -> Rows:
    from flacheck.inputs import corpus

    rows: Rows = []
    for name, entry in corpus.load().items():
        named = {"kernel": name, "operator": entry.kernel.operator, "form": entry.kernel.form}
        rows.append({**named, "configs": len(entry.launches[0].configs)})
    return rows


def _matrices() -> Rows:
    from flacheck.inputs import matrix

    matrices = {name: matrix.find(name) for name in matrix.names()}
    return [{"matrix": name, "description": made.description} for name, made in matrices.items()]


def _targets() -> Rows:
    from flacheck.tables.targets import TARGETS

    return [
        {
            "target": name,
            "gpu": row.gpu,
            "shared": row.shared_limit,
            "note": "experimental" if row.experimental else "",
        }
        for name, row in TARGETS.items()
    ]


def _rules() -> Rows:
    from flacheck.rules import RULES

    return [{"code": code, "title": rule.title} for code, rule in sorted(RULES.items())]


_ROWS: dict[str, Callable[[], Rows]] = {
    "kernels": _kernels,
    "matrices": _matrices,
    "targets": _targets,
    "rules": _rules,
}
