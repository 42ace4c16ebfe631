"""The few configurations of a kernel and dtype that find most failures of all of them.

Failures follow extremes: many warps on a small or a large tile, many stages, the largest head
size, an argument that is None in one launch only, head sizes of keys and values that differ. Each
configuration has some of these traits; the choice is greedy, by the traits that no chosen
configuration has yet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from flacheck.model import canonical
from flacheck.model.launch import is_int

# The configurations besides the usual one that each kernel and dtype may have: three compiles of
# each in all. The most of one, where others need fewer.
EACH, MOST = 2, 5
# Triton's default.
_USUAL_WARPS = 4
# Traits that were seen to matter more than the value of one argument.
_WEIGHTS = {
    ("warps and tile", "most"): 4,
    ("warps and tile", "least"): 4,
    ("demand", "most"): 3,
    ("warps", "most"): 2,
    ("stages", "most"): 2,
}
_Trait = tuple[str, ...]


@dataclass(frozen=True)
class LaunchSettings:
    """A launch in one configuration.

    `args` are the arguments without `tuned_constants`, which the autotuner supplies. The
    configurations of a launch should share `args`: its traits are computed once.
    """

    args: Mapping[str, Any]
    options: Mapping[str, Any]
    tuned_constants: Mapping[str, Any]
    is_made_up: bool = False


@dataclass(frozen=True)
class Group:
    """The usual configurations of a kernel and dtype, and the candidates to add."""

    usual: Sequence[LaunchSettings]
    candidates: Sequence[LaunchSettings]


def choose(groups: Sequence[Group]) -> list[list[int]]:
    """Return for each group the positions of the candidates to compile besides the usual ones.

    Each group may have EACH positions; a group that needs fewer leaves the rest to the others, up
    to MOST.
    """
    rankings = [list(_rank(group)) for group in groups]
    choices = [[index for _, index in ranking[:EACH]] for ranking in rankings]
    spare = EACH * len(groups) - sum(map(len, choices))
    more = []
    for position, ranking in enumerate(rankings):
        for gain, index in ranking[EACH:]:
            more.append((gain, position, index))
    # The gains of a group fall, so that its candidates keep their order.
    more.sort(key=lambda each: -each[0])
    for _, position, index in more[:spare]:
        choices[position].append(index)
    return choices


def _rank(group: Group) -> Iterator[tuple[int, int]]:
    """Yield the best candidates of a group with their gains, the best first."""
    every = _Traits([*group.usual, *group.candidates])
    known_traits: set[_Trait] = set()
    for settings in group.usual:
        known_traits |= every.of(settings)
    candidates = group.candidates
    # Most candidates differ in nothing that counts; the first of them stands for the others.
    first: dict[frozenset[_Trait], int] = {}
    for index in sorted(range(len(candidates)), key=lambda index: candidates[index].is_made_up):
        first.setdefault(every.of(candidates[index]), index)
    for _ in range(MOST):
        gains = {traits: _weight(traits - known_traits) for traits in first}
        best = max(gains, key=gains.__getitem__, default=frozenset())
        if not gains.get(best):
            break
        known_traits |= best
        yield gains[best], first[best]


def _weight(traits: Iterable[_Trait]) -> int:
    """Return the sum of the traits' weights."""
    weight = 0
    for name, end, *_ in traits:
        weight += _WEIGHTS.get((name, end), 1)
    return weight


class _Traits:
    """The traits of the configurations of one kernel and dtype."""

    def __init__(self, every: Sequence[LaunchSettings]) -> None:
        self._launches: dict[int, _Launch] = {}
        for settings in every:
            if id(settings.args) not in self._launches:
                self._launches[id(settings.args)] = _Launch(settings.args)
        self._ends = _ends(self._figures(settings) for settings in every)
        launches = self._launches.values()
        self._size_ends = _ends(launch.sizes for launch in launches)
        self._pairs = _equal_in_some({launch.equal_pairs for launch in launches})
        self._kinds: dict[str, set[str]] = {}
        for launch in launches:
            for name, kind in launch.kinds.items():
                self._kinds.setdefault(name, set()).add(kind)
        self._of_launch = {key: self._launch_traits(each) for key, each in self._launches.items()}

    def of(self, settings: LaunchSettings) -> frozenset[_Trait]:
        """Return the traits of a configuration in which others differ."""
        traits = set(self._of_launch[id(settings.args)])
        ends = {}
        for name, figure in self._figures(settings).items():
            end = _end(figure, self._ends[name])
            if end:
                ends[name] = end
                traits.add((name, end))
        if ends.get("warps") == "most" and "tile" in ends:
            traits.add(("warps and tile", ends["tile"]))
        return frozenset(traits)

    def _launch_traits(self, launch: _Launch) -> frozenset[_Trait]:
        traits: set[_Trait] = set()
        for name, size in launch.sizes.items():
            end = _end(size, self._size_ends[name])
            if end:
                traits.add(("size", name, end))
        for pair in self._pairs:
            traits.add(("equal" if pair in launch.equal_pairs else "different", *pair))
        for name, kind in launch.kinds.items():
            if len(self._kinds[name]) > 1 or name in self._size_ends:
                traits.add(("kind", name, kind))
        return frozenset(traits)

    def _figures(self, settings: LaunchSettings) -> dict[str, int]:
        """Return warps, stages, the tile, and the demand for memory of a configuration."""
        stages = settings.options.get("num_stages") or 1
        tile = math.prod(_positive(settings.tuned_constants.values()))
        volume = self._launches[id(settings.args)].volume
        return {
            "warps": settings.options.get("num_warps") or _USUAL_WARPS,
            "stages": stages,
            "tile": tile,
            "demand": stages * tile * volume,
        }


class _Launch:
    """A launch's integer constants, what it specialises the kernel on, and their product."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.sizes: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        for name, value in args.items():
            if isinstance(value, Mapping) and is_int(value.get("constexpr")):
                self.sizes[name] = value["constexpr"]
            elif isinstance(value, Mapping) and ("int" in value or "float" in value):
                # A kernel is not specialised on most numbers.
                self.kinds[name] = next(iter(value))
            else:
                self.kinds[name] = canonical(value)
        self.volume = math.prod(_positive(self.sizes.values()))
        equal_pairs = set()
        for one, other in itertools.combinations(sorted(self.sizes), 2):
            if self.sizes[one] == self.sizes[other]:
                equal_pairs.add((one, other))
        self.equal_pairs = frozenset(equal_pairs)


def _equal_in_some(launches: Set[frozenset[tuple[str, str]]]) -> frozenset[tuple[str, str]]:
    """Return the pairs of constants that are equal in some launches and differ in others."""
    if not launches:
        return frozenset()
    return frozenset.union(*launches) - frozenset.intersection(*launches)


def _positive(values: Iterable[Any]) -> list[int]:
    return [value for value in values if is_int(value) and value > 0]


def _ends(rows: Iterable[Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """Return the least and the greatest value of each name."""
    ends: dict[str, tuple[int, int]] = {}
    for row in rows:
        for name, value in row.items():
            least, greatest = ends.get(name, (value, value))
            ends[name] = min(least, value), max(greatest, value)
    return ends


def _end(value: int, ends: tuple[int, int]) -> str | None:
    """Return `least` or `most` for an end of a range; None within it, or if it has one value."""
    least, greatest = ends
    if least == greatest or least < value < greatest:
        return None
    return "most" if value == greatest else "least"
