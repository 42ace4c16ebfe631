"""20,000 cells through loop, store and summary, over a compiler that takes no time: the parent's
own cost."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from flacheck.engine.executors import LocalPool
from flacheck.engine.loop import Loop, Timeouts
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.summary import summarise
from flacheck.pipeline.fallbacks import alternatives
from flacheck.store import Store
from tests import fake

CELLS = 20_000


def main() -> None:
    cells = [fake.cell("odd" if n % 7 == 0 else "even", n=n) for n in range(CELLS)]
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
        run = store.begin_run({}, "fake", {})
        timeouts, start = Timeouts(60), time.monotonic()
        pool = LocalPool(2, timeouts)
        loop = Loop(fake.Provider({"odd": "shared 245760"}), run, store, pool, timeouts)
        count = sum(1 for _ in loop.records(cells))
        pool.close()
        rate = count / (time.monotonic() - start)
        summary = summarise(store.records(run), Context(fallbacks=alternatives.fallbacks))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} cells, {summary.tally.compiles} compile: {rate:.0f} cells a second (at least 500)"
    )
    print(f"peak memory of the parent: {peak:.0f} MB (at most 200)")


main()
