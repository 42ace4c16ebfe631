"""A warm process that forks workers and outlives them.

flacheck talks to whatever process reads the socket: the worker forked last. The server itself
only forks one when a request waits and none lives, watches it, and says how it ended:

    flacheck ──request──▶ socket ──▶ worker (compiles request after request)
             ◀──answer───────────────┘ │ dies
             ◀──"exit", status, stage, log── server ── forks the next

So a plain compile pays no fork, and a crash pays one fork and no new start of the compiler.
When flacheck dies, the socket closes; the server then kills the worker's whole process group
and ends, and so does the worker when the server dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any

from . import channel
from .confinement import Confinement
from .loader import module_from
from .log import Log
from .messages import CompilerWorker, Reply, Request, WorkerConfig

# Exit codes of a worker: it ended on purpose; it could not be heard any more, for a compiler closed
# its socket. 1 is that of one that did not get as far as work.
RECYCLE, UNHEARD = 75, 76
_POLL_MS = 200
# A prctl option, from linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
# Bounds each file that a worker writes. The log is one, in memory: a compiler that prints without
# end is stopped here. A program that it starts may be given more, for what it writes to the disk.
_LOG_BYTES, _FILE_BYTES = 64 << 20, 4 << 30
# Compilers keep some memory of every compile. Where the config names no size, this ends the worker
# before a machine with many of them is short of memory.
_RECYCLE_MB = 2_000
# The request in work, how many were finished, the stage reached.
_PAGE = struct.Struct("qq32s")


class SharedPage:
    """A page of memory that outlives the worker writing it: which request, which stage, how many
    done. The compiler may take its process down at any instruction, so what the worker was doing is
    written where the server still sees it. Writing costs no system call."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._request, self._done = -1, 0
        self.stage("")

    @property
    def fresh(self) -> bool:
        """Whether the worker has finished nothing yet."""
        return self._done == 0

    def begin(self, request: int) -> None:
        """A request begins: with the import of its kernel."""
        self._request = request
        self.stage("import")

    def stage(self, name: str) -> None:
        _PAGE.pack_into(self._memory, 0, self._request, self._done, name.encode()[:32])

    def finish(self) -> None:
        self._request = -1
        self._done += 1
        self.stage("")

    def read(self) -> tuple[int, int, str]:
        """The request in work (-1: none), how many were finished, the stage reached."""
        request, done, stage = _PAGE.unpack_from(self._memory, 0)
        return request, done, stage.rstrip(b"\0").decode()


def main() -> None:
    """Run as the server: the config and the socket's number are the process's arguments."""
    config: WorkerConfig = json.loads(sys.argv[1])
    config["server_pid"] = os.getpid()
    sock = socket.socket(fileno=int(sys.argv[2]))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.BUFFER)
    sys.path += config["path"]
    log = Log()
    log.take_streams()
    try:
        confinement = Confinement(config["confinement"])
        # One of our workers by its module's name, or a file's.
        if "worker_file" in config:
            module = module_from(config["worker_file"], f"{__package__}.custom_worker")
        else:
            module = importlib.import_module("..workers." + config["worker"], __package__)
        worker: CompilerWorker = module.Worker(config)
    except BaseException:  # whatever the compiler's own import does is an answer, not our crash
        traceback.print_exc()
        channel.send(sock, {"event": "broken", "log": log.text(config["scratch"])})
        return
    channel.send(sock, {"event": "ready", "pid": os.getpid()})
    # A collection would write to every page that the workers share with this process.
    gc.collect()
    gc.freeze()
    _serve(sock, worker, config, log, confinement)


def _serve(
    sock: socket.socket,
    worker: CompilerWorker,
    config: WorkerConfig,
    log: Log,
    confinement: Confinement,
) -> None:
    """Fork a worker whenever a request waits and none lives, until flacheck is gone."""
    while _waiting(sock):
        page = SharedPage()
        log.clear()
        pid = os.fork()
        if pid == 0:
            _become_worker(sock, worker, config, page, log, confinement)
        alive = _watch(pid, sock)
        # What the worker started (an assembler that never ends) goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        if not alive:
            break
        peak_mb = usage.ru_maxrss / 1024
        obituary = _obituary(pid, status, page)
        said = log.text(config["scratch"])
        channel.send(sock, {**obituary, "log": said, "peak_mb": peak_mb})
    shutil.rmtree(config["scratch"], ignore_errors=True)


def _waiting(sock: socket.socket) -> bool:
    """Block until a request waits; False when flacheck is gone."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except ConnectionResetError:
        return False


def _watch(pid: int, sock: socket.socket) -> bool:
    """Wait for the worker's end, leaving it to be reaped; False when flacheck went first."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    pause: int | None = None
    try:
        child = os.pidfd_open(pid)
        poll.register(child, select.POLLIN)
    except OSError:  # kernels before 5.3 have no such descriptor: look every _POLL_MS instead
        child, pause = -1, _POLL_MS
    try:
        while True:
            events = dict(poll.poll(pause))
            if events.get(sock.fileno(), 0) & (select.POLLRDHUP | select.POLLHUP):
                return False
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                return True
    finally:
        if child != -1:
            os.close(child)


