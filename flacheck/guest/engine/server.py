"""A warm process that forks workers and outlives them.

flacheck sends requests to the process that reads the socket: the worker forked last. The server
itself forks a worker when a request waits and no worker lives, watches it, and reports its end:

    flacheck ──request──▶ socket ──▶ worker (compiles request after request)
             ◀──answer───────────────┘ │ dies
             ◀──"exit", status, stage, log── server ── forks the next

So a plain compile needs no fork, and a crash needs one fork but no new start of the compiler.
When flacheck dies, the socket closes. The server then kills the worker's whole process group
and ends. The worker also ends when the server dies.
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
from .cpu_time import cpu_seconds
from .host_errors import host_error
from .loader import module_from
from .log import Log
from .messages import CompilerWorker, Reply, Request, WorkerConfig

# Exit codes of a worker: it ended on purpose, or a compiler closed its socket. The code is 1 if the
# worker ended before its first request.
RECYCLE, UNHEARD = 75, 76
_POLL_MS = 200
# A prctl option, from linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1
# The limits for the files that a worker writes. The log is a file in memory: a compiler that prints
# without end is stopped here. A program that the worker starts may get the higher limit, for its
# files on disk.
_LOG_BYTES, _FILE_BYTES = 64 << 20, 4 << 30
# Compilers keep some memory of every compile. Without a size in the config, this limit ends the
# worker before many workers exhaust the machine's memory.
_RECYCLE_MB = 2_000
# The running request, the number of finished requests, the stage.
_PAGE = struct.Struct("qq32s")


class SharedPage:
    """A page of memory that outlives its worker: the request, its stage, the finished count.

    The compiler may kill its process at any instruction, so the worker's state is written where the
    server can still read it. Writing needs no system call.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._request, self._finished_count = -1, 0
        self.stage("")

    @property
    def fresh(self) -> bool:
        """True until the worker has finished a request."""
        return self._finished_count == 0

    def begin(self, request: int) -> None:
        """Note the start of a request, at the import of its kernel."""
        self._request = request
        self.stage("import")

    def stage(self, name: str) -> None:
        _PAGE.pack_into(self._memory, 0, self._request, self._finished_count, name.encode()[:32])

    def finish(self) -> None:
        self._request = -1
        self._finished_count += 1
        self.stage("")

    def read(self) -> tuple[int, int, str]:
        """Return the running request (-1 for none), the number of finished ones, and the stage."""
        request, finished_count, stage = _PAGE.unpack_from(self._memory, 0)
        return request, finished_count, stage.rstrip(b"\0").decode()


class OwnMemory:
    """The memory of this process, read from files that the confinement closes to others."""

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        self._reset = -1
        with contextlib.suppress(OSError):
            self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)

    def reset_peak(self) -> None:
        """Reset the peak of memory; a sandbox that refuses leaves the peak since the start."""
        with contextlib.suppress(OSError):
            os.write(self._reset, b"5")

    def read_mb(self, name: str) -> float:
        """Return a figure of the process in MB: VmHWM its peak, VmRSS its present memory.

        It is 0 if the compiler closed the file.
        """
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = os.pread(self._status, 1 << 16, 0).decode()
            return int(status.partition(f"\n{name}:")[2].split()[0]) / 1024
        return 0.0


def main() -> None:
    """Run as the server, with the config and the socket's number as arguments."""
    config: WorkerConfig = json.loads(sys.argv[1])
    config["server_pid"] = os.getpid()
    sock = socket.socket(fileno=int(sys.argv[2]))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.BUFFER)
    sys.path += config["path"]
    log = Log()
    log.take_streams()
    try:
        confinement = Confinement(config["confinement"])
        # One of our workers by its module's name, or a custom one by its file.
        if "worker_file" in config:
            module = module_from(config["worker_file"], f"{__package__}.custom_worker")
        else:
            module = importlib.import_module("..workers." + config["worker"], __package__)
        worker: CompilerWorker = module.Worker(config)
    except BaseException:  # an error of the compiler's import is a result
        traceback.print_exc()
        channel.send(sock, {"event": "broken", "log": log.text(config["scratch"])})
        return
    channel.send(sock, {"event": "ready", "pid": os.getpid()})
    # A garbage collection would write to every page that the workers share with this process.
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
    """Fork a worker whenever a request waits and no worker lives, until flacheck is gone."""
    while _wait_for_request(sock):
        page = SharedPage()
        log.clear()
        pid = os.fork()
        if pid == 0:
            _become_worker(sock, worker, config, page, log, confinement)
        alive = _watch(pid, sock)
        # The worker's children (an assembler that never ends) are killed with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        if not alive:
            break
        peak_mb = usage.ru_maxrss / 1024
        obituary = _obituary(pid, status, page)
        log_text = log.text(config["scratch"])
        channel.send(sock, {**obituary, "log": log_text, "peak_mb": peak_mb})
    shutil.rmtree(config["scratch"], ignore_errors=True)


