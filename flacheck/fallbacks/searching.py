"""The search: for each failure of a scan the nearest that compiles in its place, each compiled
before it is yielded.

First other settings, wherever the same call was asked: on every release and target where any
settings help. Where there are none, or no common ones, those of the failing cell's own release and
target. Else another dtype (fp32 where the GPU has no bf16, bf16 otherwise), another form of the
operator, another release.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flacheck.analysis.fallbacks import Fallback
from flacheck.analysis.known_good import group_by_key
from flacheck.analysis.order import by_version, split
from flacheck.engine.loop import Loop, Sink
from flacheck.fallbacks.exploration import BRIEF, BUDGET, Exploration, Oracle, Patience, explore
from flacheck.fallbacks.failing import Failing, Place, Scanned
from flacheck.fallbacks.others import Others
from flacheck.fallbacks.ranking import order
from flacheck.model import Cell, Purpose, Record
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import ActiveRun, open_run
from flacheck.store import Store
from flacheck.toolchains import Resolver, installed_toolchains, triton_releases

_LOG = logging.getLogger(__name__)

# So many kernels of one failure are searched with patience before the others.
SCOUTS = 3
# What takes longer to compile is hardly what anybody falls back to.
CANDIDATE_SECONDS = 60.0


def search_with_workers(
    plan: Plan,
    records: Iterable[Record],
    store: Store,
    options: RunOptions,
    *,
    budget: int = BUDGET,
    tried: Mapping[str, Record] | None = None,
    scan: str | None = None,
) -> list[Fallback]:
    """Return the fallbacks of a run's failures, each compiled in workers of its own.

    The candidates go to a run of their own in the store, with the fallbacks and the `scan` that
    they belong to. `tried` are records that the search may use beside the store's.
    """
    resolver = Resolver()
    # The releases in the user's cache are further choices; none is downloaded for a fallback.
    shelves = [s for s in installed_toolchains() if s.path.name.endswith(triton_releases.suffix())]
    held = {str(shelf.manifest.get("identity")) for shelf in shelves}
    for name in sorted(held, key=by_version):
        # A local build has no release number and no neighbours.
        if split(name)[1] in triton_releases.known_releases():
            resolver(f"triton=={split(name)[1]}")
    plan = replace(plan, choices={**resolver.choices, **plan.choices})
    with searching(plan, store, options, tried) as (oracle, active):
        advice = list(search(plan, records, oracle, budget))
        noted = [[each.package, each.to_json()] for each in advice]
        active.finish({"of": scan, "fallbacks": noted} if scan else None)
    return advice


def search(
    plan: Plan,
    records: Iterable[Record],
    oracle: Oracle,
    budget: int = BUDGET,
) -> Iterator[Fallback]:
    """The fallbacks of a scan's failures by release and target; `budget` candidates for each."""
    scanned = Scanned(plan, list(records))
    failures = sorted(scanned.failing(), key=lambda each: order(each.observed))

    def settings(
        several: Iterable[Failing], places: Callable[[Failing], Sequence[Place]]
    ) -> dict[str, Exploration]:
        """The explorations that have an answer at those places, by the key of the failing cell."""
        ways = explored(several, lambda each: scanned.at(each, places(each)), oracle, budget)
        return {key: way for key, way in ways.items() if way.answer}

    # Here first: a place where nothing helps must not spoil what helps at the others.
    here = settings(failures, lambda each: [each.place])
    helped = [each for each in failures if each.key in here]
    there: dict[str, list[Place]] = {}
    for each in helped:
        # The failing place, and the others where the call compiles as it is or with some settings.
        feasible = [o for o in scanned.elsewhere(each) if o.compiles or o.key in here]
        there[each.key] = [each.place, *(other.place for other in feasible)]
    shared = [each for each in helped if len(there[each.key]) > 1]
    common = settings(shared, lambda each: there[each.key])
    rest = [each for each in failures if each.key not in here]
    if rest:
        _LOG.info(f"looking for another dtype, form or release for {len(rest)} failing cells …")
    adjustable = [each for each in rest if each.adjustable]
    others = Others(scanned, oracle, budget)
    ways = (others.dtypes(adjustable), others.forms(adjustable), others.releases(rest))
    for each in failures:
        everywhere, own = common.get(each.key), here.get(each.key)
        if everywhere and everywhere.answer:
            yield scanned.other_settings(each, everywhere.answer, there[each.key])
        elif own and own.answer:
            yield scanned.other_settings(each, own.answer, [each.place])
        else:
            yield from (way[each.key] for way in ways if each.key in way)


