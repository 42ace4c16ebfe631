"""What to use instead of a failing cell, as a value; `flacheck.fallbacks` finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flacheck.model import Json


@dataclass(frozen=True)
class Fallback:
    """Use `use` (only what changes) in place of `failing` (what tells this cell from its kernel's
    others).

    The cost is a distance, not a time: `changes`, how many settings change, and `steps`, how many
    doublings or halvings that takes; another dtype or form counts as one step, another release as
    many as lie between. One that was searched for also has an estimated `loss`, log2 of a ratio of
    times, None for what no estimate knows; `marks`, who has to change each setting; what `follows`
    in the host code; `places`, every (toolchain, target) on which it was seen to compile; and
    `key`, the failing cell's.
    """

    kernel: str
    package: str | None
    toolchain: str
    target: str
    failing: Mapping[str, Any]
    use: Mapping[str, Any]
    steps: float
    loss: float | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[tuple[str, str], ...] = ()
    key: str = ""

    @property
    def changes(self) -> int:
        return len(self.use)

    def to_json(self) -> Json:
        """As in a summary; what only a search knows is left out of what the scan itself saw."""
        value: Json = {
            "kernel": self.kernel,
            "toolchain": self.toolchain,
            "target": self.target,
            "failing": dict(self.failing),
            "use": dict(self.use),
            "cost": {"changes": self.changes, "steps": self.steps},
        }
        if self.places:
            value["cost"]["loss"] = self.loss
            value["marks"] = dict(self.marks)
            value["follows"] = dict(self.follows)
            value["places"] = [dict(zip(("toolchain", "target"), place)) for place in self.places]
        return value

    @staticmethod
    def from_json(value: Mapping[str, Any], package: str | None) -> Fallback:
        """One that was searched for, as it was kept."""
        names = ("kernel", "toolchain", "target", "failing", "use", "marks", "follows")
        places = tuple((place["toolchain"], place["target"]) for place in value["places"])
        cost = {name: value["cost"][name] for name in ("steps", "loss")}
        return Fallback(
            package=package, places=places, **cost, **{name: value[name] for name in names}
        )
