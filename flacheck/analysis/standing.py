"""How a question stands on one toolchain and target: the only place that says "good"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from flacheck.analysis.observation import ObservedCell, observe
from flacheck.analysis.order import count_noun
from flacheck.analysis.untested_cells import separate_untested
from flacheck.model import Json, KeySet, Question, Record, RequestedCells, RequestedPlace, Verdict


@dataclass(frozen=True)
class Standing:
    """The answer to a question on one toolchain and target, as far as it is known.

    `asked` is how many cells are asked; None where nobody knows: in a store of an older flacheck,
    or while a package is captured. `answered` of them have a current record. `cells` are those that
    count, `untested` those that flacheck's own made-up arguments may have spoilt; `kernels` are all
    that are asked about, answered or not.
    """

    question: Question
    toolchain: str
    target: str
    requested_count: int | None
    answered_count: int
    cells: tuple[ObservedCell, ...] = ()
    untested_cells: tuple[ObservedCell, ...] = ()
    kernels: frozenset[str] = frozenset()
    note: str = field(default="", compare=False)

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target

    @property
    def is_partial(self) -> bool:
        """Whether some asked cell has no record."""
        return self.requested_count is None or self.answered_count < self.requested_count

    @property
    def progress(self) -> str:
        """`147/394`; a question mark for what nobody knows."""
        if self.requested_count is None:
            return f"{self.answered_count or '?'}/?"
        return f"{self.answered_count}/{self.requested_count}"

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages that its kernels are of, `name==version`."""
        packages = {cell.package for cell in (*self.cells, *self.untested_cells) if cell.package}
        if "==" in self.question.about:
            packages.add(self.question.about)
        return frozenset(packages)

    @cached_property
    def failing(self) -> tuple[ObservedCell, ...]:
        """The failures that matter: untolerated, or of a launch that no configuration compiles."""
        return tuple(find_blocking_failures(self.cells))

    @cached_property
    def undecided_cells(self) -> tuple[ObservedCell, ...]:
        """Cells without a verdict whose launch no other configuration compiles, and those that were
        stopped before their last stage."""
        compiled = {cell.launch for cell in self.cells if cell.compiles and not cell.partial}
        return tuple(
            cell
            for cell in self.cells
            if cell.partial or (cell.verdict is Verdict.UNKNOWN and cell.launch not in compiled)
        )

    @cached_property
    def timed_out(self) -> tuple[ObservedCell, ...]:
        """Cells without a verdict that another configuration of their launch makes up for."""
        undecided = {cell.key for cell in self.undecided_cells}
        return tuple(
            cell
            for cell in self.cells
            if cell.verdict is Verdict.UNKNOWN and cell.key not in undecided
        )

    @property
    def evidence(self) -> tuple[ObservedCell, ...]:
        """The cells whose verdict is evidence for or against the toolchain."""
        return tuple(cell for cell in self.cells if cell.is_evidence)

    @property
    def is_good(self) -> bool:
        """Whether the toolchain is known good (docs/concepts.md) on the target."""
        return not self.is_partial and is_good(self.cells)

    @property
    def obstacle(self) -> str:
        """What keeps the place from being good, in plain words; nothing where it is good."""
        if self.failing:
            return count_noun(len(self.failing), "cell fails", "cells fail") + self._also_partial
        if self.is_partial:
            note = self.note and f" ({self.note})"
            return f"partial: {self.progress} cells answered{note}"
        stopped = sum(cell.partial for cell in self.undecided_cells)
        if stopped:
            return f"{count_noun(stopped, 'cell')} compiled with --until, not to the end"
        if self.undecided_cells:
            return f"{count_noun(len(self.undecided_cells), 'cell')} without a verdict"
        if self.is_good:
            return ""
        if any(cell.compiles for cell in self.cells):
            return "a launch was not compiled in any configuration"
        if self.untested_cells:
            return "only untested cells"
        return "only skipped cells"

    @property
    def _also_partial(self) -> str:
        return f", {self.progress} answered" if self.is_partial else ""

    def to_json(self) -> Json:
        return {
            "toolchain": self.toolchain,
            "target": self.target,
            "answered": self.answered_count,
            "asked": self.requested_count,
        }


