"""A Dask scheduler with one worker of two threads, each a process, as a site starts them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

# The seconds that a process may take to start on a loaded machine.
_START = 60.0


@contextlib.contextmanager
def serving(
    folder: Path, protocol: str = "tcp", variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the scheduler's address and process; `variables` join both environments."""
    file = folder / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []

    def start(program: str, *options: str) -> None:
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *options]
                + ["--scheduler-file", str(file), "--no-dashboard"],
                env={**os.environ, **(variables or {})},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    try:
        start("dask_scheduler", "--protocol", protocol, "--host", "127.0.0.1", "--port", "0")
        address = _address_in(file)
        start("dask_worker", "--nthreads", "2")
        yield address, processes[0]
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(20)


def _address_in(file: Path) -> str:
    """Return the address in a scheduler's file, once the file is whole."""
    end = time.monotonic() + _START
    while True:
        # Dask makes the file first and writes it then.
        with contextlib.suppress(FileNotFoundError, ValueError):
            return str(json.loads(file.read_text())["address"])
        if time.monotonic() > end:
            raise TimeoutError(f"the scheduler has not written {file} after {_START:.0f} s")
        time.sleep(0.05)
