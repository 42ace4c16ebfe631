"""The search for the nearest fallback of each failure in a scan.

Each fallback compiles before it is yielded.

First other settings, for every release and target of the scan's call where any settings help.
Without common settings, those for the failing cell's own release and target.
Then another dtype (fp32 if the GPU has no bf16, bf16 otherwise), another form of the operator,
another release.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flacheck.engine.loop import Loop
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.evidence.analysis.order import by_version, split
from flacheck.model import Cell, Purpose, Record, Verdict
from flacheck.pipeline.fallbacks.candidates import Candidate
from flacheck.pipeline.fallbacks.exploration import (
    BRIEF,
    BUDGET,
    Exploration,
    Oracle,
    Patience,
    explore,
)
from flacheck.pipeline.fallbacks.failing import Failing, Place, ScanResult
from flacheck.pipeline.fallbacks.others import Others
from flacheck.pipeline.fallbacks.ranking import order
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import open_run
from flacheck.store import Store
from flacheck.toolchains import Resolver, installed_toolchains, triton_releases
from flacheck.toolchains.base import Choice

_TRITON = "triton"
_LOG = logging.getLogger(__name__)

# The number of kernels with one failure that are searched with patience before the others.
SCOUTS = 3
# A candidate that takes longer to compile is hardly useful as a fallback.
CANDIDATE_SECONDS = 60.0
Places = Mapping[str, Sequence[Place]]


def search_with_workers(
    plan: Plan,
    records: Iterable[Record],
    store: Store,
    options: RunOptions,
    *,
    budget: int = BUDGET,
    extra_records: Iterable[Record] = (),
    scan: str | None = None,
) -> list[Fallback]:
    """Return the fallbacks of a run's failures, each compiled in workers of its own.

    The store keeps the candidates in a run of their own, with the fallbacks and the `scan` that
    they belong to. The search may use `extra_records` beside the store's.
    """
    plan = replace(plan, choices={**_cached_choices(), **plan.choices})
    candidates_plan = replace(plan, cells=(), purpose=Purpose.FALLBACKS)
    candidate_options = replace(
        options, timeout=options.timeout or CANDIDATE_SECONDS, fresh=False, max_failures=None
    )
    with open_run(candidates_plan, store, candidate_options) as active:
        oracle = LoopOracle(active.loop, extra_records)
        advice = list(search(plan, records, oracle, budget))
        document = [[fallback.package, fallback.to_json()] for fallback in advice]
        active.finish({"of": scan, "fallbacks": document} if scan else None)
    return advice


def _cached_choices() -> Mapping[str, Choice]:
    """Return the Triton releases in the user's cache, oldest first."""
    resolver = Resolver()
    suffix = triton_releases.suffix()
    identities = set()
    for toolchain in installed_toolchains():
        if toolchain.path.name.endswith(suffix):
            identities.add(str(toolchain.manifest.get("identity")))
    for identity in sorted(identities, key=by_version):
        version = split(identity)[1]
        # A local build lacks a release number, and therefore neighbours.
        if version in triton_releases.known_releases():
            resolver(f"{_TRITON}=={version}")
    return resolver.choices


def search(
    plan: Plan,
    records: Iterable[Record],
    oracle: Oracle,
    budget: int = BUDGET,
) -> Iterator[Fallback]:
    """Yield the fallbacks of a scan's failures by release and target.

    Each failure has a budget of `budget` candidates.
    """
    scan = ScanResult(plan, list(records))
    failures = sorted(scan.failing(), key=lambda failing: order(failing.observation))
    # The failing place first: a place without a fallback must not spoil the others.
    own_places = {failing.key: [failing.place] for failing in failures}
    here = _other_settings(scan, failures, own_places, oracle, budget)
    shared, places = _shared_places(scan, failures, here)
    common = _other_settings(scan, shared, places, oracle, budget)
    rest = [failing for failing in failures if failing.key not in here]
    if rest:
        _LOG.info(f"looking for another dtype, form or release for {len(rest)} failing cells …")
    adjustable = [failing for failing in rest if failing.adjustable]
    others = Others(scan, oracle, budget)
    ways = (others.dtypes(adjustable), others.forms(adjustable), others.releases(rest))
    for failing in failures:
        key = failing.key
        if key in common:
            yield scan.other_settings(failing, common[key], places[key])
        elif key in here:
            yield scan.other_settings(failing, here[key], [failing.place])
        else:
            for way in ways:
                if key in way:
                    yield way[key]


