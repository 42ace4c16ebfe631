"""One worker and its warm server, seen from flacheck's side: start it, ask it, survive it.

Everything a compiler can do to its process (abort, fault, hang, eat memory, leave an assembler
running) ends here as an event, never as an exception.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flacheck.guest.engine import channel
from flacheck.model import Json, digest
from flacheck.toolchains.scratch import make_folder

# The fields of each event, and their types: whatever runs in a worker could write to its socket.
_EVENTS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "ready": {"pid": (int,)},
    "broken": {"log": (str,)},
    "hello": {"pid": (int,)},
    "answer": {"request": (int,), "attempt": (dict,)},
    "exit": {
        "request": (int,),
        "done": (int,),
        "stage": (str, type(None)),
        "signal": (str, type(None)),
        "exit_code": (int, type(None)),
        "log": (str,),
        "peak_mb": (int, float),
    },
    "gone": {},
}


def _is_event(event: Json) -> bool:
    fields = _EVENTS.get(str(event.get("event")))
    return fields is not None and all(
        isinstance(event.get(name), types) for name, types in fields.items()
    )


def _state_and_parent(pid: int) -> tuple[str, int | None]:
    """A process's state (`T` stopped, `Z` dead and not yet reported) and its parent; nothing of one
    that is not there."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", None
    # The name stands in parentheses and may hold anything.
    state, parent, *_ = status.rpartition(")")[2].split()
    return state, int(parent)


@dataclass(frozen=True)
class WorkerKind:
    """What a warm process holds: one compiler, one set of packages, one Python.

    `config` is what the guest is told: `path` (folders for its imports), `identity` of the
    compiler, `worker` (the guest's module) or `worker_file`, `packages` (name → folder), `corpus`
    (folder), `memory_mb` (limit of its address space). `environment` adds to the allow-list.
    `needs_mb` is the memory that has to be free for one such worker, 0 where it takes little.
    """

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    needs_mb: int = 0

    @property
    def key(self) -> str:
        return digest([self.name, dict(self.config), dict(self.environment), self.python])

    def __hash__(self) -> int:
        return hash(self.key)


class Worker:
    """A running server. Requests go in with `send`; `events` gives what came back since."""

    def __init__(self, kind: WorkerKind) -> None:
        self.kind = kind
        self._folder = make_folder()
        self.scratch = self._folder.path
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.BUFFER)
        self._child: int | None = None
        try:
            with theirs:
                self._server = self._start(theirs)
        except OSError:
            self._socket.close()
            self._folder.remove()
            raise

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        config = json.dumps({**self.kind.config, "scratch": self.scratch})
        boot = ["-I", "-S", "-c", channel.BOOT, channel.GUEST, ".engine.server"]
        return subprocess.Popen(
            [self.kind.python, *boot, config, str(theirs.fileno())],
            env=self._environment(),
            cwd=self.scratch,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        """An allow-list: a user's TRITON_PTXAS_PATH or LD_PRELOAD would falsify every key."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": self.scratch,
            "TMPDIR": self.scratch,
            "PYTHONHASHSEED": "0",
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_CACHE_DIR": self.scratch,
            **self.kind.environment,
        }

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, request: Json, fresh: bool = False) -> bool:
        """False when no more fits, or the system has nothing left to send it with: nothing was
        sent."""
        try:
            channel.send(self._socket, request, fresh, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError):
            # The next event says that the server is gone.
            return True
        except OSError:
            return False
        return True

    def receive(self) -> Json:
        """Wait for the next event: `ready`, `broken`, `hello`, `answer`, `exit`, `garbled` for what
        is none of these, or `gone` when the server is dead."""
        try:
            event = channel.receive(self._socket) or {"event": "gone"}
        except (channel.Garbled, OSError) as error:
            return {"event": "garbled", "log": str(error)}
        if not _is_event(event):
            return {"event": "garbled", "log": f"an event of no known form: {str(event)[:200]}"}
        if event["event"] == "hello":
            # Whoever says so: no other process is ever killed.
            if _state_and_parent(event["pid"])[1] == self._server.pid:
                self._child = event["pid"]
        elif event["event"] == "exit":
            self._child = None
        elif event["event"] == "gone":
            self.kill()
        return event

    def has_event(self) -> bool:
        """Whether `receive` would return at once."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def is_unreported(self) -> bool:
        """Whether the worker is dead, and its server was stopped and cannot say so."""
        if self._child is None or _state_and_parent(self._server.pid)[0] != "T":
            return False
        return _state_and_parent(self._child)[0] in ("Z", "")

    def kill(self) -> None:
        """End the worker at once, with all that it started; the server lives on and reports it."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)

    def end(self) -> None:
        """End worker and server at once, also those that are stopped."""
        self.kill()
        self._server.kill()

    def close(self) -> None:
        """End worker and server; returns when both are gone."""
        self._socket.close()
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            self._server.kill()
            self._server.wait()
        self._folder.remove()
