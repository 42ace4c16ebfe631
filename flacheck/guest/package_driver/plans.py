"""How an operator is called once, and what somebody wrote down about calls of a package."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .operators import Operator

_TABLES = ("values", "sizes", "shapes", "dtypes", "build")


@dataclass(frozen=True)
class CallPlan:
    """`given` are optional arguments made up as if they were required; `values`, `shapes` and
    `dtypes` are what single arguments are; `sizes` what dimensions stand for; `build` the
    constructor's arguments of a layer. `passed` marks values that the package itself passed,
    `torchs` those that torch's tests pass to the operator which a function stands for."""

    label: str = "plain"
    given: frozenset[str] = frozenset()
    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    training: bool = True
    passed: bool = False
    torchs: bool = False

    def giving(self, *names: str) -> CallPlan:
        """The plan with some optional arguments; a value of None for one of them is dropped."""
        kept = {n: value for n, value in self.values.items() if n not in names or value is not None}
        return replace(self, given=self.given.union(names), values=kept)

    def without_value(self, name: str) -> CallPlan:
        """The plan in which an argument is made up, whatever it was said to be."""
        kept = {other: value for other, value in self.values.items() if other != name}
        return replace(self, values=kept)

    def omitting(self, name: str) -> CallPlan:
        kept = {other: value for other, value in self.values.items() if other != name}
        return replace(self, given=self.given - {name}, values=kept)

    def but(self, label: str | None = None, **changes: Any) -> CallPlan:
        """The plan with more values, sizes, shapes, dtypes or build arguments, or another flag."""
        for name, change in changes.items():
            if isinstance(change, dict):
                changes[name] = {**getattr(self, name), **change}
        return replace(self, label=label or self.label, **changes)

    @property
    def identity(self) -> str:
        """The same for two plans that differ in their labels only."""
        return repr(replace(self, label=""))


class Recipe:
    """A parsed YAML file, asked by operator; its form is in the recipes' own header comments."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._operators = content.get("operators") or {}
        self.skipped_modules = tuple(content.get("skip") or ())
        tables: dict[str, Any] = {name: content.get(name) or {} for name in _TABLES}
        self.common = CallPlan(**tables)

    def _entries(self, operator: Operator) -> Iterator[Mapping[str, Any]]:
        """What is said of an operator, by the shorter, so more general patterns first."""
        for pattern in sorted(self._operators, key=len):
            if fnmatch.fnmatchcase(operator.name, pattern):
                yield self._operators[pattern] or {}

    def skips(self, operator: Operator) -> str | None:
        """Why an operator is not called, None when it is."""
        reasons = [entry["skip"] for entry in self._entries(operator) if entry.get("skip")]
        return next(iter(reasons), None)

    def plain(self, operator: Operator) -> CallPlan:
        """The first call of an operator."""
        plan = CallPlan()
        for entry in self._entries(operator):
            plan = _changed(plan, entry)
        return plan

    def variants(self, operator: Operator, plan: CallPlan) -> Iterator[CallPlan]:
        """Further calls that are worth making."""
        number = 0
        for entry in self._entries(operator):
            for variant in entry.get("variants") or ():
                number += 1
                yield _changed(plan, variant, variant.get("name") or f"variant {number}")


def _changed(plan: CallPlan, entry: Mapping[str, Any], label: str | None = None) -> CallPlan:
    tables = {name: entry[name] for name in _TABLES if entry.get(name)}
    plan = plan.but(label, training=entry.get("training", plan.training), **tables)
    return plan.giving(*entry.get("give") or ())
