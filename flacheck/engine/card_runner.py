"""The runner of binaries in a worker process, which a launch may fault or hang."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flacheck.engine import policies
from flacheck.engine.executors import LocalPool, Task
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import IncompleteError
from flacheck.model import Attempt, Json, Outcome, digest
from flacheck.toolchains import cache

BINDING = "cuda.bindings.driver"
INSTALL = "pip install 'flacheck[card]'"
# The variables that the CUDA driver reads; the worker gets only these.
_PASSED_ON = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES")
# High, because a new worker has to begin a context of the GPU.
_RESIDENT_MB = 64_000


class NoCard(IncompleteError):
    """No GPU can be used here; the message is the reason."""


class CardRunner:
    """A worker on the first GPU, inside of a `with` statement.

    Args:
        seconds: The time limit of a launch with all its binaries.
        folder: The folder for the files of requests.
        binding: The module of NVIDIA's driver, and the folder from which it is imported.

    Raises:
        NoCard: If there is no GPU, or no binding to use it.
        IncompleteError: If another runner uses the GPU: each would disturb the other's times.
    """

    def __init__(
        self, seconds: float, folder: Path, binding: tuple[str, str] | None = None
    ) -> None:
        name, path = binding or (BINDING, _binding_folder())
        config = {"path": [path], "identity": "cuda", "worker": "card_runner", "binding": name}
        # The driver needs devices and files that are not documented.
        limits = {"confinement": policies.OWN, "recycle_mb": _RESIDENT_MB}
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._kind = WorkerKind("the runner on the card", {**config, **limits}, environment)
        self._folder = folder
        self._pool = LocalPool(1, lambda task: seconds)
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> CardRunner:
        with self._exits as stack:
            stack.enter_context(_only_runner())
            stack.callback(self._pool.close)
            attempt = self._submit({"op": "device"})
            if attempt.outcome is not Outcome.FINISHED:
                lines = attempt.log.strip().splitlines() or ["the driver does not answer"]
                raise NoCard(lines[-1])
            self.card: Mapping[str, Any] = attempt.facts
            self._exits = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def measure(self, launch: Json, config: Json) -> Attempt:
        """Run a launch's binaries; a launch that ends the worker is an attempt too."""
        file = self._folder / "launch.json"
        file.write_text(json.dumps(launch))
        return self._submit({"op": "measure", "launch_file": str(file), "config": config})

    def _submit(self, request: Json) -> Attempt:
        self._pool.submit([Task(0, self._kind, request)])
        batches = list(self._pool.results())
        (attempt,) = [attempt for batch in batches for _, attempt in batch]
        return attempt


@contextlib.contextmanager
def _only_runner() -> Iterator[None]:
    """Hold the user's lock of the visible GPUs of this machine."""
    name = digest([platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")], 16)
    file = cache.root() / f"gpu-{name}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IncompleteError(
                "another measurement uses the GPU, and both would be wrong about times: run this "
                "one after it, or set CUDA_VISIBLE_DEVICES to another GPU"
            ) from None
        yield


def _binding_folder() -> str:
    """Return the folder from which NVIDIA's binding is imported."""
    try:
        spec = importlib.util.find_spec("cuda.bindings")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise NoCard(f"NVIDIA's cuda-bindings is not installed; {INSTALL}")
    return str(Path(next(iter(spec.submodule_search_locations))).parent.parent)
