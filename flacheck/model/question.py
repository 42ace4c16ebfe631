"""The question of a run, and the command that made the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from msgspec import convert, to_builtins

from flacheck.model.cell import Cell
from flacheck.model.extent import LaunchExtent
from flacheck.model.values import Json, digest

# Parts of a selection that do not narrow the question: every release and every GPU is a question of
# its own, and a standing gives the numbers of its configurations.
_NOT_NARROWING = ("targets", "toolchains", "configs")
# Options that take several values under a singular name.
_OPTIONS = {"kernels": "kernel", "dtypes": "dtype", "ops": "op"}
# Options that are repeated for each value, since a value may hold a comma.
_REPEATED_OPTIONS = {"defines": "define", "options_given": "option"}


class Purpose(str, Enum):
    """The command that made a run.

    Only the question of a scan must be answered completely.
    """

    SCAN = "scan"
    BISECT = "bisect"
    REPRO = "repro"
    FALLBACKS = "fallbacks"
    AUTOTUNE = "autotune"
    DIFF = "diff"
    DTYPES = "dtypes"
    MEASURE = "measure"


@dataclass(frozen=True)
class KeySet:
    """The cells of a question on one toolchain and target.

    `kernels` maps each cell's key to its kernel's name. `made_up` are the keys of launches whose
    arguments flacheck's driver invented and which nothing else in the question made. `alternatives`
    maps a cell's key to those of its launch's other configurations, in the order in which they run
    if the autotuner skips the cell's own. `extent` holds all launches of the question.
    """

    kernels: Mapping[str, str]
    made_up: frozenset[str] = frozenset()
    alternatives: Mapping[str, Sequence[str]] = field(default_factory=dict)
    extent: LaunchExtent | None = None

    @cached_property
    def digest(self) -> str:
        """Identity of the set: shards of one capture share it."""
        parts: list[Any] = [sorted(self.kernels), sorted(self.made_up)]
        if self.alternatives:
            parts.append({key: list(others) for key, others in self.alternatives.items()})
        if self.extent is not None:
            parts.append(to_builtins(self.extent))
        return digest(parts)

    def of(self, names: Callable[[str], bool]) -> KeySet:
        """Return the cells of the kernels whose names the predicate accepts."""
        kernels = {key: name for key, name in self.kernels.items() if names(name)}
        others = {}
        remaining = set(kernels)
        for key, keys in self.alternatives.items():
            if key in kernels:
                others[key] = keys
                remaining.update(keys)
        extent = self.extent and self.extent.of(names)
        return KeySet(kernels, self.made_up & remaining, others, extent)

    @property
    def possible(self) -> Iterator[str]:
        """All keys whose records may count."""
        yield from self.kernels
        for others in self.alternatives.values():
            yield from others


@dataclass(frozen=True)
class RequestedCells:
    """The number of cells of a question on one toolchain and target, with their digest.

    `keys` is the digest of their key set. Both figures are None until the capture that decides them
    has ended.
    """

    toolchain: str
    target: str
    cells: int | None = None
    keys: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target


@dataclass(frozen=True)
class Question:
    """The subject and selection of a run.

    `about` is the usual name of a matrix, a launches file or a package; `source` distinguishes two
    of one name (a file's path, a package with its digest). `selection` narrows the question.
    """

    about: str
    selection: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[RequestedCells, ...] = ()
    source: str = ""

    @property
    def scope(self) -> tuple[str, str]:
        """Identity shared by runs with one subject and narrowing on different releases or GPUs."""
        return self.source or self.about, digest(self._narrowing)

    @property
    def narrowing(self) -> str:
        """The options that narrow the matrix or package: `--kernel chunk_*`."""
        words = []
        for name, values in self._narrowing.items():
            if name in _REPEATED_OPTIONS:
                words += [f"--{_REPEATED_OPTIONS[name]} {value}" for value in values]
                continue
            option = _OPTIONS.get(name, name.replace("_", "-"))
            words.append(f"--{option} {','.join(map(str, values))}")
        return " ".join(words)

    @property
    def name(self) -> str:
        """The subject and its narrowing, for display."""
        return f"{self.about} {self.narrowing}".strip()

    @property
    def _narrowing(self) -> Mapping[str, Any]:
        narrowing = {}
        for name in sorted(self.selection):
            if name not in _NOT_NARROWING:
                narrowing[name] = self.selection[name]
        return narrowing

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return {**plain, "asked": list(plain["asked"])}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Question:
        return convert(value, Question)


@dataclass(frozen=True)
class RequestedPlace:
    """A question on one toolchain and target.

    If its keys are unknown, `answered_keys` are those that have a record, and `note` gives the
    reason.
    """

    question: Question
    request: RequestedCells
    keys: KeySet | None
    answered_keys: tuple[str, ...] = ()
    note: str = ""

    @property
    def known_keys(self) -> tuple[str, ...]:
        """The keys whose records count."""
        if self.keys is None:
            return self.answered_keys
        return tuple(self.keys.kernels)

    @property
    def possible_keys(self) -> tuple[str, ...]:
        """The known keys with those of alternatives, which count if the known ones are skipped."""
        if self.keys is None:
            return self.answered_keys
        return tuple(self.keys.possible)


def key_sets(
    cells: Iterable[Cell], extents: Mapping[tuple[str, str], LaunchExtent]
) -> dict[tuple[str, str], KeySet]:
    """Return the cells of a question as key sets, by (toolchain, target).

    A launch that was observed anywhere in the question counts as observed on every release.
    """
    cells = list(cells)
    launches: dict[int, str] = {}

    def launch_of(cell: Cell) -> tuple[str, str]:
        # Equal launches are one object for all releases and options, and hashing is the expensive
        # step.
        arguments = launches.get(id(cell.launch))
        if arguments is None:
            arguments = digest(cell.launch.to_json()["args"] if cell.launch else None)
            launches[id(cell.launch)] = arguments
        return cell.kernel.name, arguments

    observed_launches = {launch_of(cell) for cell in cells if not cell.kernel.is_made_up}
    kernels: dict[tuple[str, str], dict[str, str]] = {}
    made_up: dict[tuple[str, str], set[str]] = {}
    alternatives: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell in cells:
        place = cell.toolchain, cell.target
        kernels.setdefault(place, {})[cell.key] = cell.kernel.name
        others = [other.key for other in cell.others()]
        if others:
            alternatives.setdefault(place, {})[cell.key] = others
        if cell.kernel.is_made_up and launch_of(cell) not in observed_launches:
            made_up.setdefault(place, set()).update((cell.key, *others))
    sets = {}
    for place, names in kernels.items():
        made_up_keys = frozenset(made_up.get(place, ()))
        sets[place] = KeySet(names, made_up_keys, alternatives.get(place, {}), extents.get(place))
    return sets
