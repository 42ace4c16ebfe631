"""The CPU time of a worker with the programs that it ran."""

from __future__ import annotations

import os


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
