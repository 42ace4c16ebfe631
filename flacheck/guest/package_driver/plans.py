"""How an operator is called once: which arguments it is given, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Plan:
    """`given` are optional arguments made up as if they were required; `values`, `shapes` and
    `dtypes` are what single arguments are; `sizes` what dimensions stand for; `build` the
    constructor's arguments of a layer.
    """

    label: str = "plain"
    given: frozenset = frozenset()
    values: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)
    shapes: dict = field(default_factory=dict)
    dtypes: dict = field(default_factory=dict)
    build: dict = field(default_factory=dict)
    training: bool = True

    def giving(self, *names: str) -> Plan:
        kept = {
            name: value
            for name, value in self.values.items()
            if name not in names or value is not None
        }
        return replace(self, given=self.given.union(names), values=kept)

    def omitting(self, name: str) -> Plan:
        kept = {other: value for other, value in self.values.items() if other != name}
        return replace(self, given=self.given - {name}, values=kept)

    def but(self, label: str | None = None, **changes) -> Plan:
        """The same with more values, sizes, shapes, dtypes or build arguments, or another flag."""
        merged = {
            name: {**getattr(self, name), **change} if isinstance(change, dict) else change
            for name, change in changes.items()
        }
        return replace(self, label=label or self.label, **merged)

    @property
    def identity(self) -> str:
        """What tells two plans apart, whatever they are called."""
        return repr(replace(self, label=""))
