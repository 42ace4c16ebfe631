"""Programs that flacheck starts beside its workers.

Each program runs in its own environment within limits. It and its children end when flacheck ends.
"""

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
from typing import Any

from flacheck.files import GuestFolder
from flacheck.guest.engine import channel, confinement
from flacheck.guest.engine.confinement import Policy

# Seconds between two progress messages about a running program.
_HEARTBEAT = 8.0
# Seconds between two checks of the stop event.
_PAUSE = 0.5
# Seconds that a warden has in addition to its program's time.
_GRACE = 5.0


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a program: an exit code, a signal, or the limit in `over` that stopped it.

    `over` is "memory" or "time". All three are None if the warden itself was killed.
    """

    exit_code: int | None = None
    signal: str | None = None
    over: str | None = None
    peak_mb: float = 0.0

    @property
    def how(self) -> str:
        """The end in words, for a message."""
        if self.over == "memory":
            return f"it used {self.peak_mb:,.0f} MB, more than its limit"
        if self.over == "time":
            return "it ran out of time"
        if self.signal:
            return f"{self.signal} ended it"
        if self.exit_code is None:
            return "its warden was killed"
        return f"exit status {self.exit_code}"


def environment(scratch: str | Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program: an allow-list and `more`.

    The user's own variables stay out, above all secrets.
    """
    folder = str(scratch)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        **(more or {}),
    }


def guest_arguments(module: str, config: Mapping[str, Any], folder: Path) -> list[str]:
    """Return Python's arguments for the `main` of a module of the guest.

    The config is written to the folder, because the names of a large package's modules exceed what
    Linux accepts as one argument.
    """
    file = GuestFolder(folder).write_new(f"config{module}.json", json.dumps(config))
    return ["-c", channel.BOOT, channel.GUEST, module, str(file)]


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
    """Run Python with arguments in a folder until it ends, with its output in `log`.

    `memory_mb` limits the resident memory of the program and its children. `policy` confines the
    program; None leaves it the user's rights. `beat` is called every few seconds with the elapsed
    seconds. Setting `stop` ends the program.
    """
    # The program must not read the variables of this process.
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
                [sys.executable, *boot],
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert warden.stdin is not None
            # A warden that could not start reads nothing, and makes no report.
            with contextlib.suppress(BrokenPipeError), warden.stdin:
                warden.stdin.write(json.dumps(config).encode() + b"\n")
        try:
            return _report(mine, seconds + _GRACE, beat, stop or threading.Event())
        finally:
            # The warden ends when the socket closes, with all processes that it watches.
            mine.close()
            try:
                warden.wait(_GRACE)
            except subprocess.TimeoutExpired:
                warden.kill()
                warden.wait()


def _report(
    sock: socket.socket, patience: float, beat: Callable[[float], object], stop: threading.Event
) -> ProgramEnd:
    start = time.monotonic()
    last_beat = 0.0
    while not stop.is_set():
        duration = time.monotonic() - start
        if duration >= patience:
            break
        if select.select([sock], [], [], _PAUSE)[0]:
            with contextlib.suppress(ValueError, OSError, TypeError):
                return ProgramEnd(**json.loads(sock.recv(4096)))
            return ProgramEnd()
        if duration - last_beat > _HEARTBEAT:
            last_beat = duration
            beat(duration)
    # The program was stopped, or the warden is stopped and does not enforce the time.
    return ProgramEnd(over="time")
