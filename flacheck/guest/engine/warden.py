"""A warden that watches one program for flacheck.

It ends the program with all its children when flacheck dies, when they use too much memory, or
when the time is over:

    flacheck ──pipe──▶ warden ──▶ the program ──▶ whatever it starts
             ◀─report──┘

The pipe closes when flacheck ends for any reason. The program dies with the warden. A process that
outlives its own parent becomes the warden's child, so no process escapes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from .confinement import Confinement

# Options of prctl, from linux/prctl.h: the signal at the parent's death, and the adoption of
# orphans.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# Seconds between two checks of memory and clock.
_PAUSE = 0.25
_PAGE_MB = resource.getpagesize() / (1 << 20)
# The size limit of each file that the program writes.
_FILE_BYTES = 4 << 30


def main() -> None:
    """Run as the warden; the config is the first line of the standard input.

    `command` is run in `folder` with its output in `log`. `memory_mb` limits the memory of the
    program and its children, `seconds` its time. `pipe` closes when flacheck is gone, and takes the
    report. `confinement` is the program's policy or None.
    """
    # The end of the input may come late: another process can hold the pipe.
    config: dict[str, Any] = json.loads(sys.stdin.readline())
    # The program has no input.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    me = os.getpid()
    child = os.fork()
    if child == 0:
        _become(config, libc, me)
    report = _watch(child, config)
    _end(child)
    with contextlib.suppress(OSError):
        os.write(config["pipe"], json.dumps(report).encode())


def _become(config: dict[str, Any], libc: Any, warden: int) -> None:
    """Become the program; never return."""
    try:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # If the warden died before that call, the signal never comes.
        if os.getppid() != warden:
            os._exit(126)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(config["pipe"])
        log = os.open(config["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        # This also ends processes that a signal does not reach, and endless restarts.
        seconds = int(config["seconds"]) * 4 + 60
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.chdir(config["folder"])
        if config["confinement"] is not None:
            Confinement(config["confinement"]).enter()
        os.execve(config["command"][0], config["command"], config["environment"])
    finally:
        os._exit(127)


def _watch(child: int, config: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of the program, or for a reason to end it; return the report."""
    end = time.monotonic() + config["seconds"]
    pipe = config["pipe"]
    descriptors = [pipe]
    # Kernels before 5.3 lack pidfds: then the child is checked every _PAUSE.
    with contextlib.suppress(OSError):
        descriptors.append(os.pidfd_open(child))
    report: dict[str, Any] = {"exit_code": None, "signal": None, "over": None, "peak_mb": 0.0}
    while True:
        ended_pid, status, _ = os.wait4(child, os.WNOHANG)
        if ended_pid:
            if os.WIFSIGNALED(status):
                report["signal"] = signal.Signals(os.WTERMSIG(status)).name
            else:
                report["exit_code"] = os.WEXITSTATUS(status)
            return report
        used_mb = sum(_resident_mb(pid) for pid in _below(os.getpid()))
        report["peak_mb"] = max(report["peak_mb"], used_mb)
        if used_mb > config["memory_mb"]:
            report["over"] = "memory"
            return report
        if time.monotonic() > end:
            report["over"] = "time"
            return report
        # flacheck never writes to the pipe, so a readable pipe means that flacheck is gone.
        if pipe in select.select(descriptors, [], [], _PAUSE)[0]:
            report["over"] = "parent"
            return report


def _end(child: int) -> None:
    """Kill all remaining processes, also those that start meanwhile."""
    while True:
        remaining = list(_below(os.getpid()))
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _below(pid: int) -> Iterator[int]:
    """Yield all processes below this one."""
    for thread in _names(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
            for child in map(int, file.read().split()):
                yield child
                yield from _below(child)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _resident_mb(pid: int) -> float:
    """Return the resident memory that the process does not share, in MB."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
        return max(resident - shared, 0) * _PAGE_MB
    return 0.0
