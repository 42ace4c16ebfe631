"""The summary of a run: all parts of a report beside the records themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from flacheck.evidence.analysis.compiled_sizes import CompiledSizes, join_sizes
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.exit_code import Tally, tally
from flacheck.evidence.analysis.fallbacks import Fallback, ReportedFallback
from flacheck.evidence.analysis.groups import FailureGroup, SignatureGroup, by_signature
from flacheck.evidence.analysis.judgement import PackageFailure, package_failures
from flacheck.evidence.analysis.known_good import (
    KnownGood,
    KnownGoodRelease,
    Specifier,
    collect_advisories,
    known_good,
    specifiers,
)
from flacheck.evidence.analysis.launch_evidence import find_blocking_failures
from flacheck.evidence.analysis.observation import ObservedCell, observe
from flacheck.evidence.analysis.operators import OperatorAnswer
from flacheck.evidence.analysis.order import settings
from flacheck.evidence.analysis.package_releases import (
    PackageRelease,
    PackageReleaseAnswer,
    newest_working,
    package_releases,
)
from flacheck.evidence.analysis.slices import Slice, SliceAnswers, slices
from flacheck.evidence.analysis.slow import SlowCompile, slow_compiles
from flacheck.evidence.analysis.standing import PartialPlace, Standing
from flacheck.evidence.analysis.untested_cells import (
    UntestedGroup,
    group_untested,
    separate_untested,
)
from flacheck.evidence.answers import run_answer
from flacheck.evidence.measured.comparison import CardComparison
from flacheck.model import Json, Record, canonical
from flacheck.model.answer import Answer
from flacheck.model.coverage import PackageCoverage
from flacheck.model.source_location import Locate, locate_nowhere
from flacheck.model.wire import JsonStruct, Natural, NotEmpty


class ReleaseAdvisory(JsonStruct, frozen=True):
    """A public report against a requested release, whatever its cells show."""

    triton: str
    targets: tuple[str, ...]
    text: NotEmpty


class RunSummary(Answer, frozen=True, kw_only=True):
    """The counts of cells and the conclusions from them, as in flacheck.run/1.

    `package_failures` are failures that every compiled release has: they make no release bad.
    `sizes` are those of the launches that answer; null if no kernel has a head size.
    """

    compiles: Natural
    fails: Natural
    unknown: Natural
    skipped: Natural
    known_good: tuple[KnownGoodRelease, ...]
    specifiers: tuple[Specifier, ...]
    by_signature: tuple[FailureGroup, ...]
    fallbacks: tuple[ReportedFallback, ...]
    coverage: tuple[PackageCoverage, ...]
    partial: tuple[PartialPlace, ...]
    untested: tuple[UntestedGroup, ...]
    slices: tuple[SliceAnswers, ...]
    operators: tuple[OperatorAnswer, ...]
    advisories: tuple[ReleaseAdvisory, ...]
    package_releases: tuple[PackageReleaseAnswer, ...]
    package_failures: tuple[PackageFailure, ...]
    sizes: CompiledSizes | None


@dataclass(frozen=True)
class Summary:
    """All parts of a run's report beside its records.

    `tally` decides the exit code, `slow` holds the FC921 findings by key. `standings` are the
    states of the questions, `slices` those of their dtypes and forms where they differ;
    `untested_keys` are the cells behind `untested_groups`, `blocking_keys` the failures that no
    other configuration, waiver or baseline covers; `advisories` are public reports about each
    requested release, compiled or not. `package_releases` are the releases of the package if all
    questions are about several of one package.
    """

    tally: Tally
    known_good: tuple[KnownGood, ...] = ()
    specifiers: tuple[Specifier, ...] = ()
    by_signature: tuple[SignatureGroup, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    slow: Mapping[str, SlowCompile] = field(default_factory=dict)
    coverage: tuple[PackageCoverage, ...] = ()
    standings: tuple[Standing, ...] = ()
    slices: tuple[Slice, ...] = ()
    untested_groups: tuple[UntestedGroup, ...] = ()
    untested_keys: frozenset[str] = frozenset()
    blocking_keys: frozenset[str] = frozenset()
    advisories: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    package_releases: tuple[PackageRelease, ...] = ()

    @property
    def working_release(self) -> PackageRelease | None:
        """The newest release of the package that works; None for other questions."""
        return newest_working(self.package_releases)

    @property
    def answering(self) -> tuple[Standing, ...]:
        """The standings that answer the question: of several releases those of the working one."""
        if self.working_release is not None:
            return self.working_release.standings
        return self.standings

    @property
    def sizes(self) -> CompiledSizes | None:
        """The sizes of the launches that answer; None if no kernel has a head size."""
        return join_sizes(standing.sizes for standing in self.answering)

    @cached_property
    def in_words(self) -> Answer:
        """The answer: the best of the releases, and what is wrong with it."""
        uses = {each.kernel: f"use {settings(each.use)}" for each in reversed(self.fallbacks)}
        return run_answer(self.answering, uses)

    @property
    def partial(self) -> tuple[Standing, ...]:
        """The places where a question is not answered completely."""
        return tuple(standing for standing in self.standings if standing.is_partial)

    def with_searched(self, search_results: Sequence[Fallback]) -> Summary:
        """Return the summary with fallbacks from a search.

        Cells without one keep the fallbacks from the records.
        """
        if not search_results:
            return self
        searched_cells = set(map(_identity, search_results))
        fallbacks = list(search_results)
        for fallback in self.fallbacks:
            if _identity(fallback) not in searched_cells:
                fallbacks.append(fallback)
        return replace(self, fallbacks=tuple(fallbacks))

    def document(self) -> RunSummary:
        """Return the summary in the form of flacheck.run/1."""
        operators = []
        for standing in self.standings:
            for each in standing.operators:
                operators.append(each.on(*standing.place))
        return RunSummary(
            **structs.asdict(self.in_words),
            compiles=self.tally.compiles,
            fails=self.tally.fails,
            unknown=self.tally.unknown,
            skipped=self.tally.skipped,
            known_good=tuple(release.document() for release in self.known_good),
            specifiers=self.specifiers,
            by_signature=tuple(group.document() for group in self.by_signature),
            fallbacks=tuple(fallback.reported() for fallback in self.fallbacks),
            coverage=self.coverage,
            partial=tuple(standing.progress_by_place for standing in self.partial),
            untested=self.untested_groups,
            slices=tuple(each.document() for each in self.slices),
            operators=tuple(operators),
            advisories=tuple(ReleaseAdvisory(*each) for each in self.advisories),
            package_releases=tuple(each.document() for each in self.package_releases),
            package_failures=package_failures(self.standings),
            sizes=self.sizes,
        )


@dataclass(frozen=True)
class RunView:
    """One run, or several as one, in the form of a report.

    `run` is the run's JSON object; `records` returns all records anew on each call; `mixed` are the
    (question, toolchain, target) with shards of different captures; `names` are the ids of all
    runs; `locate` returns the file and line of a kernel. `measured` are the run's releases beside
    another one on each GPU where both were measured.
    """

    run: Json
    records: Callable[[], Iterable[Record]]
    summary: Summary
    mixed: tuple[tuple[str, str, str], ...] = ()
    names: tuple[str, ...] = ()
    locate: Locate = locate_nowhere
    measured: tuple[CardComparison, ...] = ()


def _identity(one: Fallback) -> tuple[Any, ...]:
    return one.package, one.kernel, one.toolchain, one.target, canonical(one.failing)


def summarise(records: Iterable[Record], context: Context) -> Summary:
    """Return the summary of records in one pass: 20,000 fit in tens of megabytes."""
    whole: list[ObservedCell] = []
    # Untested cells of other shards belong to the result, too.
    all_untested: dict[str, ObservedCell] = {}
    for standing in context.standings:
        whole += (*standing.cells, *standing.untested_cells)
        for cell in standing.untested_cells:
            all_untested[cell.key] = cell
    configurations = {}
    for cell in whole:
        if cell.configuration_of is not None:
            configurations[cell.key] = cell.configuration_of
    observed_cells = observe(records, context.made_up, configurations)
    cells, untested_cells = separate_untested(observed_cells, whole)
    untested_keys: set[str] = set()
    for cell in untested_cells:
        all_untested[cell.key] = cell
        untested_keys.add(cell.key)
    releases = package_releases(context.standings)
    working = newest_working(releases)
    # Releases of one package are alternatives: the pins are those of the one that works.
    answering = context.standings if working is None else working.standings
    good = known_good(answering, context)
    blocking_keys = set()
    for cell in find_blocking_failures(cells):
        if not (context.waives(cell) or context.in_baseline(cell)):
            blocking_keys.add(cell.key)
    return Summary(
        tally=tally(cells, context.waives, len(untested_cells), context.in_baseline),
        known_good=tuple(good),
        specifiers=tuple(specifiers(answering, good, context)),
        by_signature=tuple(by_signature(cells)),
        fallbacks=tuple(context.fallbacks(cells, context.forms)),
        slow=slow_compiles(cells),
        coverage=tuple(context.coverage),
        standings=tuple(context.standings),
        slices=tuple(slices(answering, context)),
        untested_groups=tuple(group_untested(list(all_untested.values()))),
        advisories=tuple(collect_advisories(context.standings, context)),
        untested_keys=frozenset(untested_keys),
        blocking_keys=frozenset(blocking_keys),
        package_releases=releases,
    )