def standing(
    question: Question,
    asked: RequestedCells,
    keys: KeySet | None,
    records: Iterable[Record],
    note: str = "",
) -> Standing:
    """How a question stands on one place, by the current records of its keys and of their
    alternatives. Without a key set nobody knows how many cells the question has."""
    made_up = None
    wanted = None
    of_launches: Mapping[str, str] = {}
    kernels: set[str] = set()
    records = list(records)
    if keys is not None:
        made_up = keys.made_up
        of_launches = configurations(keys, records)
        asked_keys = {*keys.kernels, *of_launches}
        wanted = len(asked_keys)
        # A wider scan may have met alternatives that nobody needed to ask here.
        records = [record for record in records if record.key in asked_keys]
        kernels.update(keys.kernels.values())
    cells = observe(records, made_up, of_launches)
    counting, untested = separate_untested(cells)
    kernels.update(cell.kernel for cell in cells)
    return Standing(
        question=question,
        toolchain=asked.toolchain,
        target=asked.target,
        requested_count=wanted,
        answered_count=len(cells),
        cells=tuple(counting),
        untested_cells=tuple(untested),
        kernels=frozenset(kernels),
        note=note,
    )


def is_skipped(record: Record) -> bool:
    """Whether the autotuner of the record's launch would skip this configuration of it."""
    return record.verdict is Verdict.FAILS and record.tolerated


def iterate_alternatives(key: str, keys: KeySet, known: Mapping[str, Record]) -> Iterator[str]:
    """The other configurations of a cell's launch that are to be asked: where the autotuner skips
    the cell's own, one after the other until one compiles. The last has no record yet where the
    answer is still to come."""
    first = known.get(key)
    if first is None or not is_skipped(first):
        return
    for other in keys.alternatives.get(key, ()):
        yield other
        record = known.get(other)
        if record is None or record.verdict is Verdict.COMPILES:
            return


def configurations(keys: KeySet, records: Iterable[Record]) -> dict[str, str]:
    """The keys of the launches of which more than one configuration is to be asked, each with the
    key of the one that the question names."""
    known = {record.key: record for record in records}
    found: dict[str, str] = {}
    for key in keys.alternatives:
        others = list(iterate_alternatives(key, keys, known))
        if others:
            found.update(dict.fromkeys([key, *others], key))
    return found


def _alternatives(keys: KeySet | None, records: Iterable[Record]) -> Iterator[str]:
    """The keys of all alternatives of the configurations that were skipped."""
    if keys is not None:
        for record in records:
            if is_skipped(record):
                yield from keys.alternatives.get(record.key, ())


def standings(
    places: Iterable[RequestedPlace], current: Callable[[Iterable[str]], Iterable[Record]]
) -> list[Standing]:
    """How the questions stand on every place; `current` gives the current records of keys."""
    made = []
    for place in places:
        records = list(current(place.known_keys))
        records += current(_alternatives(place.keys, records))
        made.append(standing(place.question, place.request, place.keys, records, place.note))
    return made


def is_good(cells: Sequence[ObservedCell]) -> bool:
    """Whether all launches of these cells have a configuration that compiles, and nothing fails or
    is unknown that no other configuration makes up for."""
    compiled = {cell.launch for cell in cells if cell.compiles and not cell.partial}
    for cell in cells:
        # One that was stopped before its last stage is not known to compile.
        if cell.partial or cell.launch not in compiled:
            return False
        if cell.fails and not cell.tolerated:
            return False
    return bool(compiled)


def find_blocking_failures(cells: Iterable[ObservedCell]) -> list[ObservedCell]:
    """The failures that matter: untolerated, or of a launch that no configuration compiles."""
    cells = list(cells)
    served = {(cell.place, cell.launch) for cell in cells if cell.compiles}
    return [
        cell
        for cell in cells
        if cell.fails and not (cell.tolerated and (cell.place, cell.launch) in served)
    ]