def explored(
    failures: Iterable[Failing],
    cells_of: Callable[[Failing], Sequence[Cell]],
    oracle: Oracle,
    budget: int,
) -> dict[str, Exploration]:
    """The exploration of each failing cell that any setting can matter to, by its key, each at its
    end; `cells_of` says where a candidate has to compile.

    Many failures are one: a conversion that a release cannot do on a GPU fails in a hundred kernels
    alike, whatever their settings. So of each signature on a release and target a few kernels are
    searched first; where all of them give up, the others need less to be given up too.
    """

    def run(several: Iterable[Failing], patience: Patience) -> dict[str, Exploration]:
        ways = {
            each.key: Exploration(cells_of(each), each.signature, each.space, budget, patience)
            for each in several
        }
        explore(list(ways.values()), oracle)
        return ways

    ways: dict[str, Exploration] = {}
    # One release after another, so that workers stay warm.
    by_release = group_by_key((each.place[0], each) for each in failures if each.adjustable)
    for toolchain, there in by_release.items():
        failing_here = f"{len(there)} failing cells on {toolchain}"
        _LOG.info(f"looking for settings that compile in place of {failing_here} …")
        alike = group_by_key(((each.place, each.signature), each) for each in there).values()
        # The first failing cells of a few kernels.
        scouts: list[list[Failing]] = []
        for group in alike:
            firsts: dict[str, Failing] = {}
            for each in group:
                firsts.setdefault(each.observed.kernel, each)
            scouts.append(list(firsts.values())[:SCOUTS])
        scouted = run((each for group in scouts for each in group), Patience())
        hopeful: list[Failing] = []
        lost: list[Failing] = []
        for group, first in zip(alike, scouts):
            in_vain = len(first) == SCOUTS and all(scouted[each.key].hopeless for each in first)
            others = lost if in_vain else hopeful
            others += [each for each in group if each.key not in scouted]
        ways |= run(hopeful, Patience()) | run(lost, BRIEF) | scouted
    return ways


class LoopOracle:
    """Cells compiled by the loop in one executor's warm workers, batch after batch."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: dict[str, Record] = {}

    def __call__(self, cells: Sequence[Cell]) -> Mapping[str, Record]:
        new = list({cell.key: cell for cell in cells if cell.key not in self._known}.values())
        if new:
            for record in self._loop.records(new):
                self._known[record.key] = record
        return {cell.key: self._known[cell.key] for cell in cells}


@dataclass(frozen=True)
class TriedBefore:
    """A sink that also knows records which no scan made, by key."""

    sink: Sink
    records: Mapping[str, Record]

    def latest_records(self, keys: Iterable[str]) -> Mapping[str, Record]:
        asked = list(keys)
        known = {key: self.records[key] for key in asked if key in self.records}
        return {**self.sink.latest_records(asked), **known}

    def add_many(self, run: str, records: Iterable[Record]) -> None:
        self.sink.add_many(run, records)

    def add_cached(self, run: str, records: Iterable[Record]) -> int:
        return self.sink.add_cached(run, records)

    def others_wrote(self) -> bool:
        return self.sink.others_wrote()


@contextmanager
def searching(
    plan: Plan,
    store: Store,
    options: RunOptions,
    tried: Mapping[str, Record] | None = None,
) -> Iterator[tuple[Oracle, ActiveRun]]:
    """Yield an oracle over warm workers, which end with the context, and its run.

    `tried` are records that the oracle may return beside the store's.
    """
    aside = replace(plan, cells=(), purpose=Purpose.FALLBACKS)
    limited = replace(
        options, timeout=options.timeout or CANDIDATE_SECONDS, fresh=False, max_failures=None
    )
    with open_run(aside, store, limited) as active:
        if tried:
            active.loop.sink = TriedBefore(active.loop.sink, tried)
        yield LoopOracle(active.loop), active
