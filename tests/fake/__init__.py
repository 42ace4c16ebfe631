"""The fake toolchain: a compiler that fails by a table, in a real worker process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flacheck.engine.executors import Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.model import Cell, Kernel, Launch

WORKER = str(Path(__file__).parent / "worker.py")


def kind(table: dict[str, Any], version: str = "1.0", **config: Any) -> WorkerKind:
    identity = f"fake=={version}"
    return WorkerKind(
        identity,
        {"path": [], "identity": identity, "worker_file": WORKER, "table": table, **config},
    )


def task(name: str, of: WorkerKind, fresh: bool = False, **options: Any) -> Task:
    return Task(
        name,
        of,
        {"op": "compile", "kernel": {"name": name}, "card": {}, "options": options},
        fresh=fresh,
    )


def cell(name: str, version: str = "1.0", target: str = "sm90", **options: Any) -> Cell:
    kernel = Kernel(f"fake.{name}", None, "0", {"name": name})
    return Cell(
        kernel,
        f"fake=={version}",
        target,
        Launch({"x": {"dtype": "bf16", "align": 16}}),
        options,
        "bf16",
    )