def _obituary(pid: int, status: int, page: SharedPage) -> dict[str, Any]:
    """How a worker ended: by a `signal` or with an `exit_code`, and in the middle of what."""
    request, done, stage = page.read()
    event: dict[str, Any] = {"event": "exit", "pid": pid, "request": request, "done": done}
    event |= {"stage": stage or None, "signal": None, "exit_code": None}
    if os.WIFSIGNALED(status):
        event["signal"] = signal.Signals(os.WTERMSIG(status)).name
    else:
        event["exit_code"] = os.WEXITSTATUS(status)
    return event


def _become_worker(
    sock: socket.socket,
    worker: CompilerWorker,
    config: WorkerConfig,
    page: SharedPage,
    log: Log,
    confinement: Confinement,
) -> None:
    """Never returns: the forked process works until it is told to stop, is too big, or dies."""
    code = 1
    try:
        os.setpgid(0, 0)
        # Python would make an exception of it, which would pass for the compiler's.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The server may have died before that call: then no signal comes.
        if os.getppid() != config["server_pid"]:
            os._exit(RECYCLE)
        # A core file is of no use to anybody.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LOG_BYTES, _FILE_BYTES))
        if config.get("memory_mb"):
            limit = config["memory_mb"] << 20
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        # Only now: the server imported the compiler alone, the worker gets other people's code.
        confinement.enter()
        channel.send(sock, {"event": "hello", "pid": os.getpid()})
        _work(sock, worker, config, page, log)
        code = RECYCLE
    finally:
        os._exit(code)


def _work(
    sock: socket.socket, worker: CompilerWorker, config: WorkerConfig, page: SharedPage, log: Log
) -> None:
    """Answer request after request, until the next one is for another worker."""
    while page.fresh or not channel.needs_fresh_worker(sock):
        # Only looked at until the page names it: a worker that dies here loses no request.
        message = channel.receive(sock, socket.MSG_PEEK)
        if message is None:
            return
        request: Request = message  # type: ignore[assignment]
        log.clear()
        page.begin(request["id"])
        channel.take(sock)
        _limit_cpu(request.get("timeout"))
        answer = _attempt(worker, request, page, log)
        event = {"event": "answer", "request": request["id"], "pid": os.getpid()}
        try:
            # A compiler that closes the socket may have closed the log as well.
            answer["log"] = _told(answer, log, config["scratch"])
            channel.send(sock, {**event, "attempt": answer})
        except OSError:
            os._exit(UNHEARD)
        # Not before: a request is done when its answer is on its way.
        page.finish()
        if _resident_mb() > config.get("recycle_mb", _RECYCLE_MB):
            return


def _told(answer: Reply, log: Log, scratch: str) -> str:
    """Return the log that goes with an answer, none with a finished compile.

    A compiler may print an error, go on, and return a broken kernel: LLVM does so for inline
    assembly under Triton 3.8.0 and 3.9.0. The answer becomes a failure in the error's stage.
    """
    if answer["outcome"] != "finished":
        return log.text(scratch)
    stage = log.error_stage()
    if stage is None:
        return ""
    answer["outcome"], answer["stage"] = "raised", stage
    return log.native_text(scratch)


def _attempt(worker: CompilerWorker, request: Request, page: SharedPage, log: Log) -> Reply:
    """One request, whatever happens; the only place that catches everything."""

    def mark(stage: str) -> None:
        page.stage(stage)
        log.note_stage(stage)

    started, cpu = time.perf_counter(), _cpu()
    # The peak begins anew; where a sandbox refuses, it is that of the worker's life.
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    answer: Reply = {"outcome": "finished"}
    try:
        answer.update(worker.run(request, mark))
    except BaseException as error:
        traceback.print_exc()
        answer["outcome"], answer["exception"] = "raised", _chain(error)
        answer["tolerated"] = worker.tolerates(error)
        answer["facts"] = getattr(error, "facts", {})
        answer["resources"] = getattr(error, "resources", {})
    answer.setdefault("stage", page.read()[2])
    answer.setdefault("seconds", time.perf_counter() - started)
    answer["cpu_seconds"] = _cpu() - cpu
    # A worker whose compiler is a program of its own knows that program's peak.
    answer.setdefault("peak_mb", _peak_mb())
    return answer


def _chain(error: BaseException) -> list[str]:
    """The class names of an exception and of its causes, outermost first."""
    names = []
    current: BaseException | None = error
    while current is not None:
        names.append(type(current).__name__)
        if current.__cause__ is None and not current.__suppress_context__:
            current = current.__context__
        else:
            current = current.__cause__
    return names


def _cpu() -> float:
    """Seconds of processor time, of the assemblers that ended too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _limit_cpu(seconds: float | None) -> None:
    """Bounds an orphaned assembler even when every process that could kill it is dead."""
    if seconds:
        # Twice the time-out and a little: a living flacheck ends the worker first, by the clock.
        soft = int(_cpu() + 2 * seconds) + 10
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _peak_mb() -> float | None:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)
