"""Watches over one program for flacheck: ends it, with all that it started, when flacheck dies,
when it holds too much memory, or when its time is over.

    flacheck ──pipe──▶ warden ──▶ the program ──▶ whatever it starts
             ◀─report──┘

The pipe closes with flacheck, however it ends. The program dies with the warden, and what outlives
its own parent becomes the warden's child, so nothing gets away.
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

# prctl options, from linux/prctl.h: the signal at the parent's death; to adopt orphans.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# Seconds between two looks at memory and clock.
_PAUSE = 0.25
_PAGE_MB = resource.getpagesize() / (1 << 20)
# Bounds each file that the program writes.
_FILE_BYTES = 4 << 30


def main() -> None:
    """Run as the warden: the config is the process's argument. `command` is run in `folder` with
    its output in `log`; `memory_mb` bounds what it and all it starts hold, `seconds` its time;
    `pipe` closes when flacheck is gone, and takes the report; `confinement` is the program's
    policy, if it has one."""
    config: dict[str, Any] = json.loads(sys.argv[1])
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
    """Never returns: the forked process becomes the program."""
    try:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The warden may have died before that call: then no signal comes.
        if os.getppid() != warden:
            os._exit(126)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(config["pipe"])
        log = os.open(config["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        # Bounds what no signal reaches, and what starts anew without end.
        seconds = int(config["seconds"]) * 4 + 60
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.chdir(config["folder"])
        if config["confinement"] is not None:
            Confinement(config["confinement"]).enter()
        os.execve(config["command"][0], config["command"], config["environment"])
    finally:
        os._exit(127)


def _watch(child: int, config: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end, whoever makes it."""
    end = time.monotonic() + config["seconds"]
    pipe = config["pipe"]
    watched = [pipe]
    # Kernels before 5.3 have no such descriptor: then the child is looked at every _PAUSE.
    with contextlib.suppress(OSError):
        watched.append(os.pidfd_open(child))
    report: dict[str, Any] = {"exit_code": None, "signal": None, "over": None, "peak_mb": 0.0}
    while True:
        ended, status, _ = os.wait4(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                report["signal"] = signal.Signals(os.WTERMSIG(status)).name
            else:
                report["exit_code"] = os.WEXITSTATUS(status)
            return report
        held = sum(_resident_mb(pid) for pid in _below(os.getpid()))
        report["peak_mb"] = max(report["peak_mb"], held)
        if held > config["memory_mb"]:
            report["over"] = "memory"
            return report
        if time.monotonic() > end:
            report["over"] = "time"
            return report
        # Nothing is ever written into it: readable means that flacheck is gone.
        if pipe in select.select(watched, [], [], _PAUSE)[0]:
            report["over"] = "parent"
            return report


def _end(child: int) -> None:
    """Kill all that is left, also what was started while that went on."""
    while True:
        left = list(_below(os.getpid()))
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _below(pid: int) -> Iterator[int]:
    """All processes below this one."""
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
    """What the process holds and does not share."""
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
        return max(resident - shared, 0) * _PAGE_MB
    return 0.0
