"""Records → summary: everything that a report says besides the records themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

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
from flacheck.analysis.observation import observe
from flacheck.analysis.slices import Slice, slices
from flacheck.analysis.slow import SlowCompile, slow_compiles
from flacheck.analysis.standing import Standing
from flacheck.analysis.untested_cells import UntestedGroup, group_untested, separate_untested
from flacheck.model import Json, Record, canonical


@dataclass(frozen=True)
class Summary:
    """What a report says of a run besides its records; `tally` carries what the exit code needs,
    `slow` the FC921 findings by key. `standings` say how the questions stand, `slices` how their
    dtypes and forms do where those differ; `untested_keys` are the cells behind `untested`;
    `advisories` what is publicly known of each release that was asked, compiled or not."""

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
    advisories: tuple[tuple[str, tuple[str, ...], str], ...] = ()

    @property
    def partial(self) -> tuple[Standing, ...]:
        """The places where a question is not answered as a whole."""
        return tuple(standing for standing in self.standings if standing.is_partial)

    def with_searched(self, searched: Sequence[Fallback]) -> Summary:
        """With the searched fallbacks; cells without one keep what the records show."""
        if not searched:
            return self
        known = {_identity(each) for each in searched}
        others = (each for each in self.fallbacks if _identity(each) not in known)
        return replace(self, fallbacks=(*searched, *others))

    def to_json(self) -> Json:
        verdicts = ("compiles", "fails", "unknown", "skipped")
        return {
            **{name: getattr(self.tally, name) for name in verdicts},
            "known_good": [release.to_json() for release in self.known_good],
            "specifiers": [asdict(specifier) for specifier in self.specifiers],
            "by_signature": [group.to_json() for group in self.by_signature],
            "fallbacks": [fallback.to_json() for fallback in self.fallbacks],
            "coverage": list(self.coverage),
            "partial": [standing.to_json() for standing in self.partial],
            "untested": [each.to_json() for each in self.untested_groups],
            "slices": [each.to_json() for each in self.slices],
            "advisories": [
                {"triton": release, "targets": list(targets), "text": text}
                for release, targets, text in self.advisories
            ],
        }


@dataclass(frozen=True)
class RunView:
    """One run, or several as one, as a report shows it: `run` is the run's JSON object, `records`
    gives all records anew each time it is called; `mixed` are the (question, toolchain, target)
    that shards of different captures asked; `names` are the ids of all runs."""

    run: Json
    records: Callable[[], Iterable[Record]]
    summary: Summary
    mixed: tuple[tuple[str, str, str], ...] = ()
    names: tuple[str, ...] = ()


def _identity(one: Fallback) -> tuple[Any, ...]:
    return one.package, one.kernel, one.toolchain, one.target, canonical(one.failing)


def summarise(records: Iterable[Record], context: Context) -> Summary:
    """One pass over the records, small and shared: 20,000 fit in tens of megabytes."""
    whole = [cell for each in context.standings for cell in (*each.cells, *each.untested_cells)]
    configurations = {c.key: c.configuration_of for c in whole if c.configuration_of is not None}
    cells, untested = separate_untested(observe(records, context.made_up, configurations), whole)
    good = known_good(context.standings, context)
    # Another shard may have met them: they belong to the answer all the same.
    elsewhere = {cell.key: cell for each in context.standings for cell in each.untested_cells}
    all_untested = {**elsewhere, **{cell.key: cell for cell in untested}}
    return Summary(
        tally=tally(cells, context.waives, len(untested), context.knows),
        known_good=tuple(good),
        specifiers=tuple(specifiers(context.standings, good, context)),
        by_signature=tuple(by_signature(cells)),
        fallbacks=tuple(context.fallbacks(cells, context.forms)),
        slow=slow_compiles(cells),
        coverage=tuple(context.coverage),
        standings=tuple(context.standings),
        slices=tuple(slices(context.standings, context)),
        untested_groups=tuple(group_untested(list(all_untested.values()))),
        advisories=tuple(collect_advisories(context.standings, context)),
        untested_keys=frozenset(cell.key for cell in untested),
    )
