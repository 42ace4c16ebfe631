"""The summary of a run: all parts of a report beside the records themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from flacheck.analysis.context import Context
from flacheck.analysis.exit_code import Tally, tally
from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.groups import SignatureGroup, by_signature
from flacheck.analysis.known_good import (
    KnownGood,
    Specifier,
    collect_advisories,
    known_good,
    specifiers,
)
from flacheck.analysis.launch_evidence import find_blocking_failures
from flacheck.analysis.observation import ObservedCell, observe
from flacheck.analysis.package_releases import (
    PackageRelease,
    newest_working,
    package_releases,
)
from flacheck.analysis.slices import Slice, slices
from flacheck.analysis.slow import SlowCompile, slow_compiles
from flacheck.analysis.standing import Standing
from flacheck.analysis.untested_cells import UntestedGroup, group_untested, separate_untested
from flacheck.model import Json, Record, canonical
from flacheck.model.source_location import Locate, locate_nowhere


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
    coverage: tuple[Json, ...] = ()
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

    def to_json(self) -> Json:
        advisories = []
        for release, targets, text in self.advisories:
            advisories.append({"triton": release, "targets": list(targets), "text": text})
        return {
            "compiles": self.tally.compiles,
            "fails": self.tally.fails,
            "unknown": self.tally.unknown,
            "skipped": self.tally.skipped,
            "known_good": _all_to_json(self.known_good),
            "specifiers": list(map(asdict, self.specifiers)),
            "by_signature": _all_to_json(self.by_signature),
            "fallbacks": _all_to_json(self.fallbacks),
            "coverage": list(self.coverage),
            "partial": _all_to_json(self.partial),
            "untested": _all_to_json(self.untested_groups),
            "slices": _all_to_json(self.slices),
            "operators": _list_operators(self.standings),
            "advisories": advisories,
            "package_releases": _all_to_json(self.package_releases),
        }


@dataclass(frozen=True)
class RunView:
    """One run, or several as one, in the form of a report.

    `run` is the run's JSON object; `records` returns all records anew on each call; `mixed` are the
    (question, toolchain, target) with shards of different captures; `names` are the ids of all
    runs; `locate` returns the file and line of a kernel.
    """

    run: Json
    records: Callable[[], Iterable[Record]]
    summary: Summary
    mixed: tuple[tuple[str, str, str], ...] = ()
    names: tuple[str, ...] = ()
    locate: Locate = locate_nowhere


class _Published(Protocol):
    """A part of a summary that has a form in JSON."""

    def to_json(self) -> Json: ...


def _all_to_json(parts: Iterable[_Published]) -> list[Json]:
    return [part.to_json() for part in parts]


def _list_operators(standings: Iterable[Standing]) -> list[Json]:
    """Return the standing of each public entry point on each place."""
    operators = []
    for standing in standings:
        place = {"toolchain": standing.toolchain, "target": standing.target}
        for each in standing.operators:
            operators.append({**place, **each.to_json()})
    return operators


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
