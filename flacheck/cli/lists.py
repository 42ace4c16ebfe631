"""flacheck list: the kernels, matrices, targets, rules and advisories there are."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from flacheck.cli import common, flags
from flacheck.errors import Exit, UsageError

Rows = list[dict[str, Any]]


@common.command
def show(
    what: Annotated[str, typer.Argument(metavar="kernels|matrices|targets|rules|advisories")],
    format: flags.ShortFormat = "table",
) -> int:
    """List the kernels, matrices, targets, rules or advisories there are."""
    from flacheck import reports
    from flacheck.reports.document import Report, listing

    if what not in _ROWS:
        raise UsageError(f"cannot list {what!r}: there are {', '.join(_ROWS)}")
    reports.check(format, reports.TABLE_OR_JSON)
    rows = _ROWS[what]()
    report = listing(rows)
    if what in _WHOLE:
        report = Report(report.parts, _WHOLE[what]())
    common.show(format, report)
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


def _advisories() -> Rows:
    from flacheck.tables import advisories

    # One line each; `explain`, gate and scan print the whole where it applies.
    return [
        {
            "advisory": each.id,
            "triton": each.triton,
            "targets": " ".join(each.targets),
            "about": ", ".join(each.packages or each.kernels),
            "effect": each.effect.value,
            "since": each.reported.isoformat(),
        }
        for each in advisories.every()
    ]


def _whole_advisories() -> Rows:
    from flacheck.tables import advisories

    return [each.to_json() for each in advisories.every()]


_ROWS: dict[str, Callable[[], Rows]] = {
    "kernels": _kernels,
    "matrices": _matrices,
    "targets": _targets,
    "rules": _rules,
    "advisories": _advisories,
}
# What JSON says in full of a list whose table is short.
_WHOLE: dict[str, Callable[[], Rows]] = {"advisories": _whole_advisories}
