"""Known-good toolchains by target, and the specifiers that pin them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.order import by_target, by_version, split
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standing_state import Share, StandingState, add_shares
from flacheck.model.wire import Count, JsonStruct

K = TypeVar("K", bound=Hashable)
TRITON = "triton"
Place = tuple[str, str]


class KnownGoodRelease(JsonStruct, frozen=True):
    """A compiler that is good or screened: nothing fails.

    `triton` is null for another compiler than Triton. `cells` counts those with evidence.
    """

    toolchain: str
    triton: str | None
    torch: tuple[str, ...]
    targets: Annotated[tuple[str, ...], Meta(min_length=1)]
    cells: Count
    advisories: tuple[Any, ...]
    standing: Annotated[StandingState, Meta(extra_json_schema={"enum": ["good", "screened"]})]
    configurations: Share
    kernels: Share


@dataclass(frozen=True)
class KnownGood:
    """A compiler that is good or screened for some targets.

    A Triton release also has the torch releases that pin it. `cells` counts the cells with
    evidence, `configurations` and `kernels` those of all questions.
    """

    toolchain: str
    torch: tuple[str, ...]
    targets: tuple[str, ...]
    cells: int
    advisories: tuple[Any, ...] = ()
    state: StandingState = StandingState.GOOD
    configurations: Share = field(default_factory=partial(Share, 0, None))
    kernels: Share = field(default_factory=partial(Share, 0, None))

    @property
    def triton(self) -> str | None:
        """The version if the compiler is Triton, else None."""
        name, version = split(self.toolchain)
        if name == TRITON:
            return version
        return None

    @property
    def has_index(self) -> bool:
        """True if a requirement can name the compiler: indexes do not have local builds."""
        return "+" not in self.toolchain

    def document(self) -> KnownGoodRelease:
        """Return the compiler in the form of flacheck.run/1."""
        return KnownGoodRelease.from_value(self, standing=self.state)


class Specifier(JsonStruct, frozen=True):
    """The requirement to pin for a target; `torch` is None if no torch fits."""

    target: str
    triton: Annotated[str, Meta(pattern="^triton")]
    torch: Annotated[str, Meta(pattern="^torch")] | None


def known_good(standings: Sequence[Standing], context: Context) -> list[KnownGood]:
    """Return the compilers that are good or screened for a target, oldest first.

    A compiler is good on a target if it is good in every question there.
    """
    good: dict[str, dict[str, list[Standing]]] = {}
    for place, there in group_by_key((each.place, each) for each in standings).items():
        if all(standing.is_passing for standing in there):
            toolchain, target = place
            good.setdefault(toolchain, {})[target] = there
    return [_known_good(name, good[name], context) for name in sorted(good, key=by_version)]


def _known_good(
    toolchain: str, by_gpu: Mapping[str, Sequence[Standing]], context: Context
) -> KnownGood:
    """Return a compiler with the targets on which it is good or screened."""
    on = sorted(by_gpu, key=by_target)
    name, version = split(toolchain)
    parts: list[Standing] = []
    advisories: list[Any] = []
    for target in on:
        parts += by_gpu[target]
        if name == TRITON:
            advisories += context.advisories(version, target)
    torch: Sequence[str] = ()
    # torch never pins a local build, whatever its public version.
    if name == TRITON and "+" not in version:
        torch = sorted(context.torch_for(version), key=by_version)
    state = StandingState.SCREENED
    if all(part.is_good for part in parts):
        state = StandingState.GOOD
    return KnownGood(
        toolchain,
        tuple(torch),
        tuple(on),
        sum(len(part.evidence) for part in parts),
        tuple(advisories),
        state,
        add_shares(part.configurations for part in parts),
        add_shares(part.kernel_share for part in parts),
    )


def collect_advisories(
    standings: Sequence[Standing], context: Context
) -> list[tuple[str, tuple[str, ...], str]]:
    """Return (Triton release, targets, advisory) for each requested release, oldest first.

    Advisories are public reports and independent of the outcomes there.
    """
    targets_of: dict[tuple[str, Any], set[str]] = {}
    for version, target in _triton_places(standings):
        for advisory in context.advisories(version, target):
            targets_of.setdefault((version, advisory), set()).add(target)
    groups = []
    for (version, advisory), targets in targets_of.items():
        groups.append((version, tuple(sorted(targets, key=by_target)), advisory))
    return sorted(groups, key=lambda group: by_version(group[0]))


def specifiers(
    standings: Sequence[Standing], good: Sequence[KnownGood], context: Context
) -> list[Specifier]:
    """Return the requirement to pin for each target with a known-good Triton from an index.

    A release with an advisory against it is pinned only if no other is good.
    """
    versions: set[str] = set()
    for version, _ in _triton_places(standings):
        versions.add(version)
    all_triton = context.known_triton or sorted(versions, key=by_version)
    # A requirement cannot name a local build: no index has it.
    all_triton = [version for version in all_triton if "+" not in version]
    all_torch = context.known_torch
    if not all_torch:
        all_torch = _sorted_versions(map(context.torch_for, all_triton))
    good_on: dict[str, list[KnownGood]] = {}
    for release in good:
        for target in release.targets:
            good_on.setdefault(target, []).append(release)
    specifiers = []
    for target in sorted(good_on, key=by_target):
        triton: list[str] = []
        torch_lists = []
        for release in prefer_unadvised(good_on[target], target, context):
            torch_lists.append(release.torch)
            if release.triton:
                triton.append(release.triton)
        torch = _sorted_versions(torch_lists)
        triton_pin, torch_pin = None, None
        if triton:
            triton_pin = context.specifier("triton", triton, all_triton)
        if torch:
            torch_pin = context.specifier("torch", torch, all_torch)
        if triton_pin:
            specifiers.append(Specifier(target, triton_pin, torch_pin))
    return specifiers


def _sorted_versions(groups: Iterable[Iterable[str]]) -> list[str]:
    return sorted(set[str]().union(*groups), key=by_version)


def prefer_unadvised(good: Sequence[KnownGood], target: str, context: Context) -> list[KnownGood]:
    """Return the good releases from an index without an advisory against them on the target.

    If every one has an advisory, all are returned.
    """
    from_index, clean = list[KnownGood](), list[KnownGood]()
    for release in good:
        if not release.has_index:
            continue
        from_index.append(release)
        if release.triton is None or not context.advisories(release.triton, target):
            clean.append(release)
    return clean or from_index


def group_by_key(pairs: Iterable[tuple[K, Any]]) -> Mapping[K, list[Any]]:
    """Return the values by key, in order of appearance."""
    out: defaultdict[K, list[Any]] = defaultdict(list)
    for key, value in pairs:
        out[key].append(value)
    return out


def _triton_places(standings: Iterable[Standing]) -> Mapping[Place, list[Standing]]:
    places: dict[Place, list[Standing]] = {}
    for standing in standings:
        name, version = split(standing.toolchain)
        if name == TRITON:
            places.setdefault((version, standing.target), []).append(standing)
    return places
