"""The scan: the cells of a job, compiled into the store, and fallbacks for what fails."""

from collections.abc import Generator

from flacheck.analysis.fallbacks import Fallback
from flacheck.errors import EmptySelection, UsageError
from flacheck.fallbacks.searching import search_with_workers
from flacheck.model import Question
from flacheck.pipeline import planning
from flacheck.pipeline.events import Event, Progress
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import Excuse, environment, excuse_nothing, run_plan
from flacheck.store import Store


def scan_job(
    job: Job,
    store: Store,
    excuse: Excuse = excuse_nothing,
    fallback_budget: int | None = None,
    plan: Plan | None = None,
) -> Generator[Event, None, tuple[Plan, str]]:
    """Compile a job's cells into the store; return their plan and the run's id.

    Args:
        job: The subject, its selection and the options of the run.
        store: Where question and records go.
        excuse: Failures that do not count for `max_failures`.
        fallback_budget: Candidates to compile for each failure; None searches no fallbacks.
        plan: The job's plan, if it is made already.

    Raises:
        UsageError: If the job cannot be planned. No question is left behind.
        EmptySelection: If the selection leaves no cell.
    """
    run = ""
    try:
        if plan is None:
            run = _begin(job, store)
            plan = planning.plan_job(job)
        for warning in plan.warnings:
            yield Progress(warning)
        run = yield from run_plan(plan, store, job.options, excuse, run)
        # After all records: the search starts from every failure.
        if fallback_budget is not None:
            _find_fallbacks(plan, store, run, job.options, fallback_budget)
    except (UsageError, EmptySelection):
        store.forget(run)
        raise
    return plan, run


def _begin(job: Job, store: Store) -> str:
    """Store the question of a package's scan before its capture; return the run's id.

    A capture that is interrupted leaves a question without an answer. "" for other subjects, whose
    cells need no capture.
    """
    question: Question | None = planning.announce(job)
    if question is None:
        return ""
    return store.begin_run(environment(), question.about, question=question)


def _find_fallbacks(
    plan: Plan, store: Store, run: str, options: RunOptions, budget: int
) -> list[Fallback]:
    """Search, compile and store the fallbacks of a run's failures."""
    records = store.records(run)
    return search_with_workers(plan, records, store, options, budget=budget, scan=run)
