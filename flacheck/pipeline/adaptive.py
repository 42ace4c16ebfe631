"""The choice of a few cells of a plan: a covering set, then searches around failures.

A cell is a point with one value on each axis: kernel, dtype, GPU, release, each option, each tuned
constant, and the launch's other arguments. The rounds are

1. a covering set: every value, and every pair of values, of some cell is in a compiled cell. The
   launch is left out, since most launches have a kernel to themselves. Where all pairs take more
   than the share of step 3, those of kernels are left to that step, but each kernel is compiled;
2. for each signature, the line through its first cell along each axis, except kernel and launch.
   Releases and numbers have an order and are searched as in a bisect, GPUs and dtypes one by one;
3. up to a share of all cells, and step 2 again for each new signature: first the largest cell of
   each kernel on each GPU, since a limit of shared memory or of registers is met there; then those
   with the most new values of a kernel and two other axes, or of a launch and one; then those with
   the most new triples of any axes.

Most failures depend on the kernel. On the cross of FLA 0.2.2 in `tests/pipeline/crosses`, over
twelve drawn pairs of halves in random order, this step finds 181 of 191 signatures, and triples of
any axes alone find 170.

A CUDA unit has an axis for each part of its name in place of the kernel, because projects generate
units by the dozen and name them by their choices (`fwd_hdim128_fp8_paged.cu`): a unit with a part
that no other has is always compiled. Pairs of parts count from step 3 on.

Generators of covering arrays draw rows from a full product. A plan is a small part of one, since
each kernel has tuned constants of its own, and allpairspy 2.5.1 ends at the first row that repeats
pairs alone. The greedy choice here draws from the cells that exist and covers all their pairs.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from flacheck.evidence.analysis.order import by_version
from flacheck.evidence.analysis.ordered_search import State, turning_points
from flacheck.model import Cell, Record, Unit, Verdict, canonical
from flacheck.subjects.inputs.expand import tuned_names

# The share of all cells that is compiled at least, and the rounds in which the last step takes it.
SHARE = 0.15
_FILLING_ROUNDS = 8
# The state of a cell that compiles; that of a failure is its signature.
_COMPILES = "compiles"
_KERNEL, _LAUNCH = "kernel", "launch"
_WITHOUT_SEARCH = (_KERNEL, _LAUNCH)
_WITHOUT_ORDER = ("dtype", "target")
# The size of a cell is no axis of its own: the constants and the dtype decide it.
_SIZE, _LARGEST = "size", "largest"
# The bits in a dtype's name.
_BITS = re.compile(r"\d+")
# The beginning of the axes of a unit's name, and the parts of a name.
_PART = "part "
_PARTS = re.compile(r"[A-Za-z0-9]+")

# The values of a cell by axis; an axis that its kernel lacks is absent.
Point = Mapping[str, Any]
# Values of some axes.
Combination = frozenset[tuple[str, Any]]
# Axes whose combinations of values a cover has to contain.
Axes = tuple[str, ...]
_LineSearch = Generator[list[int], Mapping[int, State], None]


def choose_cells(cells: Sequence[Cell], states: Mapping[str, State]) -> Iterator[Sequence[Cell]]:
    """Yield cells by the states of earlier ones; the caller adds each round's states by key.

    All autotuner runs and units without a launch come first, because extents count only launches.
    """
    by_key = {}
    points = {}
    uncounted_cells = []
    for cell in cells:
        if cell.launch is None or cell.stage != "compile":
            uncounted_cells.append(cell)
            continue
        by_key[cell.key] = cell
        points[cell.key] = point_of(cell)
    if uncounted_cells:
        yield uncounted_cells
    for keys in choose_rounds(points, states):
        yield [by_key[key] for key in keys]


def point_of(cell: Cell) -> Point:
    """Return the values of a cell by axis, and its size."""
    is_unit = isinstance(cell.kernel.origin, Unit)
    kernel = (cell.kernel.package or "", cell.kernel.name)
    point: dict[str, Any] = {
        "dtype": cell.dtype or "",
        "target": cell.target,
        "toolchain": cell.toolchain,
    }
    for name, value in cell.options.items():
        point[f"option {name}"] = _plain(value)
    other_arguments: dict[str, Any] = {}
    if is_unit:
        for part in _PARTS.findall(cell.kernel.name):
            point[_PART + part] = True
        # Parts in another order are another unit.
        other_arguments["unit"] = list(kernel)
    else:
        point[_KERNEL] = kernel
    if cell.launch is not None:
        tuned_parameters = tuned_names(cell.configs)
        for name, argument in cell.launch.to_json()["args"].items():
            # A unit's macros are its constants.
            if argument is not None and (is_unit or name in tuned_parameters):
                point[f"constant {name}"] = _plain(argument.get("constexpr"))
            else:
                other_arguments[name] = argument
    point[_LAUNCH] = canonical(other_arguments)
    point[_SIZE] = _size_of(cell)
    return point


def _size_of(cell: Cell) -> int:
    """Return a number that grows with the shared memory of a kernel's cells, in no unit.

    It is the product of the constants, the stages and the bits of the dtype.
    """
    size = 1
    if cell.launch is not None:
        for argument in cell.launch.to_json()["args"].values():
            size *= _extent((argument or {}).get("constexpr"))
    size *= _extent(cell.options.get("num_stages"))
    bits = _BITS.search(cell.dtype or "")
    return size * int(bits[0]) if bits else size


def _extent(value: Any) -> int:
    """Return a positive integer as it is, and 1 for any other value."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and value > 0 else 1


