"""The compilers of a reduction; each compile runs in a warm fork of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from flacheck import toolchains
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.kernel.expression_types import Types, read_types
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.engine import loop
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.judge import judge
from flacheck.engine.provider import worker_kind
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import FlacheckError, ToolchainError
from flacheck.model import Attempt, Cell, Outcome, Record
from flacheck.pipeline.job import count_processors
from flacheck.source.packages.package import Package
from flacheck.toolchains.base import Choice, Toolchain

_LOG = logging.getLogger(__name__)

# Seconds for the first compile, before the time of this kernel is measured.
LONGEST = 300.0
# The least seconds for a compile, even if the budget's time ends meanwhile.
_SHORTEST = 1.0


def provide_releases(
    own: str, target: str, specs: Sequence[str], own_specs: Sequence[str] = ()
) -> dict[str, Toolchain]:
    """Return the releases to compile with, by identity, oldest first.

    These are the releases in `specs`, or every release with a wheel for this Python, and always the
    cell's own. A release that does not support the target, or cannot be installed, is left out with
    a warning. `own_specs` are specifications that may lead to the cell's own release: a local build
    can be located only by its path.

    Raises:
        ToolchainError: If the cell's own release is unavailable.
    """
    family = toolchains.FAMILIES["triton"]
    resolution = toolchains.resolve(specs) if specs else family.versions()
    for warning in resolution.warnings:
        _LOG.warning(warning)
    choices = {choice.identity: choice for choice in resolution.choices}
    own_choices = [choice for choice in _resolve(own_specs) if choice.identity == own]
    if not own_choices and own not in choices:
        own_choices = list(toolchains.resolve([own]).choices)
    for choice in own_choices:
        choices[choice.identity] = choice
    ready = {}
    for choice in sorted(choices.values(), key=lambda choice: Version(choice.version)):
        # A missing release does not affect the results of the others.
        try:
            ready[choice.identity] = _provide(choice, target)
        except FlacheckError as error:
            _LOG.warning(f"{choice.identity} is left out: {error}")
    if own not in ready:
        raise ToolchainError(f"{own}, on which the cell fails, is not available here for {target}")
    return ready


def _provide(choice: Choice, target: str) -> Toolchain:
    """Return the toolchain of a release; raise ToolchainError if it cannot compile for a target."""
    reason = choice.reason or choice.skip_reason(target)
    if reason:
        raise ToolchainError(reason)
    toolchain = toolchains.provide(choice)
    reason = toolchain.missing_tool(target)
    if reason:
        raise ToolchainError(reason)
    return toolchain


def _resolve(specs: Sequence[str]) -> Sequence[Choice]:
    if not specs:
        return ()
    return toolchains.resolve(specs).choices


@dataclass
class Compilers:
    """Releases of a compiler, by identity, oldest first. A worker starts with its first request.

    `packages` hold the imported kernels, by specification; `trust` is the user's consent to run the
    sources of kernels. `patience` limits the seconds of one compile, `budget` those of all. `jobs`
    is the number of releases that work in parallel. `torch` is the folder of the torch that scripts
    use on this machine's GPU; None for scripts that need none.
    """

    releases: Mapping[str, Toolchain]
    packages: Mapping[str, Package]
    memory_mb: int = 8192
    budget: Budget = field(default_factory=Budget)
    patience: float = LONGEST
    trust: bool = False
    jobs: int = field(default_factory=count_processors)
    torch: str | None = None
    _timeouts: loop.Timeouts = field(default_factory=loop.Timeouts)
    _records: dict[tuple[str, str, str | None], Record] = field(default_factory=dict)
    _pools: dict[WorkerKind, LocalPool] = field(default_factory=dict)

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def reset(self) -> None:
        """End all workers, busy or not; the next request starts new ones."""
        pools = list(self._pools.values())
        self._pools.clear()
        if pools:
            # In parallel, because each call waits until its server has ended.
            with ThreadPoolExecutor(len(pools)) as threads:
                list(threads.map(LocalPool.close, pools))

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record:
        """Return a release's record of a specimen, compiled up to a stage or to the end.

        Records are cached; raise BudgetSpent if a new one exceeds the budget.
        """
        request_key = (specimen.key, release, until)
        if request_key not in self._records:
            self.budget.spend()
            cell = specimen.cell(release, until)
            self._records[request_key] = self.judge_cell(cell)
        return self._records[request_key]

    def judge_cell(self, cell: Cell) -> Record:
        """Return the record of a cell.

        Raise BudgetSpent if the budget ended the compile, because that is not a verdict.
        """
        attempt = self.ask(cell)
        if attempt.outcome is Outcome.TIMED_OUT:
            self.budget.check()
        return judge(cell, attempt)

    def compile_on(
        self, specimen: Specimen, releases: Iterable[str], until: str | None, jobs: int
    ) -> Iterator[tuple[str, Record]]:
        """Yield each of these releases with its record of a specimen, `jobs` at a time."""
        # A thread waits for a worker of its own release, so no two share a pool.
        threads = ThreadPoolExecutor(jobs)
        try:
            futures = {}
            for release in releases:
                futures[release] = threads.submit(self.compile, specimen, release, until)
            for release, future in futures.items():
                yield release, future.result()
        except KeyboardInterrupt:
            # The results of the running workers are no longer needed.
            self.reset()
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def types_on(self, release: str) -> Callable[[Specimen], Types]:
        """Return the front end of a release: a function that returns a specimen's types."""

        def types(specimen: Specimen) -> Types:
            attempt = self.ask(specimen.cell(release, "ast"), op="types")
            return read_types(specimen.function, attempt.facts.get("types"))

        return types

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        """Return the attempt of a cell's worker: a compile or, with `changes`, another request."""
        package = self.packages.get(cell.kernel.package or "")
        toolchain = self.releases[cell.toolchain]
        is_imported = cell.kernel.is_imported
        kind = worker_kind(toolchain, package, is_imported, self.memory_mb, self.trust)
        # Candidates alternate between releases, so each release has a pool: a shared pool with one
        # slot would end its worker each time.
        if kind not in self._pools:
            self._pools[kind] = LocalPool(1, self._timeouts)
        pool = self._pools[kind]
        self._timeouts.fixed_seconds = max(_SHORTEST, min(self.patience, self.budget.seconds_left))
        # A fresh fork, so that earlier compiles cannot influence this one.
        request = {**loop.request(cell), **changes}
        pool.submit([Task(None, kind, request, fresh=True)])
        [(_, attempt)] = next(pool.results())
        return attempt
