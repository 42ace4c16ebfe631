"""The comparison of two sides: compile the missing cells, match the records, and judge."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flacheck.capabilities.diff import package_view
from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.comparison_plan import ComparisonPlan
from flacheck.capabilities.diff.differences import Difference, DifferenceKind, differences
from flacheck.capabilities.diff.matching import Pair, match
from flacheck.capabilities.diff.moved_kernels import find_moved_kernels, rename_kernels
from flacheck.capabilities.diff.package_view import (
    Describes,
    is_own_word,
    missing,
    refusal_text,
    refusals,
    words,
)
from flacheck.capabilities.diff.published_sides import PublishedSides
from flacheck.capabilities.diff.result import Comparison
from flacheck.capabilities.diff.sides import ReleaseSide, Side, StoredSide
from flacheck.evidence.analysis.context import FormsOf
from flacheck.evidence.analysis.exit_code import NO_WHEEL
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.order import by_target, settings, split
from flacheck.evidence.analysis.untested_cells import separate_untested, why_untested
from flacheck.evidence.published.answers import PublishedSource
from flacheck.model import Cell, Record, Verdict
from flacheck.model.coverage import PackageCoverage
from flacheck.pipeline.events import Event, RecordSettled, RunStarted
from flacheck.pipeline.fallbacks import alternatives
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.other_configs import other_configs
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.source.packages.kernel_locations import KernelLocator
from flacheck.store import Store
from flacheck.tables import advisories
from flacheck.tables.advisories import Advisory
from flacheck.toolchains import torch_pins, triton_releases

Waives = Callable[[Record], bool]
# Returns the failures of a package or matrix under a compiler on some GPUs, by all evidence.
FailuresOf = Callable[[str, str, Sequence[str]], Sequence[ObservedCell]]


def find_no_failures(about: str, toolchain: str, on: Sequence[str]) -> Sequence[ObservedCell]:
    """Return no failures; for a comparison without other evidence."""
    return ()


def compare(
    comparison_plan: ComparisonPlan,
    store: Store | None,
    waives: Waives,
    options: RunOptions,
    failures_of: FailuresOf = find_no_failures,
) -> Generator[Event, None, Comparison]:
    """Compile the missing cells of a comparison; return its result.

    Args:
        comparison_plan: The sides and the cells of both.
        store: Where the records go; None where both sides are stored results.
        waives: True for failures that are waived.
        options: How the cells are compiled.
        failures_of: Looks up failures by all evidence, beside those of the compared cells.
    """
    comparison = _Comparison(comparison_plan, store, waives, failures_of)
    if comparison_plan.plan is not None:
        yield from comparison.compile(comparison_plan.plan, options)
    return comparison.result()


def compare_published(
    sides: PublishedSides, waives: Waives, failures_of: FailuresOf = find_no_failures
) -> Comparison:
    """Return the result of a comparison by published results; nothing is compiled."""
    comparison = _Comparison(sides.plan, None, waives, failures_of, sides)
    comparison.take(sides)
    return comparison.result()


@dataclass
class _Comparison:
    """A comparison with its records so far."""

    comparison_plan: ComparisonPlan
    store: Store | None
    waives: Waives
    failures_of: FailuresOf
    published: PublishedSides | None = None
    _records: dict[str, Record] = field(default_factory=dict, init=False)
    _run: str | None = field(default=None, init=False)
    # Each observed record by its key.
    _cell_by_key: dict[str, tuple[Record, ObservedCell]] = field(default_factory=dict, init=False)
    # Failing cells by key, with other configurations of their launches.
    _alternatives: Mapping[str, list[Cell]] = field(default_factory=dict, init=False)

    def compile(self, plan: Plan, options: RunOptions) -> Generator[Event, None, None]:
        """Compile every cell of the plan, then other configurations of regressed launches."""
        assert self.store is not None
        run = run_plan(plan, self.store, options, find_others=self._find_others)
        for event in run:
            if isinstance(event, RunStarted):
                self._run = event.run
            if isinstance(event, RecordSettled):
                self._records[event.record.key] = event.record
            yield event

    def take(self, sides: PublishedSides) -> None:
        """Take published records in place of compiled ones."""
        self._records = dict(sides.records)
        kernels = {self._records[key].kernel for key in sides.alternatives}
        regressed = self._regressed_keys(lambda record: record.kernel in kernels)
        alternatives = {}
        # Of the others no configuration would be compiled, so none counts.
        for key, cells in sides.alternatives.items():
            if key in regressed:
                alternatives[key] = cells
        self._alternatives = alternatives

    def _find_others(self) -> Sequence[Cell]:
        """Return other configurations of the launches that TO breaks."""
        assert self.comparison_plan.plan is not None
        failing = self._regressed_keys()
        cells = [cell for cell in self.comparison_plan.plan.cells if cell.key in failing]
        self._alternatives = other_configs(cells)
        others: list[Cell] = []
        for own in self._alternatives.values():
            others += own
        return others

    def _regressed_keys(self, accepts: Callable[[Record], bool] = lambda record: True) -> set[str]:
        """Return the keys of the cells that TO breaks, without regard to other configurations."""
        keys = set()
        before, after = (list(filter(accepts, records)) for records in self._both_sides())
        for change in self._changes(before, after):
            if change.kind is DifferenceKind.REGRESSED and change.pair.after is not None:
                keys.add(change.pair.after.key)
        return keys

    def result(self) -> Comparison:
        """Return the comparison of the records so far."""
        plan = self.comparison_plan
        both = self._both_sides()
        kernels = list(map(_of_kernels, both))
        refusal_changes = refusals(*both)
        changes = self._changes(*both)
        sides = [_side(side, records) for side, records in zip(plan.sides, both)]
        all_records = [*both[0], *both[1]]
        on = sorted({record.target for record in all_records}, key=by_target)
        own_kernels = [kernels[0] + kernels[1]] * 2
        if sides[0].package and sides[1].package:
            # An advisory may be about some releases of the package alone.
            own_kernels = kernels
        before_advisories = _advisories(sides[0], own_kernels[0], on)
        after_advisories = _advisories(sides[1], own_kernels[1], on)
        result = Comparison(
            before=sides[0],
            after=sides[1],
            about=plan.about,
            targets=tuple(on),
            changes=tuple(changes),
            refusals=tuple(refusal_changes),
            advisories=(before_advisories, after_advisories),
            package=tuple(self._words(refusal_changes)),
            moved=tuple(sorted(self._moved_kernels.items())),
            configs=plan.configs,
            coverage=self._coverage,
            run=self._run,
            failures=(self._failures(plan.before, on), self._failures(plan.after, on)),
            published=self._source,
            locate=KernelLocator(Path.cwd()).find,
        )
        if not (result.is_regression or any(result.advisories) or any(result.failures)):
            return result
        others = self._others(kernels[0], on)
        return replace(
            result,
            fallbacks=tuple(self._fallbacks(result, [*kernels[1], *self._alternative_records()])),
            others=tuple((triton, tuple(torch_pins.torch_for(triton))) for triton in others),
        )

    def _both_sides(self) -> list[list[Record]]:
        """Return the records of FROM and of TO.

        A kernel that moved to another module is named as in TO.
        """
        plan = self.comparison_plan
        before, after = (list(plan.records(side, self._records)) for side in plan.sides)
        return [rename_kernels(before, self._moved_kernels), after]

    @property
    def _moved_kernels(self) -> dict[str, str]:
        """The names under TO of kernels that two releases of a package have in other modules."""
        plan = self.comparison_plan
        if not all(isinstance(side, ReleaseSide) and side.package for side in plan.sides):
            return {}
        before, after = (plan.records(side, self._records) for side in plan.sides)
        return find_moved_kernels(_of_kernels(before), _of_kernels(after))

    def _changes(self, before: Sequence[Record], after: Sequence[Record]) -> list[Difference]:
        """Return the changes of kernels."""
        kernels = _of_kernels(before), _of_kernels(after)
        return list(
            differences(
                self._replace_skipped(match(*kernels), kernels[1]),
                self._untested_reasons([*kernels[0], *kernels[1]]),
                self.waives,
                missing_after=self._missing(self.comparison_plan.after, after),
                missing_before=self._missing(self.comparison_plan.before, before),
            )
        )

    def _replace_skipped(self, pairs: Iterable[Pair], after: Sequence[Record]) -> list[Pair]:
        """Replace failures of TO that the autotuner skips by a configuration that compiles."""
        compiling = self._compiling(after)
        new_pairs = []
        for pair in pairs:
            failing = pair.after
            if failing is not None and failing.verdict is Verdict.FAILS and failing.tolerated:
                other = compiling.get(failing.key)
                if other is not None:
                    config = f"{settings(failing.options)} ({failing.code})"
                    note = f"the autotuner skips {config} and has others"
                    pair = Pair(pair.before, other, exact=False, note=note)
            new_pairs.append(pair)
        return new_pairs

    def _compiling(self, after: Sequence[Record]) -> dict[str, Record]:
        """Return a compiling record of the same launch for records of TO, by key."""
        cells = list(zip(self._observe(after), after))
        first: dict[Any, Record] = {}
        for cell, record in cells:
            if cell.compiles:
                first.setdefault((cell.place, cell.launch), record)
        compiling = {
            record.key: first[cell.place, cell.launch]
            for cell, record in cells
            if (cell.place, cell.launch) in first
        }
        for key, others in self._alternatives.items():
            for other in others:
                tried = self._records.get(other.key)
                if tried is not None and tried.verdict is Verdict.COMPILES:
                    compiling.setdefault(key, tried)
        return compiling

    def _untested_reasons(self, records: Sequence[Record]) -> dict[str, str]:
        """Return the reasons of records that are not evidence, by key."""
        _, cells = separate_untested(self._observe(records))
        return {cell.key: why_untested(cell) or "no evidence" for cell in cells}

    def _observe(self, records: Sequence[Record]) -> list[ObservedCell]:
        """Return the observed cells of records; observe none twice, because that is slow."""
        new = []
        for record in records:
            earlier = self._cell_by_key.get(record.key)
            # A record is replaced when its cell is compiled again.
            if earlier is None or earlier[0] is not record:
                new.append(record)
        for record, cell in zip(new, observe(new, self.comparison_plan.made_up)):
            self._cell_by_key[record.key] = record, cell
        return [self._cell_by_key[record.key][1] for record in records]

    def _missing(self, side: Side, records: Sequence[Record]) -> Callable[[Record], str]:
        """Return a function that gives the reason why a kernel is not on a side."""
        refusal_of = {
            record.kernel: refusal_text(record)
            for record in records
            if is_own_word(record) and record.verdict is not Verdict.COMPILES
        }
        compiler, name = None, side.text
        captures, coverage = self.comparison_plan.captures, self._coverage
        if isinstance(side, ReleaseSide):
            compiler = side.choice.identity
            name = f"what {compiler} compiled"
            captures = package_view.captures_of(side, captures)
            if side.package is not None:
                coverage = tuple(each for each in coverage if each["package"] == side.package)
        return missing(name, compiler, captures, refusal_of, coverage)

    @property
    def _coverage(self) -> tuple[PackageCoverage, ...]:
        if self.comparison_plan.plan is None:
            return ()
        return self.comparison_plan.plan.coverage

    def _words(self, changes: Sequence[Difference]) -> list[package_view.PackageNotice]:
        captures = self.comparison_plan.captures
        before, after = self.comparison_plan.sides
        packages = self._package_of(before), self._package_of(after)
        return words(packages, changes, (before, after), captures)

    def _package_of(self, side: Side) -> Describes | None:
        """Return the package that a side compiles; None for another subject."""
        own_package = isinstance(side, ReleaseSide) and side.package
        for capture in self.comparison_plan.captures:
            if not own_package or capture.package.identity == own_package:
                return capture.package
        return None

    def _alternative_records(self) -> list[Record]:
        """Return the records of other configurations."""
        cells = (cell for own in self._alternatives.values() for cell in own)
        return [self._records[cell.key] for cell in cells if cell.key in self._records]

    def _fallbacks(self, result: Comparison, after: Sequence[Record]) -> list[Fallback]:
        """Return the fallbacks for regressed kernels under TO."""
        forms: FormsOf = {}
        if self.comparison_plan.plan is not None:
            forms = self.comparison_plan.plan.forms
        kernels = {change.kernel for change in result.of(DifferenceKind.REGRESSED)}
        every = alternatives.fallbacks(self._observe(after), forms)
        if self.published is not None:
            # Those of all published records, which are more than are compared.
            on = result.after.toolchain
            own = [each for each in self.published.fallbacks if each.toolchain == on]
            every = own or every
        return [fallback for fallback in every if fallback.kernel in kernels]

    def _others(self, before: Sequence[Record], on: Sequence[str]) -> list[str]:
        """Return other good releases for all cells of FROM by stored results, oldest first."""
        records = [record for record in before if record.verdict is Verdict.COMPILES]
        if not records or (self.store is None and self.published is None):
            return []
        if any(side.package for side in self._releases()):
            # The question is about the package, so another Triton does not answer it.
            return []
        own = {side.choice.version for side in self._releases()}
        good = []
        for version in triton_releases.known_releases():
            if version in own or _against(version, on, records):
                continue
            toolchain = f"triton=={version}"
            if not self._has_compiled(records, toolchain):
                continue
            if not self.failures_of(self.comparison_plan.about, toolchain, on):
                good.append(version)
        return good

    def _has_compiled(self, records: Sequence[Record], toolchain: str) -> bool:
        """Return True if the cells of all records compile under another release."""
        cells = (replace(record.cell, toolchain=toolchain) for record in records)
        keys = [cell.key for cell in cells]
        verdicts = self._verdicts(toolchain, keys)
        return all(verdicts.get(key) is Verdict.COMPILES for key in keys)

    def _failures(self, side: Side, on: Sequence[str]) -> tuple[ObservedCell, ...]:
        """Return the failures under a side's compiler by all evidence about the subject."""
        if not isinstance(side, ReleaseSide):
            return ()
        about = side.package or self.comparison_plan.about
        return tuple(self.failures_of(about, side.choice.identity, on))

    @property
    def _source(self) -> PublishedSource | None:
        if self.published is None:
            return None
        return self.published.source

    def _verdicts(self, toolchain: str, keys: Sequence[str]) -> Mapping[str, Verdict]:
        """Return the latest verdicts of cells under one release, by key."""
        if self.published is not None:
            return self.published.verdicts(toolchain)
        assert self.store is not None
        return self.store.latest_verdicts(keys)

    def _releases(self) -> Iterable[ReleaseSide]:
        return (side for side in self.comparison_plan.sides if isinstance(side, ReleaseSide))


