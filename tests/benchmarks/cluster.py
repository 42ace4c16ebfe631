"""The Dask executor beside the local pool: `python -m tests.benchmarks.cluster [--cells N]`.

Both run the same fake cells, then the same real ones, with four workers on this machine. The
output is throughput in cells a second, their ratio, and the bytes that travel for a cell.
"""

from __future__ import annotations

import argparse
import pickle
import time
from dataclasses import replace
from itertools import islice

from flacheck.engine.cluster import DaskExecutor
from flacheck.engine.executors import Executor, LocalPool, Task
from flacheck.engine.loop import request
from flacheck.pipeline.job import MEMORY_MB, Job
from flacheck.pipeline.planning import plan_job
from flacheck.pipeline.run import provider_of
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests import fake

WORKERS = 4
TIMEOUT = 300.0


def fake_tasks(number: int) -> list[Task]:
    kind = fake.kind({})
    return [fake.task(f"k{each}", kind) for each in range(number)]


def real_tasks(number: int) -> list[Task]:
    """Cells of our own kernels under the installed Triton."""
    selection = Selection(targets=("sm90",))
    plan = plan_job(Job(Subject("full"), replace(selection, toolchains=("installed",))))
    provider = provider_of(plan, MEMORY_MB)
    cells = [cell for cell in plan.cells if cell.stage == "compile"]
    tasks = []
    for cell in islice(cells, number):
        kind = provider.worker_kind(cell)
        tasks.append(Task(cell.key, kind, request(cell)))  # type: ignore[arg-type]
    return tasks


def rate(executor: Executor, tasks: list[Task]) -> float:
    """Return the cells a second, after one batch has started the workers."""
    executor.submit(tasks[: 2 * WORKERS])
    for _ in executor.results():
        pass
    started = time.monotonic()
    executor.submit(tasks)
    done = 0
    for results in executor.results():
        done += len(results)
    assert done == len(tasks)
    return done / (time.monotonic() - started)


def compare(name: str, tasks: list[Task]) -> None:
    pool = LocalPool(WORKERS, lambda task: TIMEOUT)
    local = rate(pool, tasks)
    pool.close()
    cluster = DaskExecutor("", WORKERS, lambda task: TIMEOUT)
    remote = rate(cluster, tasks)
    cluster.close()
    size = sum(len(pickle.dumps((task.kind.recipe, task.request))) for task in tasks) / len(tasks)
    print(f"{name}: {len(tasks)} cells, local {local:.0f}/s, Dask {remote:.0f}/s, ", end="")
    print(f"ratio {remote / local:.2f}, {size / 1000:.1f} kB a cell")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--real", type=int, default=64)
    options = parser.parse_args()
    compare("fake", fake_tasks(options.cells))
    if options.real:
        compare("real", real_tasks(options.real))


if __name__ == "__main__":
    main()
