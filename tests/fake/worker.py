"""A compiler that behaves by a table: the guest's side of the fake toolchain.

The table (JSON in the worker's config) maps a kernel's name, or "*", to a behaviour of its compile;
a behaviour may differ by option (`"by": "num_warps", "8": "abort …"`), by a constexpr of the
launch, by the dtype of its argument `x` (`"by": "dtype"`), by source text (`"says": "tl.dot",
"times": 2, "then": "abort …"`) and by toolchain version (`"==1.0"`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import zlib


class Worker:
    def __init__(self, config: dict) -> None:
        self.table, self.version = config["table"], config["identity"].partition("==")[2]
        start = self.table.get("start")
        if start == "broken":
            raise ImportError("libfake.so: cannot open shared object file")
        if start == "hang":
            time.sleep(1000)
        if start == "spin":
            while True:
                pass
        if start == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if start == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if start == "exit":
            os._exit(0)

    def tolerates(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    def run(self, request: dict, mark) -> dict:
        behaviour = self._behaviour(request)
        # "at parse abort x" does so before the usual moment, "at late abort x" after it.
        moment = "lower"
        if behaviour.startswith("at "):
            _, moment, behaviour = behaviour.split(" ", 2)
        stages = ("parse", "lower", "late")
        for stage in stages if moment in stages else (moment,):
            mark(stage)
            if stage == moment:
                break
        verb, _, rest = behaviour.partition(" ")
        return getattr(self, "do_" + verb)(rest) or {
            "seconds": 0.001,
            "resources": {"shared": 1024, "registers": 32, "stack": 0, "threads": 128},
        }

    def _behaviour(self, request: dict) -> str:
        kernel = request["kernel"]
        # A reduced source has whatever name its pass gave it.
        name = kernel["qualname"] if "module" in kernel else "*"
        rule = self.table.get(name, self.table.get("*", "compile"))
        while isinstance(rule, dict):
            if "by" in rule:
                rule = rule.get(_setting(request, rule["by"]), rule.get("else", "compile"))
            elif "says" in rule:
                often = request["kernel"]["source"].count(rule["says"]) >= rule.get("times", 1)
                rule = rule["then"] if often else rule.get("else", "compile")
            else:
                rule = rule.get("==" + self.version, rule.get("else", "compile"))
        return rule

    def do_compile(self, rest: str) -> None:
        pass

    def do_binary(self, rest: str) -> dict:
        """Return a binary of `tests.fake_card` with this behaviour; its kernel takes x, y and 2,000."""
        code = json.dumps({"behaviour": rest, "microseconds": 20.0}).encode()
        binary = {
            "digest": hashlib.sha256(code).hexdigest(),
            "code": base64.b64encode(zlib.compress(code)).decode(),
            "entry": "kernel",
            "threads": 128,
            "shared": 0,
            "cluster": [1, 1, 1],
            "cooperative": False,
            "pdl": False,
            "parameters": [
                {"type": "pointer", "tensor": "x"},
                {"type": "pointer", "tensor": "y"},
                {"type": "i32", "value": "2000"},
            ],
            "scratch": [],
            "unlaunchable": None,
        }
        return {
            "seconds": 0.001,
            "resources": {"shared": 1024, "registers": 32, "stack": 0, "threads": 128},
            "facts": {"binary": binary},
        }

    def do_shared(self, rest: str) -> dict:
        return {"resources": {"shared": int(rest), "threads": 128}}

    def do_slow(self, rest: str) -> dict:
        seconds = float(rest)
        return {
            "seconds": seconds,
            "cpu_seconds": seconds,
            "resources": {"shared": 0, "threads": 128},
        }

    def do_burn(self, rest: str) -> dict:
        """Takes so many seconds of CPU time, half of them in an assembler; the wall time is real."""
        begin, half = time.perf_counter(), float(rest) / 2
        burn = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass"
        subprocess.run([sys.executable, "-I", "-S", "-c", burn, str(half)], check=True)
        end = time.process_time() + half
        while time.process_time() < end:
            pass
        return {"seconds": time.perf_counter() - begin, "resources": {"threads": 128}}

    def do_hiccup(self, rest: str) -> dict:
        """The compile is slow the first time, and quick from then on."""
        seconds, path = rest.split()
        if os.path.exists(path):
            return self.do_slow("1")
        os.close(os.open(path, os.O_CREAT))
        return self.do_slow(seconds)

    def do_abort(self, rest: str) -> None:
        sys.stderr.write(rest + "\n")
        sys.stderr.flush()
        os.abort()

    def do_complain(self, rest: str) -> None:
        """Prints as native code does, and compiles all the same."""
        os.write(2, rest.encode() + b"\n")

    def do_print(self, rest: str) -> None:
        """Prints as a kernel does at compile time, to both streams, and compiles."""
        print(rest)
        print(rest, file=sys.stderr)

    def do_raise(self, rest: str) -> None:
        raise RuntimeError(rest)

    def do_fault(self, rest: str) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def do_exit(self, rest: str) -> None:
        os._exit(int(rest))

    def do_hang(self, rest: str) -> None:
        """Hangs as an assembler does: in a child process that ignores polite signals."""
        stubborn = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", stubborn, rest or "flacheck-fake-assembler"]
        )

    def do_sleep(self, rest: str) -> None:
        time.sleep(float(rest))

    def do_killnode(self, rest: str) -> None:
        """Kill the process that started the server of this worker."""
        with open(f"/proc/{os.getppid()}/stat") as file:
            owner = int(file.read().rpartition(")")[2].split()[1])
        os.kill(owner, signal.SIGKILL)
        time.sleep(1000)

    def do_spin(self, rest: str) -> None:
        while True:
            time.sleep(0.01)

    def do_bomb(self, rest: str) -> None:
        """Dies as C++ does when its allocation fails."""
        hoard = []
        try:
            while True:
                hoard.append(bytearray(64 << 20))
        except MemoryError:
            sys.stderr.write(
                "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
            )
            sys.stderr.flush()
            os.abort()

    def do_exhaust(self, rest: str) -> None:
        """Reach a limit of the machine, and report it as compilers do: by an error."""
        try:
            getattr(self, "_exhaust_" + rest)()
        except Exception:
            raise RuntimeError("Internal codegen error")  # noqa: B904  # as compilers do

    def _exhaust_file(self) -> None:
        with open("large", "wb") as file:
            file.write(bytes(65 << 20))

    def _exhaust_child(self) -> None:
        """The limit ends the assembler, not the worker."""
        with open("large", "wb") as file:
            subprocess.run(["head", "-c", "65M", "/dev/zero"], stdout=file, check=True)

    def _exhaust_memory(self) -> None:
        bytearray(1 << 50)

    def _exhaust_descriptors(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
        try:
            subprocess.run(["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def do_grow(self, rest: str) -> None:
        self.hoard = b"x" * (int(rest) << 20)

    def do_flood(self, rest: str) -> None:
        for _ in range(int(rest)):
            os.write(2, b"error: the same line over and over\n" * 1000)
        raise RuntimeError("after the flood")

    def do_close(self, rest: str) -> None:
        """Closes every descriptor it can find, the channel to flacheck too."""
        os.closerange(0, 256)
        os.abort()

    def do_signal(self, rest: str) -> None:
        """Send the worker a signal from another process, which under nohup it may ignore."""
        number = getattr(signal, rest)
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def do_server(self, rest: str) -> None:
        """Send the server a signal from another process, and continue the compile for a while."""
        os.kill(os.getppid(), getattr(signal, rest))
        time.sleep(0.2)

    def do_stopped(self, rest: str) -> None:
        """Stop the server, then end the worker."""
        os.kill(os.getppid(), signal.SIGSTOP)
        os.abort()

    def do_deaf(self, rest: str) -> None:
        """Closes the channel to flacheck, and compiles."""
        _channel().detach()
        os.closerange(3, 4096)

    def do_write(self, rest: str) -> None:
        """Writes a packet of its own to flacheck."""
        _channel().send(PACKETS[rest])

    def do_answer(self, rest: str) -> dict:
        """Send a result with keys that no result has."""
        return ANSWERS[rest]

    def do_log(self, rest: str) -> None:
        raise RuntimeError(chr(0x1F600) * int(rest))

    def do_once(self, rest: str) -> None:
        """Do the named behaviour only while the file does not exist."""
        file, _, then = rest.partition(" ")
        if not os.path.exists(file):
            open(file, "w").close()
            verb, _, more = then.partition(" ")
            getattr(self, "do_" + verb)(more)

    def do_twice(self, rest: str) -> None:
        """Fault the first two times, or as often as the number in the table; the file counts
        them."""
        name, _, number = rest.partition(" ")
        with open(name, "a") as file:
            file.write("x")
            file.flush()
            if file.tell() <= int(number or 2):
                os.kill(os.getpid(), signal.SIGSEGV)

    def do_count(self, rest: str) -> None:
        """Takes a moment, and leaves a mark in a file."""
        time.sleep(0.05)
        with open(rest, "a") as file:
            file.write("x")

    def do_flaky(self, rest: str) -> None:
        """Fails in a worker that has worked before, never in a fresh one."""
        if getattr(self, "worked", False):
            sys.stderr.write(rest + "\n")
            sys.stderr.flush()
            os.abort()

    def do_pid(self, rest: str) -> dict:
        self.worked = True
        return {"facts": {"pid": os.getpid()}, "resources": {"threads": 128}}


def _channel() -> socket.socket:
    """The socket to flacheck, found as a hostile compiler would."""
    for number in range(3, 4096):
        try:
            copy = socket.socket(fileno=os.dup(number))
            if copy.type == socket.SOCK_SEQPACKET:
                return copy
        except OSError:
            continue
    raise AssertionError("there is no socket")


PACKETS = {
    "text": b".not JSON",
    "empty": b".",
    "list": b".[]",
    "number": b".5",
    "deep": b"." + b"[" * 15_000,
    "nothing": b'.{"event": null}',
    "unknown": b'.{"event": "dance"}',
    "list-event": b'.{"event": []}',
    "exit": b'.{"event": "exit"}',
    "exit-types": b'.{"event": "exit", "request": "1", "done": [], "stage": 1, "signal": 1}',
    "answer": b'.{"event": "answer"}',
    "answer-text": b'.{"event": "answer", "request": 1, "attempt": "finished"}',
    "file": b":",
    "long": b"." + b"x" * 100_000,
    "init": b'.{"event": "hello", "pid": 1}',
    "stale": b'.{"event": "answer", "request": -5, "attempt": {"outcome": "finished"}}',
    "ready": b'.{"event": "ready", "pid": 1}',
    "gone": b'.{"event": "gone"}',
    "broken-types": b'.{"event": "broken"}',
    "surrogate": b'.{"event": "answer", "request": 1, "attempt": {"log": "\\ud800"}}',
}
ANSWERS: dict = {
    "outcome": {"outcome": "splendid"},
    "unknown": {"outcome": "finished", "surprise": [1, 2], "stage": "lower"},
    "nan": {"seconds": float("nan")},
    "minus": {"seconds": -1.0},
    "infinite": {"peak_mb": float("inf"), "seconds": float("inf")},
    "types": {"seconds": "long", "stage": 5},
    "resources": {"resources": {"shared": "much"}},
    "resources-list": {"resources": [1]},
    "stage": {"stage": {"a": 1}},
    "facts": {"facts": "none"},
}


def _setting(request: dict, name: str) -> str:
    args = (request.get("launch") or {}).get("args", {})
    if name == "dtype":
        return args["x"]["dtype"]
    return str(args[name]["constexpr"] if name in args else request["options"].get(name))