def state_of(record: Record) -> State:
    """Return the signature of a failure, `compiles`, or None without a verdict."""
    if record.verdict is Verdict.FAILS:
        return record.signature
    if record.verdict is Verdict.COMPILES:
        return _COMPILES
    return None


def choose_rounds(
    points: Mapping[str, Point], states: Mapping[str, State], share: float = SHARE
) -> Iterator[list[str]]:
    """Yield the keys of the cells to compile next, until the failures' boundaries are known.

    Args:
        points: The values of each cell, by its key.
        states: The states of the compiled cells by key. The caller adds those of a round before it
            takes the next one.
        share: The share of the cells that is compiled at least.
    """
    unsized_points = {key: _without_axis(point, _SIZE) for key, point in points.items()}
    choice = _Choice(unsized_points, _mark_largest(points), states)
    yield from choice.rounds(least(len(points), share))


def least(count: int, share: float = SHARE) -> int:
    """Return how many of so many cells are compiled at least."""
    return math.ceil(share * count)


def _mark_largest(points: Mapping[str, Point]) -> dict[str, Point]:
    """Give the largest cells of each kernel an axis that the others lack; leave out the sizes."""
    largest: dict[Any, int] = {}
    for point in points.values():
        kernel = point.get(_KERNEL)
        largest[kernel] = max(largest.get(kernel, 0), point.get(_SIZE, 0))
    marked_points: dict[str, Point] = {}
    for key, point in points.items():
        marked_point = dict(_without_axis(point, _SIZE))
        if point.get(_SIZE) == largest[point.get(_KERNEL)]:
            marked_point[_LARGEST] = True
        marked_points[key] = marked_point
    return marked_points


def _covering_axes(axes: Sequence[str]) -> Iterator[Axes]:
    """Yield the axes of the covering set: each one and each pair, but no pair of a name's parts."""
    covered_axes = [axis for axis in axes if axis != _LAUNCH]
    for axis in covered_axes:
        yield (axis,)
    for pair in combinations(covered_axes, 2):
        if not all(axis.startswith(_PART) for axis in pair):
            yield pair


def _filling_axes(axes: Sequence[str]) -> Iterator[list[Axes]]:
    """Yield the axes of the covers that fill the share, one cover after the other."""
    yield [(_KERNEL, "target", _LARGEST)]
    others = [axis for axis in axes if axis not in (_KERNEL, _LAUNCH)]
    cover: list[Axes] = [(_LAUNCH, "toolchain"), (_LAUNCH, "target"), (_LAUNCH, _KERNEL)]
    cover += [(_KERNEL, *pair) for pair in combinations(others, 2)]
    yield cover
    yield [*combinations(axes, 2), *combinations(axes, 3)]


def _plain(value: Any) -> Any:
    """Return a number or text as it is, any other value as canonical JSON."""
    if isinstance(value, (int, float, str)):
        return value
    return canonical(value)


