"""The engine as reduction uses it: one question at a time, each to a warm fork that has done
nothing yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from flacheck.engine import judge
from flacheck.engine import loop as scan
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.inputs import planning
from flacheck.model import Attempt, Cell, Json, Record
from flacheck.packages.package import Package
from flacheck.repro.kernel.specimen import Specimen
from flacheck.toolchains.base import Toolchain

LONGEST = 300.0


class Compilers:
    """Releases of a compiler, by identity, oldest first; a worker each, started when it is first
    asked.
    """

    def __init__(self, releases: Mapping[str, Toolchain], memory_mb: int = 8192) -> None:
        self.releases = releases
        self.timeout = LONGEST
        self._memory_mb = memory_mb
        self._pools: dict[WorkerKind, LocalPool] = {}

    def __enter__(self) -> Compilers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.reset()

    def reset(self) -> None:
        """End all workers, whatever they were asked; the next question starts new ones."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record:
        """What one release makes of a specimen."""
        return self.judged(specimen.cell(release, until), self.kind(release))

    def judged(self, cell: Cell, kind: WorkerKind) -> Record:
        """What a worker of that kind makes of a cell."""
        return judge.judge(cell, self.ask(kind, scan.request(cell)))

    def ask(self, kind: WorkerKind, request: Json) -> Attempt:
        """Any request, answered by a warm fork."""
        if kind not in self._pools:
            self._pools[kind] = LocalPool(1, lambda _: self.timeout)
        pool = self._pools[kind]
        pool.submit([Task(None, kind, request, fresh=True)])
        [(_, attempt)] = next(pool.completed())
        return attempt

    def kind(
        self, release: str, package: Package | None = None, imported: bool = False
    ) -> WorkerKind:
        """A worker of that release, with a package's kernels or with our own; `imported`: beside
        torch.
        """
        return planning.worker_kind(self.releases[release], package, imported, self._memory_mb)
