"""The state of a question on one toolchain and target; only this module decides "good"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flacheck.analysis.observation import ObservedCell, observe
from flacheck.analysis.order import count_noun
from flacheck.analysis.untested_cells import separate_untested
from flacheck.model import Json, KeySet, Question, Record, RequestedCells, RequestedPlace, Verdict


@dataclass(frozen=True)
class Standing:
    """The result of a question on one toolchain and target, as far as it is known.

    `requested_count` is the number of requested cells; it is None if unknown: in a store of an
    older flacheck, or while a package is captured. `answered_count` of them have a current record.
    `cells` are those that count, `untested_cells` those whose outcome flacheck's invented arguments
    may have caused; `kernels` are all kernels of the question, answered or not.
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
        """True if some requested cell lacks a record."""
        return self.requested_count is None or self.answered_count < self.requested_count

    @property
    def progress(self) -> str:
        """`147/394`, with a question mark for an unknown number."""
        if self.requested_count is None:
            return f"{self.answered_count or '?'}/?"
        return f"{self.answered_count}/{self.requested_count}"

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages of its kernels, `name==version`."""
        packages = set()
        for cell in (*self.cells, *self.untested_cells):
            if cell.package:
                packages.add(cell.package)
        if "==" in self.question.about:
            packages.add(self.question.about)
        return frozenset(packages)

    @cached_property
    def failing(self) -> tuple[ObservedCell, ...]:
        """The failures that matter: untolerated, or of a launch that never compiles."""
        return tuple(find_blocking_failures(self.cells))

    @cached_property
    def compiled_launches(self) -> frozenset[tuple[Any, ...]]:
        """The launches that some configuration compiles up to its last stage."""
        return frozenset(_compiled_launches(self.cells))

    @cached_property
    def undecided_cells(self) -> tuple[ObservedCell, ...]:
        """Cells without a verdict, and those stopped before their last stage.

        Cells without a verdict do not count here if another configuration of their launch compiles.
        """
        cells = []
        for cell in self.cells:
            is_unknown = cell.verdict is Verdict.UNKNOWN
            is_open = is_unknown and cell.launch not in self.compiled_launches
            if cell.partial or is_open:
                cells.append(cell)
        return tuple(cells)

    @cached_property
    def timed_out(self) -> tuple[ObservedCell, ...]:
        """Cells without a verdict whose launch compiles in another configuration."""
        open_keys = {cell.key for cell in self.undecided_cells}
        cells = []
        for cell in self.cells:
            if cell.verdict is Verdict.UNKNOWN and cell.key not in open_keys:
                cells.append(cell)
        return tuple(cells)

    @property
    def evidence(self) -> tuple[ObservedCell, ...]:
        """The cells whose verdict is evidence for or against the toolchain."""
        return tuple(cell for cell in self.cells if cell.is_evidence)

    @property
    def is_good(self) -> bool:
        """True if the toolchain is known good (docs/concepts.md) on the target."""
        return not self.is_partial and is_good(self.cells)

    @property
    def obstacle(self) -> str:
        """The reason why the place is not good, in plain words; empty if it is good."""
        if self.failing:
            return count_noun(len(self.failing), "cell fails", "cells fail") + self._progress_suffix
        if self.is_partial:
            note = self.note and f" ({self.note})"
            return f"partial: {self.progress} cells answered{note}"
        stop_count = sum(cell.partial for cell in self.undecided_cells)
        if stop_count:
            return f"{count_noun(stop_count, 'cell')} compiled with --until, not to the end"
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
    def _progress_suffix(self) -> str:
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
    request: RequestedCells,
    keys: KeySet | None,
    records: Iterable[Record],
    note: str = "",
) -> Standing:
    """Return the state of a question on one place.

    `records` are the current records of its keys and of their alternatives. Without a key set the
    number of its cells is unknown.
    """
    made_up = None
    requested_count = None
    of_launches: Mapping[str, str] = {}
    kernels: set[str] = set()
    records = list(records)
    if keys is not None:
        made_up = keys.made_up
        of_launches = configurations(keys, records)
        requested_keys = {*keys.kernels, *of_launches}
        requested_count = len(requested_keys)
        # A wider scan may have records of alternatives that are not needed here.
        records = [record for record in records if record.key in requested_keys]
        kernels.update(keys.kernels.values())
    cells = observe(records, made_up, of_launches)
    counting, untested_cells = separate_untested(cells)
    for cell in cells:
        kernels.add(cell.kernel)
    return Standing(
        question=question,
        toolchain=request.toolchain,
        target=request.target,
        requested_count=requested_count,
        answered_count=len(cells),
        cells=tuple(counting),
        untested_cells=tuple(untested_cells),
        kernels=frozenset(kernels),
        note=note,
    )


def is_skipped(record: Record) -> bool:
    """Return True if the autotuner of the launch would skip this configuration."""
    return record.verdict is Verdict.FAILS and record.tolerated


def iterate_alternatives(
    key: str, keys: KeySet, records_by_key: Mapping[str, Record]
) -> Iterator[str]:
    """Yield the other configurations of a cell's launch that are needed.

    If the autotuner skips the cell's own, they are tried in order until one compiles. The last
    lacks a record while its result is pending.
    """
    first = records_by_key.get(key)
    if first is None or not is_skipped(first):
        return
    for other in keys.alternatives.get(key, ()):
        yield other
        record = records_by_key.get(other)
        if record is None or record.verdict is Verdict.COMPILES:
            return


def configurations(keys: KeySet, records: Iterable[Record]) -> dict[str, str]:
    """Return the keys of launches that need several configurations.

    Each is mapped to the key of the one that the question names.
    """
    records_by_key = {record.key: record for record in records}
    requested_key_of: dict[str, str] = {}
    for key in keys.alternatives:
        others = list(iterate_alternatives(key, keys, records_by_key))
        if others:
            requested_key_of.update(dict.fromkeys([key, *others], key))
    return requested_key_of


def _list_alternatives(keys: KeySet | None, records: Iterable[Record]) -> Iterator[str]:
    """Yield the keys of all alternatives of skipped configurations."""
    if keys is not None:
        for record in records:
            if is_skipped(record):
                yield from keys.alternatives.get(record.key, ())


def standings(
    places: Iterable[RequestedPlace], current: Callable[[Iterable[str]], Iterable[Record]]
) -> list[Standing]:
    """Return the states of the questions on every place.

    `current` returns the current records of keys.
    """
    states = []
    for place in places:
        records = list(current(place.known_keys))
        records += current(_list_alternatives(place.keys, records))
        states.append(standing(place.question, place.request, place.keys, records, place.note))
    return states


def is_good(cells: Sequence[ObservedCell]) -> bool:
    """Return True if every launch of these cells compiles in some configuration.

    Failures and unknown verdicts must be covered by another configuration.
    """
    compiled_launches = _compiled_launches(cells)
    for cell in cells:
        # A compile that was stopped before its last stage does not prove the launch.
        if cell.partial or cell.launch not in compiled_launches:
            return False
        if cell.fails and not cell.tolerated:
            return False
    return bool(compiled_launches)


def find_blocking_failures(cells: Iterable[ObservedCell]) -> list[ObservedCell]:
    """Return the failures that matter: untolerated, or of a launch that never compiles."""
    cells = list(cells)
    compiled_launches = {(cell.place, cell.launch) for cell in cells if cell.compiles}
    failures = []
    for cell in cells:
        is_covered = cell.tolerated and (cell.place, cell.launch) in compiled_launches
        if cell.fails and not is_covered:
            failures.append(cell)
    return failures


def _compiled_launches(cells: Iterable[ObservedCell]) -> set[tuple[Any, ...]]:
    return {cell.launch for cell in cells if cell.compiles and not cell.partial}
