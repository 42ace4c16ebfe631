"""The job: everything that one call of flacheck compiles or reads, and how."""

import math
import os
import time
from dataclasses import dataclass, field

from flacheck.model import Purpose
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

# The share of a budget that compiles have at least, where a capture takes more than the rest.
_LEAST_SHARE = 6
# Megabytes of address space for each worker.
MEMORY_MB = 8192
# The executor that runs workers on this machine, and the one of a Dask cluster.
LOCAL, DASK = "local", "dask"
# The strategy that compiles every cell, and the one that chooses cells by what the others show.
ALL, ADAPTIVE = "all", "adaptive"


@dataclass(frozen=True)
class RunOptions:
    """How cells are compiled.

    Attributes:
        timeout: Seconds for each cell; None learns the limit from the kernel's finished cells.
        jobs: Number of workers; 0 takes the number of CPUs.
        memory_mb: Megabytes of address space for each worker.
        fresh: Compile cells again that have a stored result.
        max_failures: Stop after this many failures; None never stops.
        executor: `local`, `dask` for a local Dask cluster, or `dask:ADDRESS` of a scheduler.
        cache_from: A folder or URL of a shared cache that is read before cells are compiled.
        cache_to: A folder or URL of a shared cache that receives new verdicts.
        strategy: `all` compiles every cell, `adaptive` the most informative ones.
        binaries: Keep the binary of each cell in the cache; compile again for a missing one.
        budget: Seconds after which the answer so far is told; the run goes on.
        stops: The run ends when the budget has passed.
        began: The time from which the budget counts, before packages are captured.
    """

    timeout: float | None = None
    jobs: int = 0
    memory_mb: int = MEMORY_MB
    fresh: bool = False
    max_failures: int | None = None
    executor: str = LOCAL
    cache_from: str | None = None
    cache_to: str | None = None
    strategy: str = ALL
    binaries: bool = False
    budget: float | None = None
    stops: bool = False
    began: float = field(default_factory=time.monotonic, compare=False)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.jobs or count_processors()

    def due(self) -> float:
        """Return the time at which the budget of a run that compiles from now on has passed."""
        if self.budget is None:
            return math.inf
        return max(self.began + self.budget, time.monotonic() + self.budget / _LEAST_SHARE)


@dataclass(frozen=True)
class Job:
    """A subject, the selection of its cells, and the options of their run.

    Attributes:
        subject: The matrix, launches file or package.
        selection: The kernels, GPUs, dtypes, options and compilers to which it is narrowed.
        options: How the cells are compiled.
        until: The last compiler stage to run; None runs all.
        shard: `I/N` for the I-th of N parts, split by cell key; None for all cells.
        purpose: The purpose of the run; only a scan answers a question.
    """

    subject: Subject
    selection: Selection = field(default_factory=Selection)
    options: RunOptions = field(default_factory=RunOptions)
    until: str | None = None
    shard: str | None = None
    purpose: Purpose = Purpose.SCAN


def count_processors() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))
