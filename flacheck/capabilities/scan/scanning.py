"""The scan: the cells of jobs, compiled into the store, and fallbacks for failures."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from flacheck.errors import EmptySelection, FlacheckError
from flacheck.pipeline import planning
from flacheck.pipeline.events import Event, OnEvent, Progress, RunFinished
from flacheck.pipeline.fallbacks.searching import search_with_workers
from flacheck.pipeline.job import Job
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.planning import Resolved
from flacheck.pipeline.run import Excuse, environment, excuse_nothing, run_plan
from flacheck.store import Store

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ReadyScan:
    """A scan whose cells are known, or wait for the capture of a package (`plan` is None)."""

    job: Job
    resolved: Resolved
    plan: Plan | None


def prepare(jobs: Sequence[Job], on_event: OnEvent) -> list[ReadyScan]:
    """Return the scans of jobs; plan those that need no capture.

    A mistake in a matrix, or in any package's name, is an error before a store is made. A job whose
    selection is empty is left out with an event.

    Raises:
        UsageError: If a job cannot be planned.
        EmptySelection: If no job has a cell.
    """

    def prepare_one(job: Job) -> ReadyScan:
        resolved = planning.resolve(job)
        plan = None
        if resolved.question is None:
            with planning.capture(resolved) as captured:
                plan = planning.expand(job, captured)
        return ReadyScan(job, resolved, plan)

    return for_each(jobs, prepare_one, on_event)


def for_each(
    items: Sequence[_Item], call: Callable[[_Item], _Result], on_event: OnEvent
) -> list[_Result]:
    """Call a function with each item; leave out, with an event, items with an empty selection.

    Raises:
        EmptySelection: If every selection is empty.
    """
    results = []
    empty = []
    for item in items:
        try:
            results.append(call(item))
        except EmptySelection as error:
            empty.append(str(error))
    if not results:
        raise EmptySelection("; ".join(empty))
    for message in empty:
        on_event(Progress(message))
    return results


def scan_all(
    scans: Sequence[ReadyScan],
    store: Store,
    excuse: Excuse = excuse_nothing,
    fallback_budget: int | None = None,
) -> Generator[Event, None, list[str]]:
    """Compile scans one after the other into the store; return the ids of their runs.

    Args:
        scans: The jobs, ready to compile.
        store: Where questions and records go.
        excuse: Failures that do not count for `max_failures`.
        fallback_budget: Candidates to compile for each failure; None searches no fallbacks.

    Raises:
        FlacheckError: If a job cannot be planned or captured. If a job fails, no question of it
        stays in the store. EmptySelection: If no selection leaves a cell.
    """
    runs = []
    empty = []
    failures = 0
    for scan in scans:
        limit = scan.job.options.max_failures
        name = scan.job.subject.name
        if limit is not None and failures >= limit:
            yield Progress(f"{name} is not scanned (--max-failures)")
            continue
        if limit is not None:
            options = replace(scan.job.options, max_failures=limit - failures)
            scan = replace(scan, job=replace(scan.job, options=options))
        if len(scans) > 1:
            yield Progress(f"scanning {name}")
        try:
            end = yield from _scan(scan, store, excuse, fallback_budget)
        except EmptySelection as error:
            empty.append(str(error))
            continue
        failures += end.failures
        runs.append(end.run)
    if not runs:
        raise EmptySelection("; ".join(empty))
    for message in empty:
        yield Progress(message)
    return runs


def _scan(
    scan: ReadyScan, store: Store, excuse: Excuse, fallback_budget: int | None
) -> Generator[Event, None, RunFinished]:
    """Compile one scan; capture its package first if its cells wait for that."""
    job, plan, run = scan.job, scan.plan, ""
    try:
        if plan is None:
            run = _begin(scan.resolved, store)
            with planning.capture(scan.resolved) as captured:
                plan = planning.expand(job, captured)
        for warning in plan.warnings:
            yield Progress(warning)
        end = yield from run_plan(plan, store, job.options, excuse, run)
        # After all records: the search starts from every failure.
        if fallback_budget is not None:
            records = store.records(end.run)
            search_with_workers(
                plan, records, store, job.options, budget=fallback_budget, scan=end.run
            )
    except FlacheckError:
        # A job that cannot be planned or captured leaves no question behind; one with records does.
        store.forget(run)
        raise
    return end


def _begin(resolved: Resolved, store: Store) -> str:
    """Store the question of a package's scan before its capture; return the run's id.

    A capture that is interrupted leaves a question without an answer.
    """
    question = planning.question_of(resolved)
    if question is None:
        return ""
    return store.begin_run(environment(), question.about, question=question)
