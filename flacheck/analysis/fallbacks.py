"""A replacement for a failing cell; `flacheck.fallbacks` computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flacheck.model import Json


@dataclass(frozen=True)
class Fallback:
    """A change of settings, `use`, under which a failing cell's kernel compiles.

    `failing` holds the settings that distinguish the cell from its kernel's others. The cost is a
    distance, not a time: `changes` is the number of changed settings, and `steps` the number of
    doublings or halvings; another dtype or form counts as one step, another release as the number
    of releases between. A fallback from a search also has an estimated `loss`, log2 of a ratio of
    times, None without an estimate; `marks`, the place where each setting must be changed;
    `follows`, the consequences in the host code; `places`, every (toolchain, target) on which it
    compiled; and `key`, the failing cell's.
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
    # Not stored, so it does not take part in comparisons.
    key: str = field(default="", compare=False)

    @property
    def changes(self) -> int:
        return len(self.use)

    def to_json(self) -> Json:
        """Return the fallback as in a summary.

        Fields that only a search fills are left out of fallbacks from the scan's own records.
        """
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
            value["places"] = []
            for toolchain, target in self.places:
                value["places"].append({"toolchain": toolchain, "target": target})
        return value

    @staticmethod
    def from_json(value: Mapping[str, Any], package: str | None) -> Fallback:
        """Return a stored fallback that a search found."""
        names = ("kernel", "toolchain", "target", "failing", "use", "marks", "follows")
        places = []
        for place in value["places"]:
            places.append((place["toolchain"], place["target"]))
        fields = {name: value[name] for name in names}
        fields["steps"] = value["cost"]["steps"]
        fields["loss"] = value["cost"]["loss"]
        return Fallback(package=package, places=tuple(places), **fields)