def _of_kernels(records: Sequence[Record]) -> list[Record]:
    """Return the records of launches, without those of imports and operators' calls."""
    return [record for record in records if not is_own_word(record)]


def _side(side: Side, records: Sequence[Record]) -> ComparedSide:
    toolchains = list(dict.fromkeys(record.toolchain for record in records))
    torch = compiler = package = None
    if isinstance(side, ReleaseSide):
        torch, compiler, package = side.torch, side.choice.identity, side.package
        name = package or compiler
    else:
        name = side.name
        if len(toolchains) == 1:
            compiler = toolchains[0]
    pins: Sequence[str] = ()
    family, version = split(compiler or "")
    # No torch requires a local build.
    if family == "triton" and "+" not in version:
        pins = torch_pins.torch_for(version)
    verdicts: Mapping[Verdict, int] = Counter(record.verdict for record in records)
    lacking = sum(record.code == NO_WHEEL for record in records)
    partial = None
    if isinstance(side, StoredSide):
        partial = side.partial
    return ComparedSide(
        side.text, name, compiler, torch, tuple(pins), verdicts, lacking, partial, package
    )


def _advisories(
    side: ComparedSide, records: Sequence[Record], on: Sequence[str]
) -> tuple[Advisory, ...]:
    if side.triton is None:
        return ()
    return tuple(_against(side.triton, on, records))


def _against(triton: str, on: Sequence[str], records: Sequence[Record]) -> list[Advisory]:
    """Return the advisories against a release for these kernels, each once."""
    kernels = {record.kernel for record in records}
    dtypes = {record.dtype for record in records if record.dtype}
    packages = {record.package for record in records if record.package}
    package = None
    if len(packages) == 1:
        package = packages.pop()
    by_id = {}
    for target in on:
        for advisory in advisories.against(
            triton, target, kernels=kernels, package=package, dtypes=dtypes or None
        ):
            by_id[advisory.id] = advisory
    return list(by_id.values())
