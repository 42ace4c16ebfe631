"""A replacement for a failing cell; `flacheck.pipeline.fallbacks` computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, convert

from flacheck.model import Json
from flacheck.model.wire import Count, JsonStruct, ToolchainName

Mark = Annotated[str, Meta(pattern="^(option|tunable|host constant|dtype|form|release)$")]


class FallbackCost(JsonStruct, frozen=True, kw_only=True):
    """A distance: the number of changed settings, and of doublings or halvings.

    `loss` of a fallback from a search is log2 of the estimated ratio of times, null without an
    estimate.
    """

    changes: Count
    steps: Annotated[float, Meta(gt=0)]
    loss: float | UnsetType | None = UNSET


class FallbackPlace(JsonStruct, frozen=True):
    """A place on which a fallback from a search compiled."""

    toolchain: ToolchainName
    target: str


class ReportedFallback(JsonStruct, frozen=True, kw_only=True):
    """Settings that compile in place of failing ones.

    `use` holds only the settings that change. Only a search has `marks`, the place where each
    setting must be changed; `follows`, the values that host code passes differently as a
    consequence; and `places`, on which the fallback compiled.
    """

    kernel: str
    toolchain: ToolchainName
    target: str
    failing: Mapping[str, Any]
    use: Annotated[Mapping[str, Any], Meta(min_length=1)]
    cost: FallbackCost
    marks: Mapping[str, Mark] | UnsetType = UNSET
    follows: Mapping[str, Any] | UnsetType = UNSET
    places: Annotated[tuple[FallbackPlace, ...], Meta(min_length=1)] | UnsetType = UNSET


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

    def reported(self) -> ReportedFallback:
        """Return the fallback as in a summary.

        Fields that only a search fills are left out of fallbacks from the scan's own records.
        """
        if self.places:
            cost = FallbackCost.from_value(self)
            places = tuple(FallbackPlace(*place) for place in self.places)
            return ReportedFallback.from_value(self, cost=cost, places=places)
        cost = FallbackCost(changes=self.changes, steps=self.steps)
        unset = dict.fromkeys(("marks", "follows", "places"), UNSET)
        return ReportedFallback.from_value(self, cost=cost, **unset)

    def to_json(self) -> Json:
        """Return the fallback as in a summary, as plain JSON values."""
        return self.reported().to_json()

    @staticmethod
    def from_reported(reported: ReportedFallback, package: str | None) -> Fallback:
        """Return a fallback that a summary reported."""
        loss = reported.cost.loss
        return Fallback(
            kernel=reported.kernel,
            package=package,
            toolchain=reported.toolchain,
            target=reported.target,
            failing=reported.failing,
            use=reported.use,
            steps=reported.cost.steps,
            loss=None if loss is UNSET else loss,
            marks=reported.marks or {},
            follows=reported.follows or {},
            places=tuple((each.toolchain, each.target) for each in reported.places or ()),
        )

    @staticmethod
    def from_json(value: Mapping[str, Any], package: str | None) -> Fallback:
        """Return a stored fallback."""
        return Fallback.from_reported(convert(value, ReportedFallback), package)
