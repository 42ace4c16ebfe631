"""The compilers that a reduction asks, each question answered by a warm fork of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from flacheck import toolchains
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.engine import loop
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.judge import judge
from flacheck.engine.provider import worker_kind
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import FlacheckError, ToolchainError
from flacheck.model import Attempt, Cell, Outcome, Record
from flacheck.packages.package import Package
from flacheck.toolchains.base import Choice, Toolchain

_LOG = logging.getLogger(__name__)

# Seconds for the first question, when nobody knows yet how long this kernel takes.
LONGEST = 300.0
# Seconds that a compile is given even when the budget's time is over while it is asked.
_SHORTEST = 1.0


def provide_releases(
    own: str, target: str, specs: Sequence[str], named: Sequence[str] = ()
) -> dict[str, Toolchain]:
    """The releases to ask, by identity, oldest first: those that `specs` name, or every release
    with a wheel for this Python, and always the cell's own. A release that does not know the
    target, or cannot be installed, is left out with a warning. `named` are specifications of which
    one may be the cell's own: of a local build only its path says where it lies. Raises
    ToolchainError when the cell's own release cannot be had."""
    known = toolchains.FAMILIES["triton"]
    resolution = toolchains.resolve(specs) if specs else known.versions()
    for warning in resolution.warnings:
        _LOG.warning(warning)
    own_choices = [choice for choice in _resolved(named) if choice.identity == own]
    if not own_choices and own not in {choice.identity for choice in resolution.choices}:
        own_choices = list(toolchains.resolve([own]).choices)
    choices = {choice.identity: choice for choice in [*resolution.choices, *own_choices]}
    ready = {}
    for choice in sorted(choices.values(), key=lambda choice: Version(choice.version)):
        # A release that is missing takes nothing away from what the others say.
        try:
            unfit = choice.reason or choice.skip_reason(target)
            if unfit:
                raise ToolchainError(unfit)
            toolchain = toolchains.provide(choice)
            lacking = toolchain.missing_tool(target)
            if lacking:
                raise ToolchainError(lacking)
        except FlacheckError as error:
            _LOG.warning(f"{choice.identity} is left out: {error}")
        else:
            ready[choice.identity] = toolchain
    if own not in ready:
        raise ToolchainError(f"{own}, on which the cell fails, is not available here for {target}")
    return ready


def _resolved(specs: Sequence[str]) -> Sequence[Choice]:
    if not specs:
        return ()
    return toolchains.resolve(specs).choices


@dataclass
class Compilers:
    """Releases of a compiler, by identity, oldest first. A worker starts when it is first asked.
    `packages` hold the imported kernels, by specification; `trust` is the user's word for sources
    of kernels. `patience` is the time in seconds that
    one compile may take, `budget` what all of them may."""

    releases: Mapping[str, Toolchain]
    packages: Mapping[str, Package]
    memory_mb: int = 8192
    budget: Budget = field(default_factory=Budget)
    patience: float = LONGEST
    trust: bool = False
    _timeouts: loop.Timeouts = field(default_factory=loop.Timeouts)
    _records: dict[tuple[str, str, str | None], Record] = field(default_factory=dict)
    _pools: dict[WorkerKind, LocalPool] = field(default_factory=dict)

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def reset(self) -> None:
        """End all workers, busy or not; the next question starts new ones."""
        pools = list(self._pools.values())
        self._pools.clear()
        if pools:
            # Side by side, for each waits until its server is gone.
            with ThreadPoolExecutor(len(pools)) as threads:
                list(threads.map(LocalPool.close, pools))

    def compile(self, specimen: Specimen, release: str, until: str | None = None) -> Record:
        """What one release makes of a specimen, compiled up to a stage or to the end. Answers are
        remembered; raises BudgetSpent when nothing is left to spend on a new one."""
        question = (specimen.key, release, until)
        if question not in self._records:
            self.budget.spend()
            cell = specimen.cell(release, until)
            self._records[question] = self.judge_cell(cell)
        return self._records[question]

    def judge_cell(self, cell: Cell) -> Record:
        """What the cell's release makes of it. Raises BudgetSpent where the budget ended the
        compile, for that is no verdict."""
        attempt = self.ask(cell)
        if attempt.outcome is Outcome.TIMED_OUT:
            self.budget.check()
        return judge(cell, attempt)

    def compile_on(
        self, specimen: Specimen, releases: Iterable[str], until: str | None, jobs: int
    ) -> Iterator[tuple[str, Record]]:
        """What each of these releases makes of a specimen, in their order, `jobs` at a time."""
        # A thread waits for a worker of its own release, so no two share a pool.
        threads = ThreadPoolExecutor(jobs)
        try:
            asked = {
                release: threads.submit(self.compile, specimen, release, until)
                for release in releases
            }
            for release, answer in asked.items():
                yield release, answer.result()
        except KeyboardInterrupt:
            # Nobody waits any more for what the workers were asked.
            self.reset()
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        """What the cell's worker answers to a compile or, with `changes`, to another request."""
        package = self.packages.get(cell.kernel.package or "")
        toolchain = self.releases[cell.toolchain]
        imported = cell.kernel.is_imported
        kind = worker_kind(toolchain, package, imported, self.memory_mb, self.trust)
        # A pool for each release, for candidates go to one release and then to another: a pool with
        # one slot would end its worker each time.
        if kind not in self._pools:
            self._pools[kind] = LocalPool(1, self._timeouts)
        pool = self._pools[kind]
        self._timeouts.fixed_seconds = max(_SHORTEST, min(self.patience, self.budget.seconds_left))
        # Fresh: what the worker compiled before must not decide what it says of this one.
        pool.submit([Task(None, kind, {**loop.request(cell), **changes}, fresh=True)])
        [(_, attempt)] = next(pool.results())
        return attempt
