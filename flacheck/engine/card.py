"""A worker process on this machine's GPU, with the installed Triton and torch.

A process of its own, because a kernel may fault on the GPU or never end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck import toolchains
from flacheck.engine import policies
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.provider import torch_folder
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import FlacheckError, IncompleteError
from flacheck.model import Attempt, Json, Outcome
from flacheck.tables import find_shipped_folder, targets

# High, because a new worker lacks the output of the first run to compare with.
_RESIDENT_MB = 64_000
# The variables that the CUDA driver and torch read; the worker gets only these.
_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")
# The last line of a traceback, and the worker's message before it dies of a fault.
_ERROR = re.compile(r"[A-Za-z_][\w.]*: .+|the kernel faulted .+")


@dataclass(frozen=True)
class Card:
    """This machine's GPU as torch reports it, and the Triton and torch that run on it."""

    name: str
    target: str | None
    triton: str
    torch: str


class CardWorker:
    """A worker on the GPU, inside of a `with` statement.

    Args:
        worker: The module of `guest/workers`.
        purpose: The subject of the message if there is no GPU.
        device: The torch device.
        seconds: The time limit of a request.
        refusal: The error to raise if there is no GPU.
        settings: More fields of the worker's configuration.
        variables: More variables of the environment that the worker gets.
        is_used_at_once: True if the `with` statement follows at once. Otherwise hours of compiling
            may pass before it, and the process ends until then.

    Raises:
        refusal: If no GPU is found, or torch cannot use it.
    """

    def __init__(
        self,
        worker: str,
        purpose: str,
        device: str,
        seconds: float,
        refusal: type[FlacheckError] = IncompleteError,
        settings: Mapping[str, Any] | None = None,
        variables: tuple[str, ...] = (),
        is_used_at_once: bool = False,
    ) -> None:
        torch = torch_folder()
        if torch is None:
            raise refusal(f"{purpose} needs a GPU: install torch with CUDA beside flacheck")
        (choice,) = toolchains.resolve(["installed"]).choices
        self._config = toolchains.provide(choice).worker_config() | dict(settings or {})
        self._config |= {"worker": worker, "corpus": str(find_shipped_folder("kernels"))}
        self._config |= {"torch": torch, "device": device, "recycle_mb": _RESIDENT_MB}
        # The GPU's driver needs devices and files that are not documented.
        self._config["confinement"] = policies.OWN
        self.toolchain, self._seconds = choice.identity, seconds
        self._variables = (*_PASSED_ON, *variables)
        self._pool: LocalPool | None = None
        is_ready = False
        try:
            self.__enter__()
            self.card = self._card(purpose, refusal)
            is_ready = is_used_at_once
        finally:
            if not is_ready:
                self.__exit__()

    def __enter__(self) -> CardWorker:
        if self._pool is None:
            self._pool = LocalPool(1, lambda task: self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def run(self, request: Json, package: Mapping[str, Any] | None = None) -> Attempt:
        """Run one request; two at once on a GPU would slow each other down.

        `package` maps the identity of a package, whose kernels the worker imports, to its folder.
        """
        environment = {name: os.environ[name] for name in self._variables if name in os.environ}
        config, name = self._config, f"{self.toolchain} on the card"
        if package:
            config = {**config, "packages": dict(package)}
            name = f"{self.toolchain} {' '.join(package)} on the card"
        kind = WorkerKind(name, config, environment)
        assert self._pool is not None
        self._pool.submit([Task(0, kind, request)])
        batches = list(self._pool.results())
        (attempt,) = [attempt for batch in batches for _, attempt in batch]
        return attempt

    def _card(self, purpose: str, refusal: type[FlacheckError]) -> Card:
        attempt = self.run({"op": "device"})
        if attempt.outcome is not Outcome.FINISHED or attempt.facts["name"] is None:
            last = attempt.log.strip().splitlines()[-1:] or ["torch.cuda.is_available() is False"]
            raise refusal(f"{purpose} needs a GPU that torch can use: {last[0]}")
        facts = attempt.facts
        target: str | None = "sm" + "".join(map(str, facts["capability"] or ()))
        if target not in targets.TARGETS:
            target = None
        return Card(facts["name"], target, facts["triton"], facts["torch"])


def failure_of(attempt: Attempt) -> str:
    """Return the failure of an attempt in one line."""
    if attempt.outcome is Outcome.TIMED_OUT:
        return f"it had not ended after {attempt.seconds:.0f} s"
    lines = attempt.log.strip().splitlines()
    errors = [line for line in lines if _ERROR.fullmatch(line)]
    if not lines:
        return f"it took its worker along ({attempt.signal or attempt.exit_code})"
    return (errors or lines)[-1]
