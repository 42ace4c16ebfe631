"""A worker process on this machine's GPU, with the installed Triton and torch.

A process of its own, because a kernel may fault on the GPU or never end.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass

from flacheck import toolchains
from flacheck.engine import policies
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.provider import torch_folder
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import IncompleteError
from flacheck.model import Attempt, Json, Outcome
from flacheck.tables import find_shipped_folder

# High, because a new worker lacks the output of the first run to compare with.
_RESIDENT_MB = 64_000
# The variables that the CUDA driver and torch read; the worker gets only these.
PASSED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES")
# The last line of a traceback, and the worker's message before it dies of a fault.
_ERROR = re.compile(r"[A-Za-z_][\w.]*: .+|the kernel faulted .+")


@dataclass(frozen=True)
class Card:
    """This machine's GPU as torch reports it, and the Triton and torch that run on it."""

    name: str
    triton: str
    torch: str


class CardWorker:
    """A worker on the GPU, inside of a `with` statement.

    Args:
        worker: The module of `guest/workers`.
        purpose: The subject of the message if there is no GPU.
        device: The torch device.
        seconds: The time limit of a request.
        variables: More variables of the environment that the worker gets.

    Raises:
        IncompleteError: If no GPU is found, or torch cannot use it.
    """

    def __init__(
        self,
        worker: str,
        purpose: str,
        device: str,
        seconds: float,
        variables: tuple[str, ...] = (),
    ) -> None:
        torch = torch_folder()
        if torch is None:
            raise IncompleteError(f"{purpose} needs a GPU: install torch with CUDA beside flacheck")
        (choice,) = toolchains.resolve(["installed"]).choices
        self._config = dict(toolchains.provide(choice).worker_config())
        self._config |= {"worker": worker, "corpus": str(find_shipped_folder("kernels"))}
        self._config |= {"torch": torch, "device": device, "recycle_mb": _RESIDENT_MB}
        # The GPU's driver needs devices and files that are not documented.
        self._config["confinement"] = policies.OWN
        self._name = f"{choice.identity} on the card"
        self._variables = (*PASSED_ON, *variables)
        self._pool = LocalPool(1, lambda task: seconds)
        with contextlib.ExitStack() as stack:
            stack.callback(self._pool.close)
            self.card = self._card(purpose)
            stack.pop_all()

    def __enter__(self) -> CardWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def run(self, request: Json) -> Attempt:
        """Run one request; two at once on a GPU would slow each other down."""
        environment = {name: os.environ[name] for name in self._variables if name in os.environ}
        self._pool.submit([Task(0, WorkerKind(self._name, self._config, environment), request)])
        batches = list(self._pool.results())
        (attempt,) = [attempt for batch in batches for _, attempt in batch]
        return attempt

    def _card(self, purpose: str) -> Card:
        attempt = self.run({"op": "device"})
        if attempt.outcome is not Outcome.FINISHED or attempt.facts["name"] is None:
            last = attempt.log.strip().splitlines()[-1:] or ["torch.cuda.is_available() is False"]
            raise IncompleteError(f"{purpose} needs a GPU that torch can use: {last[0]}")
        facts = attempt.facts
        return Card(facts["name"], facts["triton"], facts["torch"])


def failure_of(attempt: Attempt) -> str:
    """Return the failure of an attempt in one line."""
    if attempt.outcome is Outcome.TIMED_OUT:
        return f"it had not ended after {attempt.seconds:.0f} s"
    lines = attempt.log.strip().splitlines()
    errors = [line for line in lines if _ERROR.fullmatch(line)]
    if not lines:
        return f"it ended its worker ({attempt.signal or attempt.exit_code})"
    return (errors or lines)[-1]
