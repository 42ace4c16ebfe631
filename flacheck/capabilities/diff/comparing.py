"""The comparison of two sides: compile what is not on record, match, and judge."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flacheck.analysis.context import FormsOf
from flacheck.analysis.exit_code import NO_WHEEL
from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.observation import observe
from flacheck.analysis.order import by_target, count_noun, settings, split
from flacheck.analysis.untested_cells import separate_untested, why_untested
from flacheck.capabilities.diff import package_view
from flacheck.capabilities.diff.alternative_configs import other_configs
from flacheck.capabilities.diff.compared_side import ComparedSide
from flacheck.capabilities.diff.comparison_plan import ComparisonPlan
from flacheck.capabilities.diff.differences import Difference, DifferenceKind, differences
from flacheck.capabilities.diff.matching import Pair, match
from flacheck.capabilities.diff.package_view import (
    is_own_word,
    missing,
    refusal_text,
    refusals,
    words,
)
from flacheck.capabilities.diff.result import Comparison
from flacheck.capabilities.diff.sides import ReleaseSide, Side, StoredSide
from flacheck.fallbacks import alternatives
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.packages.package import Package
from flacheck.pipeline.events import Event, Progress, RecordSettled, RunFinished, RunStarted
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import ActiveRun, open_run
from flacheck.store import Store
from flacheck.tables import advisories
from flacheck.tables.advisories import Advisory
from flacheck.toolchains import torch_pins, triton_releases

Waives = Callable[[Record], bool]


def compare(
    asked: ComparisonPlan, store: Store | None, waives: Waives, options: RunOptions
) -> Generator[Event, None, Comparison]:
    """Compile what is not on record for a comparison; return its result.

    Args:
        asked: The sides and the cells of both.
        store: Where the records go; None where both sides are stored results.
        waives: True for failures that are waived.
        options: How the cells are compiled.
    """
    comparison = _Comparison(asked, store, waives)
    if asked.plan is not None:
        yield from comparison.compile(asked.plan, options)
    return comparison.result()


@dataclass
class _Comparison:
    """A comparison with the records that are settled so far."""

    asked: ComparisonPlan
    store: Store | None
    waives: Waives
    _settled: dict[str, Record] = field(default_factory=dict, init=False)
    _run: str | None = field(default=None, init=False)
    # Failing cells by key, with other configurations of their launches.
    _alternatives: Mapping[str, list[Cell]] = field(default_factory=dict, init=False)

    def compile(self, plan: Plan, options: RunOptions) -> Generator[Event, None, None]:
        """Settle every cell of the plan, then other configurations of what regressed."""
        assert self.store is not None
        with open_run(plan, self.store, options) as active:
            self._run = active.id
            yield RunStarted(active.id, len(plan.cells))
            for record in active.loop.records(plan.cells):
                self._settled[record.key] = record
                yield RecordSettled(record)
            yield from self._look_again(active)
            active.finish()
        yield RunFinished(active.id, complete=True)

    def _look_again(self, active: ActiveRun) -> Generator[Event, None, None]:
        """Compile other configurations of what regressed.

        Where one compiles, an autotuner that skips the failing one goes on, and one that does not
        has a fallback.
        """
        assert self.asked.plan is not None
        failing = {
            change.pair.after.key
            for change in self.result().of(DifferenceKind.REGRESSED)
            if change.pair.after is not None
        }
        cells = [cell for cell in self.asked.plan.cells if cell.key in failing]
        self._alternatives = other_configs(cells)
        others = [cell for own in self._alternatives.values() for cell in own]
        if not others:
            return
        number = count_noun(len(others), "other configuration")
        yield Progress(f"trying {number} of what regressed")
        active.store.add_cells(others)
        for record in active.loop.records(others):
            self._settled[record.key] = record

    def result(self) -> Comparison:
        """The comparison of what is settled by now."""
        asked = self.asked
        both = [asked.records(side, self._settled) for side in (asked.before, asked.after)]
        kernels = [[each for each in records if not is_own_word(each)] for records in both]
        refused = refusals(*both)
        untested = self._untested([*kernels[0], *kernels[1]])
        made = differences(
            self._excused(match(*kernels), kernels[1]),
            untested,
            self.waives,
            missing_after=self._missing(asked.after, both[1]),
            missing_before=self._missing(asked.before, both[0]),
        )
        sides = [_side(side, there) for side, there in zip((asked.before, asked.after), both)]
        on = sorted({record.target for records in both for record in records}, key=by_target)
        warned = tuple(_advisories(side, kernels[0] + kernels[1], on) for side in sides)
        result = Comparison(
            before=sides[0],
            after=sides[1],
            about=asked.about,
            targets=tuple(on),
            changes=tuple(made),
            refusals=tuple(refused),
            advisories=(warned[0], warned[1]),
            package=tuple(self._words(refused)),
            is_narrowed=asked.is_narrowed,
            coverage=self._coverage,
            run=self._run,
        )
        if not result.is_regression and not any(result.advisories):
            return result
        others = self._others(kernels[0], on)
        return replace(
            result,
            fallbacks=tuple(self._fallbacks(result, [*kernels[1], *self._tried()])),
            others=tuple((triton, tuple(torch_pins.torch_for(triton))) for triton in others),
        )

    def _excused(self, pairs: Iterable[Pair], after: Sequence[Record]) -> list[Pair]:
        """With each failure of TO replaced that its autotuner skips while another configuration of
        the launch compiles."""
        compiling = self._compiling(after)
        excused = []
        for pair in pairs:
            failing = pair.after
            if failing is not None and failing.verdict is Verdict.FAILS and failing.tolerated:
                other = compiling.get(failing.key)
                if other is not None:
                    skipped = f"{settings(failing.options)} ({failing.code})"
                    note = f"the autotuner skips {skipped} and has others"
                    pair = Pair(pair.before, other, exact=False, note=note)
            excused.append(pair)
        return excused

    def _compiling(self, after: Sequence[Record]) -> dict[str, Record]:
        """For failing records of TO, by key, one of the same launch that compiles."""
        observed = list(zip(observe(after, self.asked.made_up), after))
        first: dict[Any, Record] = {}
        for cell, record in observed:
            if cell.compiles:
                first.setdefault((cell.place, cell.launch), record)
        known = {
            record.key: first[cell.place, cell.launch]
            for cell, record in observed
            if (cell.place, cell.launch) in first
        }
        for key, others in self._alternatives.items():
            for other in others:
                settled = self._settled.get(other.key)
                if settled is not None and settled.verdict is Verdict.COMPILES:
                    known.setdefault(key, settled)
        return known

    def _untested(self, records: Sequence[Record]) -> dict[str, str]:
        """Why some records are no evidence, by key."""
        _, untested = separate_untested(observe(records, self.asked.made_up))
        return {cell.key: why_untested(cell) or "no evidence" for cell in untested}

    def _missing(self, side: Side, records: Sequence[Record]) -> Callable[[Record], str]:
        """Why a kernel is not on a side."""
        refused = {
            record.kernel: refusal_text(record)
            for record in records
            if is_own_word(record) and record.verdict is not Verdict.COMPILES
        }
        compiler, name = None, side.text
        if isinstance(side, ReleaseSide):
            compiler = side.choice.identity
            name = f"what {compiler} compiled"
        return missing(name, compiler, self.asked.captures, refused, self._coverage)

    @property
    def _coverage(self) -> tuple[Json, ...]:
        if self.asked.plan is None:
            return ()
        return self.asked.plan.coverage

    def _words(self, refused: Sequence[Difference]) -> list[package_view.PackageNotice]:
        asked = self.asked
        package: Package | None = None
        if asked.captures:
            package = asked.captures[0].package
        return words(package, refused, asked.sides, asked.captures)

    def _tried(self) -> list[Record]:
        """The other configurations of what regressed."""
        cells = (cell for own in self._alternatives.values() for cell in own)
        return [self._settled[cell.key] for cell in cells if cell.key in self._settled]

    def _fallbacks(self, result: Comparison, after: Sequence[Record]) -> list[Fallback]:
        """What to use under TO in place of what fails there now."""
        forms: FormsOf = {}
        if self.asked.plan is not None:
            forms = self.asked.plan.forms
        regressed = {change.kernel for change in result.of(DifferenceKind.REGRESSED)}
        every = alternatives.fallbacks(observe(after, self.asked.made_up), forms)
        return [fallback for fallback in every if fallback.kernel in regressed]

    def _others(self, before: Sequence[Record], on: Sequence[str]) -> list[str]:
        """Other releases on record under which all compiles that compiled under FROM, and which no
        advisory speaks against; oldest first."""
        compiled = [record for record in before if record.verdict is Verdict.COMPILES]
        if self.store is None or not compiled:
            return []
        asked = {side.choice.version for side in self._releases()}
        good = []
        for version in triton_releases.known_releases():
            if version in asked or _against(version, on, compiled):
                continue
            cells = (replace(record.cell, toolchain=f"triton=={version}") for record in compiled)
            keys = [cell.key for cell in cells]
            known = self.store.latest_verdicts(keys)
            if all(known.get(key) is Verdict.COMPILES for key in keys):
                good.append(version)
        return good

    def _releases(self) -> Iterable[ReleaseSide]:
        return (side for side in self.asked.sides if isinstance(side, ReleaseSide))


def _side(side: Side, records: Sequence[Record]) -> ComparedSide:
    toolchains = list(dict.fromkeys(record.toolchain for record in records))
    torch = compiler = None
    if isinstance(side, ReleaseSide):
        torch, compiler = side.torch, side.choice.identity
        name = compiler
    else:
        name = side.name
        if len(toolchains) == 1:
            compiler = toolchains[0]
    pins: Sequence[str] = ()
    family, version = split(compiler or "")
    # No torch pins a local build.
    if family == "triton" and "+" not in version:
        pins = torch_pins.torch_for(version)
    verdicts: Mapping[Verdict, int] = Counter(record.verdict for record in records)
    lacking = sum(record.code == NO_WHEEL for record in records)
    partial = None
    if isinstance(side, StoredSide):
        partial = side.partial
    return ComparedSide(side.text, name, compiler, torch, tuple(pins), verdicts, lacking, partial)


def _advisories(
    side: ComparedSide, records: Sequence[Record], on: Sequence[str]
) -> tuple[Advisory, ...]:
    if side.triton is None:
        return ()
    return tuple(_against(side.triton, on, records))


def _against(triton: str, on: Sequence[str], records: Sequence[Record]) -> list[Advisory]:
    """What speaks against a release for these kernels, each advisory once."""
    kernels = {record.kernel for record in records}
    dtypes = {record.dtype for record in records if record.dtype}
    packages = {record.package for record in records if record.package}
    package = None
    if len(packages) == 1:
        package = packages.pop()
    told = {
        advisory.id: advisory
        for target in on
        for advisory in advisories.against(
            triton, target, kernels=kernels, package=package, dtypes=dtypes or None
        )
    }
    return list(told.values())
