"""A run of a plan as one sitting: its entry in the store, its workers, its records."""

import logging
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flacheck import __version__
from flacheck.analysis.observed import Observed, observe
from flacheck.analysis.standing import is_skipped
from flacheck.analysis.untested import why_untested
from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.engine.plan import Plan
from flacheck.engine.provider import Provider
from flacheck.model import Json, Record, Verdict
from flacheck.store import Store
from flacheck.toolchains import torch_pins

_LOG = logging.getLogger(__name__)


def environment() -> Json:
    """Where a run took place."""
    return {
        "flacheck": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def processors() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass
class Session:
    """One run of a plan into a store; `records` does the work.

    `timeout` is in seconds, None for one that is learnt; `jobs` workers run at once, as many as
    there are CPUs with 0; `again` compiles what is in the store already.
    """

    plan: Plan
    store: Store
    timeout: float | None = None
    jobs: int = 0
    memory_mb: int = 8192
    again: bool = False
    max_failures: int | None = None
    # A run that was begun before its package was captured; without one a new run begins.
    run: str = ""
    # Failures that a waiver or a baseline lets pass: `max_failures` does not count them.
    lets_pass: Callable[[Observed], bool] = lambda cell: False
    # The failures so far that `max_failures` counts.
    failures: int = 0

    def __post_init__(self) -> None:
        question, key_sets = self.plan.asks()
        self.store.add_cells(self.plan.cells)
        if self.run:
            self.store.settle(self.run, self.plan.context(), question, key_sets.values())
            return
        self.run = self.store.begin_run(
            environment(),
            self.plan.name,
            self.plan.context(),
            purpose=self.plan.purpose,
            question=question,
            key_sets=key_sets.values(),
        )

    @contextmanager
    def workers(self) -> Iterator[Loop]:
        """The loop over warm workers, which end with the context."""
        timeouts = Timeouts(self.timeout)
        provider = Provider(self.plan, self.memory_mb)
        pool = LocalPool(self.jobs or processors(), timeouts)
        try:
            yield Loop(provider, self.run, self.store, pool, timeouts, self.again)
        finally:
            pool.close()

    def finish(self, results: Json | None = None) -> None:
        """Note that all was done, and what came of it beside the records."""
        self.store.finish_run(self.run, results)

    def _is_failure(self, record: Record) -> bool:
        """Whether `--max-failures` counts it: neither what is let pass nor what flacheck's own
        arguments may have caused."""
        if record.verdict is not Verdict.FAILS or record.tolerated:
            return False
        (cell,) = observe([record])
        return why_untested(cell) is None and not self.lets_pass(cell)

    def records(self) -> Iterator[Record]:
        """Each cell's record as it is settled. Closing the iterator ends the workers."""
        compiled = 0
        with self.workers() as loop:
            for record in self._asked(loop):
                yield record
                compiled += not record.cached
                self.failures += self._is_failure(record)
                if self.max_failures and self.failures >= self.max_failures:
                    _LOG.info(f"stopped after {self.failures} failures (--max-failures)")
                    return
        self.finish()
        if compiled:
            torch_pins.refresh()

    def _asked(self, loop: Loop) -> Iterator[Record]:
        """The records of all cells; where the autotuner skips one, those of its alternatives as
        well, until one compiles."""
        with_others = {cell.key: cell for cell in self.plan.cells if cell.alternatives}
        waiting = []
        for record in loop.records(self.plan.cells):
            yield record
            if record.key in with_others and is_skipped(record):
                waiting.append(with_others[record.key].others())
        while waiting:
            # One of each launch at a time: few launches are skipped, and the first mostly compiles.
            asked = [(cell, others) for others in waiting if (cell := next(others, None))]
            by_key = {cell.key: cell for cell, _ in asked}
            self.store.add_cells(by_key.values())
            compiled = set()
            for record in loop.records(list(by_key.values())):
                yield record
                if record.verdict is Verdict.COMPILES:
                    compiled.add(record.key)
            waiting = [others for cell, others in asked if cell.key not in compiled]
