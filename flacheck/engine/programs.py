"""Programs that flacheck starts beside its workers: in an environment of their own, within limits,
ended with all that they started when flacheck ends, however that is."""

import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flacheck.guest.engine import channel, confinement
from flacheck.guest.engine.confinement import Policy

# Seconds between two words on a program that is at work.
_HEARTBEAT = 10.0
# Seconds between two looks at whether it is to stop.
_PAUSE = 0.5
# Seconds that a warden has beyond its program's time.
_GRACE = 5.0


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended: with an exit code, by a signal, or stopped as `over` says ("memory",
    "time"); all None when its warden was killed."""

    exit_code: int | None = None
    signal: str | None = None
    over: str | None = None
    peak_mb: float = 0.0

    @property
    def how(self) -> str:
        """In words, for a message."""
        if self.over == "memory":
            return f"it held {self.peak_mb:,.0f} MB, more than it may"
        if self.over == "time":
            return "its time was over"
        if self.signal:
            return f"{self.signal} ended it"
        if self.exit_code is None:
            return "somebody ended it"
        return f"exit status {self.exit_code}"


def environment(scratch: str | Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An allow-list: what a user's own variables say is none of a program's business, secrets least
    of all."""
    folder = str(scratch)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        **(more or {}),
    }


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    *,
    seconds: float,
    memory_mb: int,
    policy: Policy | None,
    beat: Callable[[float], object] = lambda seconds: None,
    python: str = sys.executable,
    stop: threading.Event | None = None,
) -> ProgramEnd:
    """Run a Python, this one by default, with arguments in a folder until it ends, its output in
    `log`.

    `memory_mb` bounds what it and all that it starts hold (resident, for some reserve far more than
    they use); `policy` confines it, None leaves it all that its user can do; `beat` is called every
    few seconds with the seconds passed; `stop`, when it is set, ends the program.
    """
    # Whatever runs there shall not read the variables of this process.
    confinement.hide()
    mine, theirs = socket.socketpair()
    with mine:
        with theirs:
            config = {
                "command": [python, *arguments],
                "environment": dict(environment),
                "folder": str(folder),
                "log": str(log),
                "seconds": seconds,
                "memory_mb": memory_mb,
                "confinement": policy,
                "pipe": theirs.fileno(),
            }
            boot = ["-I", "-S", "-c", channel.BOOT, channel.GUEST, ".engine.warden"]
            warden = subprocess.Popen(
                [sys.executable, *boot, json.dumps(config)],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            return _report(mine, seconds + _GRACE, beat, stop or threading.Event())
        finally:
            # It ends when the socket closes, with all that it watches.
            mine.close()
            try:
                warden.wait(_GRACE)
            except subprocess.TimeoutExpired:
                warden.kill()
                warden.wait()


def _report(
    sock: socket.socket, patience: float, beat: Callable[[float], object], stop: threading.Event
) -> ProgramEnd:
    started = time.monotonic()
    spoken = 0.0
    while (passed := time.monotonic() - started) < patience and not stop.is_set():
        if select.select([sock], [], [], _PAUSE)[0]:
            with contextlib.suppress(ValueError, OSError, TypeError):
                return ProgramEnd(**json.loads(sock.recv(4096)))
            return ProgramEnd()
        if passed - spoken > _HEARTBEAT:
            spoken = passed
            beat(passed)
    # Stopped; or the warden is, and keeps no time.
    return ProgramEnd(over="time")
