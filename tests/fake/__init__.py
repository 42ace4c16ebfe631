"""The fake toolchain: a compiler that fails by a table, in a real worker process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.engine import policies
from flacheck.engine.executors import Task
from flacheck.engine.provider import Unavailable
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Attempt, Cell, Kernel, Launch, Stubbed

WORKER = str(Path(__file__).parent / "worker.py")


def kind(table: dict[str, Any], version: str = "1.0", **config: Any) -> WorkerKind:
    identity = f"fake=={version}"
    return WorkerKind(
        identity,
        {
            "path": [],
            "identity": identity,
            "worker_file": WORKER,
            "table": table,
            # It stands for every accident, those from outside included.
            "confinement": policies.OWN,
            **config,
        },
    )


@dataclass(frozen=True)
class Provider:
    """Provide workers of the fake compiler, with methods that a test may replace."""

    table: dict[str, Any]
    kind_of: Callable[[Cell], WorkerKind | Unavailable] | None = None
    refuses: Callable[[Cell], str | None] = lambda cell: None
    memory_mb: int = 512
    most_memory_mb: int = 512
    loss_of: Callable[[Cell], str | None] = lambda cell: None

    def refusal(self, cell: Cell) -> str | None:
        return self.refuses(cell)

    def attempt(self, cell: Cell) -> Attempt | None:
        return None

    def worker_kind(self, cell: Cell) -> WorkerKind | Unavailable:
        if self.kind_of is not None:
            return self.kind_of(cell)
        return kind(self.table, cell.toolchain.partition("==")[2], memory_mb=512)

    def larger_kind(self, kind: WorkerKind) -> WorkerKind | None:
        return None

    def loss(self, cell: Cell) -> str | None:
        return self.loss_of(cell)


def task(name: str, of: WorkerKind, fresh: bool = False, **options: Any) -> Task:
    return Task(
        name,
        of,
        {
            "op": "compile",
            "kernel": {"module": "fake", "qualname": name},
            "card": {},
            "options": options,
        },
        fresh=fresh,
    )


def cell(name: str, version: str = "1.0", target: str = "sm90", **options: Any) -> Cell:
    kernel = Kernel(f"fake.{name}", None, "0", Stubbed("fake", name))
    return Cell(
        kernel,
        f"fake=={version}",
        target,
        Launch({"x": {"dtype": "bf16", "align": 16}}),
        options,
        "bf16",
        # Of an autotuner that has a choice.
        configs=({"kwargs": {}, "num_warps": 4}, {"kwargs": {}, "num_warps": 8}),
    )