@dataclass
class _Choice:
    """The compiled cells of a plan and the combinations of values that they cover."""

    # The values of each cell without its size; and the same with a mark for the largest cells.
    points: Mapping[str, Point]
    marked_points: Mapping[str, Point]
    states: Mapping[str, State]
    # The keys so far, in order.
    keys: dict[str, None] = field(default_factory=dict)
    _signatures: set[State] = field(default_factory=set)
    _lines: dict[str, dict[Combination, list[str]]] = field(default_factory=dict)

    def rounds(self, count: int) -> Iterator[list[str]]:
        """Yield the rounds; the last ones fill up to `count` cells."""
        axes = self._axes()
        yield self._choose(self._covering_keys(axes, count))
        yield from self._search_failures()
        size = max(1, (count - len(self.keys)) // _FILLING_ROUNDS)
        for axes_of_cover in _filling_axes(axes):
            cover = _Cover(self.marked_points, axes_of_cover)
            while len(self.keys) < count:
                cover.add(self.keys)
                keys = cover.take(min(size, count - len(self.keys)))
                if not keys:
                    break
                yield self._choose(keys)
                yield from self._search_failures()

    def _covering_keys(self, axes: Sequence[str], count: int) -> list[str]:
        """Return a covering set, with a kernel's pairs if at most `count` cells cover all pairs.

        If kernels have one cell in each dtype, all pairs of a kernel and a dtype would be all
        cells.
        """
        all_axes = list(_covering_axes(axes))
        keys = _Cover(self.points, all_axes).take(count + 1)
        if len(keys) <= count:
            return keys
        small_axes = [each for each in all_axes if each == (_KERNEL,) or _KERNEL not in each]
        return _Cover(self.points, small_axes).take(len(self.points))

    def _axes(self) -> list[str]:
        """Return the axes on which cells differ."""
        values: dict[str, list[Any]] = {}
        for point in self.points.values():
            for axis, value in point.items():
                values.setdefault(axis, []).append(value)
        axes = []
        for axis, each in values.items():
            is_missing_somewhere = axis.startswith(_PART) and len(each) < len(self.points)
            if is_missing_somewhere or len(set(each)) > 1:
                axes.append(axis)
        return axes

    def _choose(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that are new, and count them as chosen."""
        new_keys = [key for key in dict.fromkeys(keys) if key not in self.keys]
        self.keys.update(dict.fromkeys(new_keys))
        return new_keys

    def _search_failures(self) -> Iterator[list[str]]:
        """Yield the cells around the first failure of each new signature, until none is new."""
        while origins := self._new_failures():
            searches: list[tuple[list[str], _LineSearch]] = []
            for key in origins:
                searches += self._searches(key)
            yield from self._advance(searches)

    def _new_failures(self) -> list[str]:
        """Return the first cell of each signature that was not searched."""
        origins = []
        for key in self.keys:
            state = self.states.get(key)
            if state in (None, _COMPILES) or state in self._signatures:
                continue
            self._signatures.add(state)
            origins.append(key)
        return origins

    def _searches(self, key: str) -> Iterator[tuple[list[str], _LineSearch]]:
        """Yield each line through a cell, with the search for the changes on it."""
        for axis in self.points[key]:
            line = self._line(key, axis)
            if axis in _WITHOUT_SEARCH or len(line) == 1 or axis.startswith(_PART):
                continue
            if axis in _WITHOUT_ORDER:
                yield line, _take_all(len(line))
            else:
                yield line, turning_points(len(line), line.index(key))

    def _line(self, key: str, axis: str) -> list[str]:
        """Return the cells that differ from one on an axis alone, in the order of its values."""
        if axis not in self._lines:
            lines: dict[Combination, list[str]] = {}
            for other, point in self.points.items():
                if axis in point:
                    lines.setdefault(_without(point, axis), []).append(other)
            self._lines[axis] = lines
        rank = _rank_of(axis)
        line = self._lines[axis][_without(self.points[key], axis)]
        return sorted(line, key=lambda other: rank(self.points[other][axis]))

    def _advance(self, searches: Sequence[tuple[list[str], _LineSearch]]) -> Iterator[list[str]]:
        """Run searches side by side; yield the new cells of each turn."""
        turns = [(line, search, next(search)) for line, search in searches]
        while turns:
            keys = []
            for line, _, places in turns:
                keys += [line[place] for place in places]
            new_keys = self._choose(keys)
            if new_keys:
                yield new_keys
            next_turns = []
            for line, search, _ in turns:
                states = {}
                for place, key in enumerate(line):
                    if key in self.keys:
                        states[place] = self.states.get(key)
                try:
                    next_turns.append((line, search, search.send(states)))
                except StopIteration:
                    continue
            turns = next_turns


def _take_all(count: int) -> _LineSearch:
    """Search a line without an order: examine every position."""
    yield list(range(count))


def _without(point: Point, axis: str) -> Combination:
    return frozenset(_without_axis(point, axis).items())


def _without_axis(point: Point, axis: str) -> Point:
    return {name: value for name, value in point.items() if name != axis}


def _rank_of(axis: str) -> Callable[[Any], Any]:
    """Return the sort key of an axis's values."""
    if axis == "toolchain":
        return by_version
    # Numbers before text.
    return lambda value: (isinstance(value, str), value)


class _Cover:
    """A greedy choice of the points with the most combinations of values that none has yet."""

    def __init__(self, points: Mapping[str, Point], axes: Sequence[Axes]) -> None:
        self._points, self._axes = points, axes
        self._covered: set[Combination] = set()
        self._counted: set[str] = set()
        # Keys are digests: their order favours no kernel. A count of new combinations only falls,
        # so that the first of the heap is the best if its count still holds.
        counts: list[tuple[int, str]] = []
        for key in points:
            counts.append((-sum(1 for _ in self._combinations(key)), key))
        heapq.heapify(counts)
        self._counts = counts

    def add(self, keys: Iterable[str]) -> None:
        """Count points that are chosen."""
        for key in keys:
            if key not in self._counted:
                self._counted.add(key)
                self._covered.update(self._combinations(key))

    def take(self, most: int) -> list[str]:
        """Choose points until all combinations are covered, at most so many."""
        keys: list[str] = []
        while self._counts and len(keys) < most:
            count, key = heapq.heappop(self._counts)
            new_count = -sum(each not in self._covered for each in self._combinations(key))
            if new_count == 0:
                continue
            if new_count > count:
                heapq.heappush(self._counts, (new_count, key))
                continue
            self.add([key])
            keys.append(key)
        return keys

    def _combinations(self, key: str) -> Iterator[Combination]:
        point = self._points[key]
        for axes in self._axes:
            if all(axis in point for axis in axes):
                yield frozenset((axis, point[axis]) for axis in axes)
