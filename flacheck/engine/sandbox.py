"""One worker and its warm server, from flacheck's side: start, requests, events.

Whatever a compiler does to its process (abort, fault, hang, exhaust memory, leave an assembler
running) becomes an event here, never an exception.
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

from flacheck.engine import policies
from flacheck.guest.engine import channel, confinement
from flacheck.model import Json, digest
from flacheck.toolchains.scratch import make_folder

# The fields of each event with their types. They are checked, because any code in a worker can
# write to its socket.
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
    if fields is None:
        return False
    return all(isinstance(event.get(name), types) for name, types in fields.items())


def _state_and_parent(pid: int) -> tuple[str, int | None]:
    """Return the state of a process (`T` stopped, `Z` not yet reaped) and its parent.

    For a process that does not exist they are "" and None.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", None
    # The name is in parentheses and may contain any character.
    state, parent, *_ = status.rpartition(")")[2].split()
    return state, int(parent)


def waiting_seconds(pid: int) -> float:
    """Return the seconds that a process and its living children waited for a free processor.

    A kernel without scheduler statistics counts none.
    """
    seconds = 0.0
    with contextlib.suppress(OSError, ValueError, IndexError):
        seconds += int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            seconds += waiting_seconds(int(child))
    return seconds


@dataclass(frozen=True)
class WorkerKind:
    """The content of a warm process: one compiler, one set of packages, one Python.

    `config` is the guest's configuration: `path` (folders for its imports), `identity` of the
    compiler, `worker` (the guest's module) or `worker_file`, `packages` (name → folder), `corpus`
    (folder), `memory_mb` (limit of its address space), `confinement` (a policy that replaces the
    derived one). `environment` adds to the allow-list. `needs_mb` is the memory that must be free
    for one such worker, 0 if it needs little. `recipe` makes the same kind on another machine; None
    if its folders are there too.
    """

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    needs_mb: int = 0
    recipe: Any = field(default=None, compare=False)

    @property
    def key(self) -> str:
        config, environment = dict(self.config), dict(self.environment)
        return digest([self.name, config, environment, self.python])

    def __hash__(self) -> int:
        return hash(self.key)


class Worker:
    """A running server. `send` takes requests, `receive` returns events."""

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
        # The worker must not read the variables of this process.
        confinement.hide()
        policy = policies.of_worker(self.kind.config, self.scratch)
        own = {"scratch": self.scratch, "confinement": policy}
        config = json.dumps({**own, **self.kind.config})
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
        """Return an allow-list: a user's LD_PRELOAD or TRITON_PTXAS_PATH would falsify keys."""
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
        """Send a request; return False if it does not fit or the OS is out of memory."""
        try:
            channel.send(self._socket, request, fresh, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError):
            # The next event reports the end of the server.
            return True
        except OSError:
            return False
        return True

    def receive(self) -> Json:
        """Wait for the next event and return it.

        It is `ready`, `broken`, `hello`, `answer`, `exit`, `garbled` for anything else, or `gone`
        if the server is dead.
        """
        try:
            event = channel.receive(self._socket) or {"event": "gone"}
        except (channel.Garbled, OSError) as error:
            return {"event": "garbled", "log": str(error)}
        if not _is_event(event):
            return {"event": "garbled", "log": f"a malformed event: {str(event)[:200]}"}
        if event["event"] == "hello":
            # The process id is checked, so that flacheck kills no other process.
            if _state_and_parent(event["pid"])[1] == self._server.pid:
                self._child = event["pid"]
        elif event["event"] == "exit":
            self._child = None
        elif event["event"] == "gone":
            self.kill()
        return event

    def has_event(self) -> bool:
        """Return True if `receive` would return at once."""
        readable, _, _ = select.select([self._socket], [], [], 0)
        return bool(readable)

    def waiting_seconds(self) -> float:
        """Return the seconds that the worker and its programs waited for a free processor."""
        if self._child is None:
            return 0.0
        return waiting_seconds(self._child)

    def is_unreported(self) -> bool:
        """Return True if the worker is dead and its stopped server cannot report it."""
        if self._child is None or _state_and_parent(self._server.pid)[0] != "T":
            return False
        return _state_and_parent(self._child)[0] in ("Z", "")

    def kill(self) -> None:
        """End the worker with all its children; the server goes on and reports the end."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)

    def end(self) -> None:
        """End worker and server at once, even if they are stopped."""
        self.kill()
        self._server.kill()

    def close(self) -> None:
        """End worker and server, and wait until both are gone."""
        self._socket.close()
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            self._server.kill()
            self._server.wait()
        self._folder.remove()
