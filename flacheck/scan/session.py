"""A scan as one sitting: plan, store and workers brought together, and what came of it as values."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from flacheck import __version__, analysis
from flacheck.analysis import Context, RunView
from flacheck.analysis.fallbacks import Fallback
from flacheck.config import waivers
from flacheck.config.waivers import Waiver
from flacheck.engine import loop as scan
from flacheck.engine.executors import LocalPool
from flacheck.errors import Exit
from flacheck.fallbacks import kept, seen
from flacheck.fallbacks.oracle import Beside
from flacheck.fallbacks.searching import search_with_workers
from flacheck.inputs.planning import Plan
from flacheck.model import Cell, Json, Record, Verdict
from flacheck.store import PURPOSE, Run, Store
from flacheck.tables import advisories
from flacheck.toolchains import torch_pins as pins
from flacheck.toolchains import triton_releases


def environment() -> Json:
    """Where a run took place."""
    return {
        "flacheck": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


Compile = Callable[[list[Cell]], Iterator[Record]]


@dataclass
class Session:
    """One run of a plan into a store; `records` does the work, `view` says what came of it.

    `purpose` is the command that runs it when that is no scan: the last run of a store is its last
    scan.
    """

    plan: Plan
    store: Store
    timeout: float | None
    jobs: int
    memory_mb: int
    fresh: bool
    max_failures: int | None = None
    waivers: Sequence[Waiver] = ()
    purpose: str | None = None
    run: str = field(init=False)

    def __post_init__(self) -> None:
        kernels = sorted({cell.kernel.name for cell in self.plan.cells})
        context = {
            **analysis.forms_to_json(self.plan.forms),
            "kernels": kernels,
            "coverage": list(self.plan.coverage),
            **({PURPOSE: self.purpose} if self.purpose else {}),
        }
        self.run = self.store.begin_run(environment(), self.plan.matrix.name, context)
        self.store.add_cells(self.plan.cells)

    @contextmanager
    def workers(self, progress: Callable[[str], None]) -> Iterator[Compile]:
        """What gives the records of the plan's cells, as often as it is asked; its workers end with
        the context.
        """
        timeouts = scan.Timeouts(self.timeout)
        question = self.plan.question(self.memory_mb, self.fresh, self.timeout, progress)
        pool = LocalPool(self.jobs or len(os.sched_getaffinity(0)), timeouts)
        try:
            yield lambda cells: scan.scan(
                replace(question, cells=cells), self.run, self.store, pool, timeouts
            )
        finally:
            pool.close()

    def finish(self) -> None:
        """Note that all was done."""
        self.store.finish_run(self.run)

    def records(self, progress: Callable[[str], None]) -> Iterator[Record]:
        """Each cell's record as it is settled. Closing the iterator ends the workers."""
        failures = compiled = 0
        with self.workers(progress) as compile_:
            for record in compile_(self.plan.cells):
                yield record
                compiled += not record.cached
                failures += record.verdict is Verdict.FAILS and not record.tolerated
                if self.max_failures and failures >= self.max_failures:
                    progress(f"stopped after {failures} failures (--max-failures)")
                    return
        self.finish()
        if compiled:
            pins.refresh()

    def fallbacks(self, budget: int, progress: Callable[[str], None]) -> Iterator[Fallback]:
        """What to use in place of each failure, as a search finds it; kept with the run once all
        are found.
        """
        advice = []
        with Store.open(kept.beside(self.store)) as own:
            run = own.begin_run(environment(), self.plan.matrix.name)
            sink = Beside(own, self.store)
            for each in search_with_workers(
                self.plan,
                self.store.records(self.run),
                run,
                sink,
                jobs=self.jobs,
                memory_mb=self.memory_mb,
                seconds=self.timeout,
                budget=budget,
                progress=progress,
            ):
                advice.append(each)
                yield each
            kept.keep(own, environment(), self.run, advice)

    def view(self) -> RunView:
        return view(self.store, [self.run], self.waivers)

    def exit_code(self, seen: RunView, strict: bool) -> Exit:
        return analysis.exit_code(seen.summary.tally, strict=strict)


def view(store: Store, names: Sequence[str], waived: Sequence[Waiver] = ()) -> RunView:
    """Stored runs with their analysis, for a report; of several, the newest record of each cell
    counts. Waivers whose day is over let nothing pass.
    """
    valid = waivers.in_force(waived, date.today())
    runs = sorted(
        {run.id: run for run in map(store.run, names)}.values(),
        key=lambda run: run.started,
        reverse=True,
    )
    forms = {
        kernel: form
        for run in runs
        for kernel, form in analysis.forms_from_json(run.context).items()
    }
    context = Context(
        forms=forms,
        torch_for=pins.torch_for,
        specifier=pins.specifier,
        known_triton=triton_releases.known(),
        known_torch=list(pins.pins()),
        coverage=[entry for run in runs for entry in run.context.get("coverage", ())],
        waives=lambda cell: waivers.waived(valid, cell.kernel, cell.signature),
        advisories=partial(
            advisories.of, [name for run in runs for name in run.context.get("kernels", ())]
        ),
        fallbacks=seen.fallbacks,
    )
    summary = analysis.summarise(_records(store, runs), context).with_searched(
        kept.kept(store, [run.id for run in runs])
    )
    about = {
        **runs[0].to_json(),
        "matrix": ", ".join(dict.fromkeys(run.matrix for run in runs if run.matrix)) or None,
    }
    return RunView(
        run=about,
        records=lambda: analysis.mark_slow(_records(store, runs), summary.slow),
        summary=summary,
    )


def _records(store: Store, runs: Sequence[Run]) -> Iterator[Record]:
    seen: set[str] = set()
    for run in runs:
        fresh = (record for record in store.records(run.id) if record.key not in seen)
        yield from fresh if len(runs) == 1 else _noted(fresh, seen)


def _noted(records: Iterator[Record], seen: set[str]) -> Iterator[Record]:
    for record in records:
        seen.add(record.key)
        yield record