def _wait_for_request(sock: socket.socket) -> bool:
    """Block until a request waits; return False if flacheck is gone."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except ConnectionResetError:
        return False


def _watch(pid: int, sock: socket.socket) -> bool:
    """Wait for the worker's end without reaping it; return False if flacheck ended first."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    pause: int | None = None
    try:
        child = os.pidfd_open(pid)
        poll.register(child, select.POLLIN)
    except OSError:  # kernels before 5.3 lack pidfds: poll every _POLL_MS instead
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
    """Return the event for a worker's end: its `signal` or `exit_code`, request and stage."""
    request, finished_count, stage = page.read()
    event: dict[str, Any] = {"event": "exit", "pid": pid}
    event |= {"request": request, "done": finished_count}
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
    """Run as a worker until the process is recycled or dies; never return."""
    code = 1
    try:
        os.setpgid(0, 0)
        # Python would raise an exception, which would look like the compiler's.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # If the server died before that call, the signal never comes.
        if os.getppid() != config["server_pid"]:
            os._exit(RECYCLE)
        # Core files are not used.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LOG_BYTES, _FILE_BYTES))
        if config.get("memory_mb"):
            limit = config["memory_mb"] << 20
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        memory = OwnMemory()
        # Only now, because the worker runs other people's code and the server only imported the
        # compiler.
        confinement.enter()
        channel.send(sock, {"event": "hello", "pid": os.getpid()})
        _work(sock, worker, config, page, log, memory)
        code = RECYCLE
    finally:
        os._exit(code)


def _work(
    sock: socket.socket,
    worker: CompilerWorker,
    config: WorkerConfig,
    page: SharedPage,
    log: Log,
    memory: OwnMemory,
) -> None:
    """Run request after request, until the next one needs a fresh worker."""
    while page.fresh or not channel.needs_fresh_worker(sock):
        # Peek until the page names the request: if the worker dies here, the request is not lost.
        message = channel.receive(sock, socket.MSG_PEEK)
        if message is None:
            return
        request: Request = message  # type: ignore[assignment]
        log.clear()
        page.begin(request["id"])
        channel.take(sock)
        _limit_cpu(request.get("timeout"))
        answer = attempt_of(worker, request, page, log, memory)
        event = {"event": "answer", "request": request["id"], "pid": os.getpid()}
        try:
            # A compiler that closes the socket may also have closed the log.
            answer["log"] = _log_for_reply(answer, log, config["scratch"])
            channel.send(sock, {**event, "attempt": answer})
        except OSError:
            os._exit(UNHEARD)
        # Only now, because a request is finished when its reply is sent.
        page.finish()
        if memory.read_mb("VmRSS") > config.get("recycle_mb", _RECYCLE_MB):
            return


def _log_for_reply(answer: Reply, log: Log, scratch: str) -> str:
    """Return the log for a reply, "" for a finished compile.

    A compiler may print an error, go on, and return a broken kernel: LLVM does so for inline
    assembly under Triton 3.8.0 and 3.9.0. The reply then becomes a failure in the stage of the
    error.
    """
    if answer["outcome"] != "finished":
        return log.text(scratch)
    stage = log.error_stage()
    if stage is None:
        return ""
    answer["outcome"], answer["stage"] = "raised", stage
    return log.native_text(scratch)


def attempt_of(
    worker: CompilerWorker, request: Request, page: SharedPage, log: Log, memory: OwnMemory
) -> Reply:
    """Run one request and return its reply; this is the only place that catches everything."""

    def mark(stage: str) -> None:
        page.stage(stage)
        log.note_stage(stage)

    start, cpu = time.perf_counter(), cpu_seconds()
    memory.reset_peak()
    answer: Reply = {"outcome": "finished"}
    try:
        answer.update(worker.run(request, mark))
    except BaseException as error:
        # The compiler's error is the answer, an exit or an interrupt of it, too.
        traceback.print_exc()
        answer["outcome"], answer["exception"] = "raised", exception_chain(error)
        answer["host_error"] = host_error(error)
        answer["tolerated"] = worker.tolerates(error)
        answer["facts"] = getattr(error, "facts", {})
        answer["resources"] = getattr(error, "resources", {})
    answer.setdefault("stage", page.read()[2])
    answer.setdefault("seconds", time.perf_counter() - start)
    answer.setdefault("cpu_seconds", cpu_seconds() - cpu)
    # If the compiler is a program of its own, the worker reports that program's peak.
    answer.setdefault("peak_mb", memory.read_mb("VmHWM") or None)
    return answer


def exception_chain(error: BaseException) -> list[str]:
    """Return the class names of an exception and of its causes, outermost first."""
    names = []
    current: BaseException | None = error
    while current is not None:
        names.append(type(current).__name__)
        if current.__cause__ is None and not current.__suppress_context__:
            current = current.__context__
        else:
            current = current.__cause__
    return names


def _limit_cpu(seconds: float | None) -> None:
    """Limit the CPU time, which ends an orphaned assembler if no process is left to kill it."""
    if seconds:
        # Twice the timeout plus a margin: a living flacheck ends the worker earlier, by the clock.
        soft = int(cpu_seconds() + 2 * seconds) + 10
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
