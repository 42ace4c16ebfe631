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
import importlib.util
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
import traceback

from . import channel
from .page import Page

RECYCLE = 75
_POLL_MS = 200
_PR_SET_PDEATHSIG = 1
_LOG_BYTES = 64 << 20


def main() -> None:
    config = json.loads(sys.argv[1])
    config["server_pid"] = os.getpid()
    sock = socket.socket(fileno=int(sys.argv[2]))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, channel.PACKET)
    sys.path += config["path"]
    log = os.memfd_create("log")
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        worker = load_worker(config)
    except BaseException:  # whatever the compiler's own import does is an answer, not our crash
        traceback.print_exc()
        channel.send(sock, {"event": "broken", "log": _read(log, config)})
        return
    channel.send(sock, {"event": "ready", "pid": os.getpid()})
    gc.collect()
    gc.freeze()
    serve(sock, worker, config, log)


def load_worker(config: dict):
    """The module that knows the compiler: one of ours by name, or a file's."""
    if "worker_file" in config:
        spec = importlib.util.spec_from_file_location(
            __package__ + ".custom_worker", config["worker_file"]
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module("..workers." + config["worker"], __package__)
    return module.Worker(config)


def serve(sock: socket.socket, worker, config: dict, log: int) -> None:
    """Fork a worker whenever a request waits and none lives, until flacheck is gone."""
    page = Page()
    while _waiting(sock):
        page.clear()
        os.ftruncate(log, 0)
        pid = os.fork()
        if pid == 0:
            _become_worker(sock, worker, config, page, log)
        alive = _watch(pid, sock)
        _kill_group(pid)
        _, status, usage = os.wait4(pid, 0)
        if not alive:
            break
        channel.send(
            sock,
            {**_obituary(pid, status, page, _read(log, config)), "peak_mb": usage.ru_maxrss / 1024},
        )
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
    child = _pidfd(pid)
    if child is not None:
        poll.register(child, select.POLLIN)
    try:
        while True:
            events = dict(poll.poll(None if child is not None else _POLL_MS))
            if events.get(sock.fileno(), 0) & (select.POLLRDHUP | select.POLLHUP):
                return False
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                return True
    finally:
        if child is not None:
            os.close(child)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # kernels before 5.3: the watch looks every _POLL_MS instead
        return None


def _kill_group(pid: int) -> None:
    """What the worker started (an assembler that never ends) goes with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _obituary(pid: int, status: int, page: Page, said: str) -> dict:
    request, done, stage = page.read()
    killed = os.WIFSIGNALED(status)
    return {
        "event": "exit",
        "pid": pid,
        "request": request,
        "done": done,
        "stage": stage or None,
        "signal": signal.Signals(os.WTERMSIG(status)).name if killed else None,
        "exit_code": None if killed else os.WEXITSTATUS(status),
        "log": said,
    }


def _read(log: int, config: dict) -> str:
    """What was said so far; the folder of this worker's temporary files, another each time, is
    named <scratch>.
    """
    said = os.pread(log, os.fstat(log).st_size, 0)
    return channel.trimmed(said.replace(config["scratch"].encode(), b"<scratch>"))


def _become_worker(sock: socket.socket, worker, config: dict, page: Page, log: int) -> None:
    """Never returns: the forked process works until it is told to stop, is too big, or dies."""
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != config["server_pid"]:
            os._exit(RECYCLE)
        _limit(config)
        channel.send(sock, {"event": "hello", "pid": os.getpid()})
        _work(sock, worker, config, page, log)
        code = RECYCLE
    finally:
        os._exit(code)


def _limit(config: dict) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LOG_BYTES, _LOG_BYTES))
    if config.get("memory_mb"):
        limit = config["memory_mb"] << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(sock: socket.socket, worker, config: dict, page: Page, log: int) -> None:
    while page.fresh or not channel.wants_fresh(sock):
        request = channel.receive(sock)
        if request is None:
            return
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        page.begin(request["id"])
        _limit_cpu(request.get("timeout"))
        answer = attempt(worker, request, page)
        answer["log"] = _read(log, config) if answer["outcome"] != "finished" else ""
        page.finish()
        channel.send(
            sock,
            {"event": "answer", "request": request["id"], "pid": os.getpid(), "attempt": answer},
        )
        if _resident_mb() > config.get("recycle_mb", 2_000):
            return


def attempt(worker, request: dict, page: Page) -> dict:
    """One request, whatever happens; the only place that catches everything."""
    started, cpu = time.perf_counter(), _cpu()
    _reset_peak()
    answer = {"outcome": "finished"}
    try:
        answer.update(worker.run(request, page.stage))
    except BaseException as error:
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        answer.update(outcome="raised", exception=_chain(error), tolerated=worker.tolerates(error))
        answer["facts"] = getattr(error, "facts", {})
        answer["resources"] = getattr(error, "resources", {})
    answer.setdefault("stage", page.read()[2])
    answer.setdefault("seconds", time.perf_counter() - started)
    answer.update(cpu_seconds=_cpu() - cpu, peak_mb=_peak_mb())
    return answer


def _chain(error: BaseException) -> list[str]:
    """The class names of an exception and of its causes, outermost first."""
    names = []
    current: BaseException | None = error
    while current is not None:
        names.append(type(current).__name__)
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return names


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _limit_cpu(seconds: float | None) -> None:
    """Bounds an orphaned assembler even when every process that could kill it is dead."""
    if seconds:
        soft = int(_cpu() + 2 * seconds) + 10
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # some sandboxes refuse; the peak is then that of the worker's life


def _peak_mb() -> float | None:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / (1 << 20)
