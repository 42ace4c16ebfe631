"""What somebody wrote down about a package: a parsed YAML file, asked by operator."""

from __future__ import annotations

import fnmatch

from .plans import Plan

_TABLES = ("values", "sizes", "shapes", "dtypes", "build")


class Recipe:
    """The form is in the recipes' own header comments."""

    def __init__(self, content: dict) -> None:
        self._operators = content.get("operators") or {}
        self.skipped_modules = tuple(content.get("skip") or ())
        self.common = Plan(**{name: dict(content.get(name) or {}) for name in _TABLES})

    def _entries(self, operator) -> list[dict]:
        """What is said of an operator, the more general patterns first."""
        matching = [p for p in self._operators if fnmatch.fnmatchcase(operator.name, p)]
        return [self._operators[pattern] or {} for pattern in sorted(matching, key=len)]

    def skips(self, operator) -> str | None:
        """Why an operator is not called, None when it is."""
        return next((entry["skip"] for entry in self._entries(operator) if entry.get("skip")), None)

    def plain(self, operator) -> Plan:
        """The first call of an operator."""
        plan = Plan()
        for entry in self._entries(operator):
            plan = _changed(plan, entry)
        return plan

    def variants(self, operator, plan: Plan) -> list[Plan]:
        """Further calls that are worth making."""
        wanted = [
            variant for entry in self._entries(operator) for variant in entry.get("variants") or ()
        ]
        return [
            _changed(plan, variant, variant.get("name") or f"variant {n}")
            for n, variant in enumerate(wanted, 1)
        ]


def _changed(plan: Plan, entry: dict, label: str | None = None) -> Plan:
    tables = {name: entry[name] for name in _TABLES if entry.get(name)}
    plan = plan.but(label, training=entry.get("training", plan.training), **tables)
    return plan.giving(*entry.get("give") or ())
