"""The state of a question on one toolchain and target; only this module decides "good"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flacheck.evidence.analysis.compiled_sizes import CompiledSizes, name_sizes
from flacheck.evidence.analysis.launch_evidence import (
    compile_all,
    compiled_launches,
    find_blocking_failures,
)
from flacheck.evidence.analysis.observation import ObservedCell
from flacheck.evidence.analysis.operators import OperatorStanding, operator_standings
from flacheck.evidence.analysis.order import count_noun
from flacheck.evidence.analysis.standing_state import Share, StandingState, describe_extent
from flacheck.model import LaunchExtent, Question, Verdict
from flacheck.model.wire import JsonStruct, Natural, ToolchainName


class PartialPlace(JsonStruct, frozen=True):
    """A place with records of some requested cells; `asked` is null if their number is unknown."""

    toolchain: ToolchainName
    target: str
    answered: Natural
    asked: Natural | None


@dataclass(frozen=True)
class Standing:
    """The result of a question on one toolchain and target, as far as it is known.

    `requested_count` is the number of requested cells; it is None if unknown, while a package
    is captured. `answered_count` of them have a current record.
    `cells` are those that count, `untested_cells` those whose outcome flacheck's invented arguments
    may have caused; `further_cells` are configurations of the question's launches that count and
    that other runs compiled. `kernels` are all kernels of the question, answered or not; `extent`
    holds its launches, `launch_of` maps the keys of cells to them.
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
    further_cells: tuple[ObservedCell, ...] = ()
    extent: LaunchExtent | None = None
    launch_of: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Keys of failures that a waiver or a baseline accepts: they count as answers.
    accepted_keys: frozenset[str] = frozenset()
    # Keys of failures that every compiled release has: they speak against the package.
    package_keys: frozenset[str] = frozenset()
    # A baseline holds the shares and the kernels without a compile, not the launches. A file of
    # published results has their sizes, too.
    stored_shares: tuple[Share, Share] | None = None
    unproven_kernels: frozenset[str] = frozenset()
    stored_sizes: CompiledSizes | None = None
    # The files of published results behind it.
    sources: tuple[str, ...] = field(default=(), compare=False)
    # A file of published results has the variants that compile and each kernel's operators.
    stored_variants: frozenset[tuple[str, str, int]] = field(default=frozenset(), compare=False)
    stored_operators: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False)

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
    def blocking(self) -> tuple[ObservedCell, ...]:
        """The failures that matter: untolerated, or of a launch that never compiles."""
        failures = find_blocking_failures((*self.cells, *self.further_cells))
        return tuple(cell for cell in failures if cell.key not in self.accepted_keys)

    @cached_property
    def failing(self) -> tuple[ObservedCell, ...]:
        """The failures that speak against the release: another release is free of them."""
        return tuple(cell for cell in self.blocking if cell.key not in self.package_keys)

    @cached_property
    def package_failures(self) -> tuple[ObservedCell, ...]:
        """The failures that every compiled release has."""
        return tuple(cell for cell in self.blocking if cell.key in self.package_keys)

    @cached_property
    def kernels_with_evidence(self) -> frozenset[str]:
        """The kernels with a launch that compiles or fails."""
        kernels = set()
        for cell in (*self.cells, *self.further_cells):
            if cell.fails or (cell.is_evidence and cell.kernel not in self.unproven_kernels):
                kernels.add(cell.kernel)
        return frozenset(kernels)

    @cached_property
    def compiled_variants(self) -> frozenset[tuple[str, str, int]]:
        """The kernels that compile, each with its dtype and its head size (0 without one)."""
        variants = set(self.stored_variants)
        for cell in (*self.cells, *self.further_cells):
            if cell.compiles and cell.dtype:
                variants.add((cell.kernel, cell.dtype, cell.parts.head_size or 0))
        return frozenset(variants)

    def operators_of_kernel(self, kernel: str) -> tuple[str, ...] | None:
        """Return the public functions that launch a kernel; None if no call paths are known."""
        if self.stored_operators is not None:
            return self.stored_operators.get(kernel, ())
        if self.extent is None or not self.extent.operators:
            return None
        return self.extent.operators_of_kernel(kernel)

    @cached_property
    def untested_kernels(self) -> frozenset[str]:
        """The kernels of which every cell is untested."""
        kernels = frozenset(cell.kernel for cell in self.untested_cells)
        return kernels - self.kernels_with_evidence

    @cached_property
    def sizes(self) -> CompiledSizes | None:
        """The sizes of the launches with evidence; None if they are unknown or there are none."""
        if self.stored_sizes is not None:
            return self.stored_sizes
        cells = filter(lambda cell: cell.is_evidence, (*self.cells, *self.further_cells))
        return name_sizes((cell.parts.head_size, cell.parts.is_packed) for cell in cells)

    @cached_property
    def compiled_launches(self) -> frozenset[tuple[Any, ...]]:
        """The launches that some configuration compiles up to its last stage."""
        return frozenset(compiled_launches((*self.cells, *self.further_cells)))

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
        return self.state is StandingState.GOOD

    @property
    def is_passing(self) -> bool:
        """True if the toolchain is good or screened."""
        return self.state in (StandingState.GOOD, StandingState.SCREENED)

    @cached_property
    def state(self) -> StandingState:
        """The state of the question."""
        if self.failing:
            return StandingState.BAD
        if self.is_partial:
            return StandingState.PARTIAL
        # A compile that was stopped on request does not prove a launch.
        if not self.compiled_launches or any(cell.partial for cell in self.cells):
            return StandingState.NO_RECORD
        is_whole = self.configurations.is_whole and self.kernel_share.is_whole
        if self.package_failures:
            return StandingState.SCREENED
        others = [cell for cell in self.cells if cell.key not in self.accepted_keys]
        if is_whole and not self.undecided_cells and compile_all(others):
            return StandingState.GOOD
        return StandingState.SCREENED

    @cached_property
    def configurations(self) -> Share:
        """The answered configurations of all launches.

        A configuration without a verdict is answered if another one of its launch compiles.
        """
        if self.stored_shares is not None:
            return self.stored_shares[0]
        if self.extent is None:
            answered_keys = set()
            for cell in (*self.cells, *self.further_cells):
                if self._is_answer(cell):
                    answered_keys.add(cell.key)
            total = self.requested_count
            configs = self.question.selection.get("configs")
            if configs != ["own"] and (configs or "==" in self.question.about):
                # Only the extent of a package's question has the number of all configurations.
                total = None
            return Share(len(answered_keys), total)
        return Share(len(self._answered_in_extent), self.extent.configurations)

    @cached_property
    def _answered_in_extent(self) -> dict[str, str]:
        """The launches of the answered configurations, by key."""
        launches = {}
        for cell in (*self.cells, *self.further_cells):
            if cell.key in self.launch_of and self._is_answer(cell):
                launches[cell.key] = self.launch_of[cell.key]
        return launches

    def _is_answer(self, cell: ObservedCell) -> bool:
        # The autotuner can do without a configuration if another one of the launch compiles.
        has_verdict = cell.verdict not in (Verdict.UNKNOWN, Verdict.SKIPPED)
        return cell.is_evidence or (not has_verdict and cell.launch in self.compiled_launches)

    @cached_property
    def kernel_share(self) -> Share:
        """The kernels with a launch that compiles, of all kernels of the question."""
        if self.stored_shares is not None:
            return self.stored_shares[1]
        proven = set()
        for cell in (*self.cells, *self.further_cells):
            is_accepted = cell.key in self.accepted_keys
            if is_accepted or (cell.compiles and not cell.partial):
                proven.add(cell.kernel)
        kernels = set(self.kernels)
        if self.extent is not None:
            kernels.update(self.extent.missing_kernels)
        return Share(len(proven), len(kernels))

    @cached_property
    def operators(self) -> tuple[OperatorStanding, ...]:
        """The states of a package's public entry points; empty for other subjects."""
        if self.extent is None or not self.extent.operators:
            return ()
        return operator_standings(
            self.extent,
            self.launch_of,
            self._answered_in_extent,
            self.failing,
            (*self.cells, *self.further_cells),
        )

    def of_operators(self, names: Callable[[str], bool]) -> Standing | None:
        """Return the standing of the operators that the predicate accepts; None without any."""
        if self.extent is None:
            return None
        extent = self.extent.of_operators(names)
        if not extent.operators:
            return None

        identities = extent.identities

        def belongs(cell: ObservedCell) -> bool:
            launch = self.launch_of.get(cell.key)
            if launch is None:
                return cell.kernel in extent.launches or cell.stage == "import"
            return launch in identities

        cells = tuple(filter(belongs, self.cells))
        untested_cells = tuple(filter(belongs, self.untested_cells))
        # The operators of a cell without a record are unknown.
        answered_count, requested_count = self.answered_count, self.requested_count
        if not self.is_partial:
            answered_count = requested_count = len(cells) + len(untested_cells)
        return replace(
            self,
            requested_count=requested_count,
            answered_count=answered_count,
            cells=cells,
            untested_cells=untested_cells,
            kernels=frozenset(extent.launches),
            further_cells=tuple(filter(belongs, self.further_cells)),
            extent=extent,
        )

    def of_cells(self, belongs: Callable[[ObservedCell], bool]) -> Standing | None:
        """Return the standing of the cells that the predicate accepts; None without any."""
        cells = tuple(filter(belongs, self.cells))
        untested_cells = tuple(filter(belongs, self.untested_cells))
        further_cells = tuple(filter(belongs, self.further_cells))
        if not cells and not untested_cells:
            return None
        extent = self.extent
        if extent is not None:
            keys = {cell.key for cell in (*cells, *further_cells)}
            extent = extent.of_launches({self.launch_of[key] for key in keys & set(self.launch_of)})
        number = len(cells) + len(untested_cells)
        return replace(
            self,
            requested_count=None if self.is_partial else number,
            answered_count=number,
            cells=cells,
            untested_cells=untested_cells,
            kernels=frozenset(cell.kernel for cell in (*cells, *untested_cells)),
            further_cells=further_cells,
            extent=extent,
        )

    @property
    def extent_text(self) -> str:
        """`971 of 10,340 configurations, 236 of 243 kernels`."""
        return describe_extent(self.configurations, self.kernel_share)

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
        if self.state is StandingState.SCREENED:
            return f"screened: {self.extent_text}"
        if self.untested_cells:
            return "only untested cells"
        return "only skipped cells"

    @property
    def _progress_suffix(self) -> str:
        return f", {self.progress} answered" if self.is_partial else ""

    @property
    def progress_by_place(self) -> PartialPlace:
        """The place with the numbers of answered and of requested cells."""
        counts = (self.answered_count, self.requested_count)
        return PartialPlace(self.toolchain, self.target, *counts)
