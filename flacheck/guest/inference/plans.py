"""Plans of calls: how an operator is called once, and recipes for the calls of a package."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .operators import Operator

_TABLES = ("values", "sizes", "shapes", "dtypes")


@dataclass(frozen=True)
class CallPlan:
    """A plan of one call.

    Attributes:
        include: optional arguments that are inferred like required ones.
        values: arguments' values by name.
        sizes: sizes of dimensions by their symbol.
        shapes: dimensions of arguments by name.
        dtypes: dtypes of arguments by name.
        build: values of the arguments of a layer's or object's constructor.
        training: True for a call with gradients.
        is_repaired: True if the plan was changed after an error.
        sizes_from: the source of the sizes.
    """

    label: str = "plain"
    include: frozenset[str] = frozenset()
    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    training: bool = True
    is_repaired: bool = False
    sizes_from: str = ""

    def including(self, *names: str) -> CallPlan:
        """Return the plan with optional arguments, whose values of None are removed."""
        values = {}
        for name, value in self.values.items():
            if name not in names or value is not None:
                values[name] = value
        return replace(self, include=self.include.union(names), values=values)

    def omitting(self, name: str) -> CallPlan:
        """Return the plan without an optional argument."""
        values = dict(self.values)
        values.pop(name, None)
        return replace(self, include=self.include - {name}, values=values)

    def with_changes(self, label: str | None = None, **changes: Any) -> CallPlan:
        """Return the plan with other flags, and with additional entries in its tables."""
        for name, change in changes.items():
            if isinstance(change, dict):
                changes[name] = {**getattr(self, name), **change}
        return replace(self, label=label or self.label, **changes)

    @property
    def identity(self) -> str:
        """A text that is equal for plans that differ in their labels only."""
        return repr(replace(self, label=""))


Plans = Iterator[CallPlan]


class Recipe:
    """A recipe for a package's calls; the header comments of the recipe files describe the form.

    Attributes:
        skipped_modules: patterns of modules that are not imported.
        common: the tables that apply to all operators.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._operators = content.get("operators") or {}
        self.skipped_modules = tuple(content.get("skip") or ())
        tables: dict[str, Any] = {name: content.get(name) or {} for name in _TABLES}
        self.common = CallPlan(**tables)

    def _entries(self, operator: Operator) -> Iterator[Mapping[str, Any]]:
        """Yield the entries for an operator; shorter patterns are more general and come first."""
        for pattern in sorted(self._operators, key=len):
            if fnmatch.fnmatchcase(operator.name, pattern):
                yield self._operators[pattern] or {}

    def plain(self, operator: Operator) -> CallPlan:
        """Return the plan of an operator's first call."""
        plan = CallPlan()
        for entry in self._entries(operator):
            plan = _apply_entry(plan, entry)
        return plan

    def variants(self, operator: Operator, plan: CallPlan) -> Plans:
        """Yield the recipe's variants of a plan."""
        for entry in self._entries(operator):
            for variant in entry.get("variants") or ():
                yield _apply_entry(plan, variant, variant["name"])


def _apply_entry(plan: CallPlan, entry: Mapping[str, Any], label: str | None = None) -> CallPlan:
    """Return a plan with the changes of a recipe's entry."""
    tables = {name: entry[name] for name in _TABLES if entry.get(name)}
    training = entry.get("training", plan.training)
    plan = plan.with_changes(label, training=training, **tables)
    return plan.including(*entry.get("give") or ())
