"""What a run asks, and on behalf of which command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from msgspec import convert, to_builtins

from flacheck.model.cell import Cell
from flacheck.model.values import Json, digest

# What a selection may say without narrowing the question: every release and GPU is a question of
# its own.
_PLACES = ("targets", "toolchains")
# What several values are given by whose option is singular.
_OPTIONS = {"kernels": "kernel", "dtypes": "dtype", "ops": "op"}
# What is given once for each value: a value may hold a comma.
_REPEATED = {"defines": "define", "options_given": "option"}


class Purpose(str, Enum):
    """The command that a run was made for. Only a scan asks a question that has to be answered as a
    whole."""

    SCAN = "scan"
    BISECT = "bisect"
    REPRO = "repro"
    FALLBACKS = "fallbacks"
    AUTOTUNE = "autotune"
    DIFF = "diff"
    DTYPES = "dtypes"


@dataclass(frozen=True)
class KeySet:
    """The cells that a question asks of one toolchain on one target.

    `kernels` maps each cell's key to its kernel's name. `made_up` are the keys of launches for
    which flacheck's driver invented the arguments, and which nothing else in the question made.
    `alternatives` maps a cell's key to those of its launch's other configurations, in the order in
    which they are asked where the autotuner skips the cell's own.
    """

    kernels: Mapping[str, str]
    made_up: frozenset[str] = frozenset()
    alternatives: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """The identity of the set: shards of one capture have the same."""
        asked: list[Any] = [sorted(self.kernels), sorted(self.made_up)]
        if self.alternatives:
            asked.append({key: list(others) for key, others in self.alternatives.items()})
        return digest(asked)

    def of(self, names: Callable[[str], bool]) -> KeySet:
        """The cells of the kernels with these names."""
        kernels = {key: name for key, name in self.kernels.items() if names(name)}
        others = {key: keys for key, keys in self.alternatives.items() if key in kernels}
        known = kernels.keys() | {key for keys in others.values() for key in keys}
        return KeySet(kernels, self.made_up & known, others)

    @property
    def possible(self) -> Iterator[str]:
        """All keys whose records may belong to an answer."""
        yield from self.kernels
        for others in self.alternatives.values():
            yield from others

    def to_json(self) -> Json:
        plain: Json = {"kernels": dict(self.kernels), "made_up": sorted(self.made_up)}
        if self.alternatives:
            plain["alternatives"] = {key: list(keys) for key, keys in self.alternatives.items()}
        return plain

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> KeySet:
        alternatives = value.get("alternatives", {})
        return KeySet(value["kernels"], frozenset(value["made_up"]), alternatives)


@dataclass(frozen=True)
class RequestedCells:
    """How many cells a question asks of one toolchain on one target, and the digest of their key
    set. Both are None before the capture that decides it has ended."""

    toolchain: str
    target: str
    cells: int | None = None
    keys: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target


@dataclass(frozen=True)
class Question:
    """What a run asks.

    `about` is a matrix, a launches file or a package, as people call it; `source` tells two of one
    name apart (a file's path, a package with its digest). `selection` narrows the question.
    """

    about: str
    selection: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[RequestedCells, ...] = ()
    source: str = ""

    @property
    def scope(self) -> tuple[str, str]:
        """What two runs share that ask the same of different releases or GPUs."""
        return self.source or self.about, digest(self._narrowing)

    @property
    def narrowing(self) -> str:
        """What the question leaves out of its matrix or package: `--kernel chunk_*`."""
        words = []
        for name, values in self._narrowing.items():
            if name in _REPEATED:
                words += [f"--{_REPEATED[name]} {value}" for value in values]
                continue
            option = _OPTIONS.get(name, name.replace("_", "-"))
            words.append(f"--{option} {','.join(map(str, values))}")
        return " ".join(words)

    @property
    def name(self) -> str:
        """The question in a few words."""
        return f"{self.about} {self.narrowing}".strip()

    @property
    def _narrowing(self) -> Mapping[str, Any]:
        names = (name for name in sorted(self.selection) if name not in _PLACES)
        return {name: self.selection[name] for name in names}

    def to_json(self) -> Json:
        plain: Json = to_builtins(self)
        return {**plain, "asked": list(plain["asked"])}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Question:
        return convert(value, Question)


@dataclass(frozen=True)
class RequestedPlace:
    """A question on one toolchain and target. Where nobody knows its keys, `answered` are those
    that there is a record of, and `note` says why."""

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
        """These, and the keys of alternatives, whose records count where those are skipped."""
        if self.keys is None:
            return self.answered_keys
        return tuple(self.keys.possible)


def key_sets(cells: Iterable[Cell]) -> dict[tuple[str, str], KeySet]:
    """The cells of a question as key sets, by (toolchain, target).

    A launch that was seen anywhere in the question counts as seen on every release.
    """
    cells = list(cells)
    launches: dict[int, str] = {}

    def launch_of(cell: Cell) -> tuple[str, str]:
        # Equal launches are one object for all releases and options; hashing one is what costs.
        known = launches.get(id(cell.launch))
        if known is None:
            known = digest(cell.launch.to_json()["args"] if cell.launch else None)
            launches[id(cell.launch)] = known
        return cell.kernel.name, known

    seen = {launch_of(cell) for cell in cells if not cell.kernel.is_made_up}
    kernels: dict[tuple[str, str], dict[str, str]] = {}
    made_up: dict[tuple[str, str], set[str]] = {}
    alternatives: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell in cells:
        place = cell.toolchain, cell.target
        kernels.setdefault(place, {})[cell.key] = cell.kernel.name
        others = [other.key for other in cell.others()]
        if others:
            alternatives.setdefault(place, {})[cell.key] = others
        if cell.kernel.is_made_up and launch_of(cell) not in seen:
            made_up.setdefault(place, set()).update((cell.key, *others))
    return {
        place: KeySet(names, frozenset(made_up.get(place, ())), alternatives.get(place, {}))
        for place, names in kernels.items()
    }
