"""A command's cost: processor seconds over all its processes, wall seconds, and its own peak
memory.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    cpu: float
    wall: float
    peak_mb: float
    exit_code: int


def cost(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end. Descendants count when their parents waited for them, as flacheck's
    do.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(
            f"{' '.join(command[:4])} … ended with {process.returncode}:\n{text.decode()[-2000:]}"
        )
    wall = time.monotonic() - start
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, process.returncode)