def _other_settings(
    scan: ScanResult, failures: Iterable[Failing], places: Places, oracle: Oracle, budget: int
) -> dict[str, Candidate]:
    """Return the nearest settings that compile at each failure's places, by its key."""
    explorations = explore_failures(
        failures, lambda failing: scan.at(failing, places[failing.key]), oracle, budget
    )
    answers = {}
    for key, exploration in explorations.items():
        answer = exploration.answer
        if answer:
            answers[key] = answer
    return answers


def _shared_places(
    scan: ScanResult, failures: Iterable[Failing], here: Mapping[str, Candidate]
) -> tuple[list[Failing], Places]:
    """Return the failures that may share settings with other places, and these places by key.

    The other places are those where the call compiles unchanged or with some settings.
    """
    shared = []
    places: dict[str, list[Place]] = {}
    for failing in failures:
        if failing.key not in here:
            continue
        feasible = [failing.place]
        for other in scan.elsewhere(failing):
            if other.compiles or other.key in here:
                feasible.append(other.place)
        places[failing.key] = feasible
        if len(feasible) > 1:
            shared.append(failing)
    return shared, places


def _telling(oracle: Oracle) -> Oracle:
    """Return an oracle that logs the number of its compiles."""
    count = 0

    def tell(cells: Sequence[Cell]) -> Mapping[str, Record]:
        nonlocal count
        records = oracle(cells)
        count += len(cells)
        _LOG.info(f"{count} settings compiled in place of failing ones", extra={"is_step": True})
        return records

    return tell


def explore_failures(
    failures: Iterable[Failing],
    cells_of: Callable[[Failing], Sequence[Cell]],
    oracle: Oracle,
    budget: int,
) -> dict[str, Exploration]:
    """Return the finished exploration of each adjustable failing cell, by its key.

    `cells_of` returns the cells in which a candidate has to compile.

    Many failures have one cause: a conversion that a release lacks on a GPU fails in a hundred
    kernels alike, with all settings. So for each signature on a release and target a few kernels
    are searched first; if all of them give up, the others give up sooner.
    """

    def run(several: Iterable[Failing], patience: Patience) -> dict[str, Exploration]:
        explorations = {}
        for failing in several:
            cells = cells_of(failing)
            explorations[failing.key] = Exploration(
                cells, failing.signature, failing.space, budget, patience
            )
        explore(list(explorations.values()), oracle)
        return explorations

    oracle = _telling(oracle)
    explorations: dict[str, Exploration] = {}
    # One release after another keeps workers warm.
    adjustable = [(failing.place[0], failing) for failing in failures if failing.adjustable]
    for toolchain, there in group_by_key(adjustable).items():
        failing_here = f"{len(there)} failing cells on {toolchain}"
        _LOG.info(f"looking for settings that compile in place of {failing_here} …")
        groups = group_by_key(((failing.place, failing.signature), failing) for failing in there)
        scouts = [_scouts(group) for group in groups.values()]
        scouting = run([failing for several in scouts for failing in several], Patience())
        hopeful: list[Failing] = []
        hopeless: list[Failing] = []
        for group, first in zip(groups.values(), scouts):
            rest = [failing for failing in group if failing.key not in scouting]
            if len(first) == SCOUTS and all(scouting[scout.key].hopeless for scout in first):
                hopeless += rest
            else:
                hopeful += rest
        explorations |= run(hopeful, Patience()) | run(hopeless, BRIEF) | scouting
    return explorations


def _scouts(group: Iterable[Failing]) -> list[Failing]:
    """Return the first failing cell of each of the first few kernels."""
    firsts: dict[str, Failing] = {}
    for failing in group:
        firsts.setdefault(failing.observation.kernel, failing)
    return list(firsts.values())[:SCOUTS]


class LoopOracle:
    """Cells compiled by the loop in one executor's warm workers, batch after batch.

    It compiles no cell of which it has a record with a verdict.
    """

    def __init__(self, loop: Loop, records: Iterable[Record] = ()) -> None:
        self._loop = loop
        self._records: dict[str, Record] = {}
        for record in records:
            if record.verdict is not Verdict.UNKNOWN:
                self._records[record.key] = record

    def __call__(self, cells: Sequence[Cell]) -> Mapping[str, Record]:
        new = {cell.key: cell for cell in cells if cell.key not in self._records}
        if new:
            for record in self._loop.records(list(new.values())):
                self._records[record.key] = record
        return {cell.key: self._records[cell.key] for cell in cells}
