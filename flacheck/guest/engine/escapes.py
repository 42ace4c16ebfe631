"""Ways out of a sandbox, tried by a confined process on bait that a process outside lays.

The bait are a file, shared memory, a message queue, a connection and a process, all of flacheck's
own. A way is closed if it fails or reaches nothing of the bait.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from fcntl import F_NOTIFY, fcntl, ioctl
from pathlib import Path
from typing import TypedDict

from .confinement import Confinement, Policy, call_kernel

_SHARED_MEMORY = "/dev/shm"
# From linux/ipc.h and linux/fcntl.h.
_IPC_PRIVATE, _IPC_CREATE, _IPC_REMOVE, _IPC_NOWAIT = 0, 0o1000, 0, 0o4000
_DN_MODIFY, _AT_FDCWD = 2, -100
# From asm-generic/unistd.h: calls of Linux 6.13 and 6.17, which libc does not wrap.
_SETXATTRAT, _FILE_SETATTR = 463, 469
# From linux/fs.h: FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of 64-bit machines.
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_ATTRIBUTE, _MESSAGE = b"user.flacheck", struct.pack("=q8s", 1, b"flacheck")

_libc = ctypes.CDLL(None, use_errno=True)
# It returns a pointer.
_libc.shmat.restype = ctypes.c_long


class Bait(TypedDict):
    """Files in a folder and in /dev/shm, System V objects by id, a POSIX queue, a port, a process.

    `shared_file` is "" on a machine without /dev/shm.
    """

    file: str
    shared_file: str
    segment: int
    queue: int
    posix_queue: str
    port: int
    pid: int


@contextlib.contextmanager
def lay_bait(folder: str) -> Iterator[Bait]:
    """Lay bait for `find_closed_ways` in an empty folder, with this process as its process."""
    with contextlib.ExitStack() as stack:
        file = os.path.join(folder, "secret")
        with open(file, "w") as opened:
            opened.write("hush")
        shared_file = ""
        with contextlib.suppress(OSError):
            shared_file = stack.enter_context(tempfile.NamedTemporaryFile(dir=_SHARED_MEMORY)).name
        segment = _libc.shmget(_IPC_PRIVATE, 4096, _IPC_CREATE | 0o600)
        stack.callback(_libc.shmctl, segment, _IPC_REMOVE, None)
        queue = _libc.msgget(_IPC_PRIVATE, _IPC_CREATE | 0o600)
        stack.callback(_libc.msgctl, queue, _IPC_REMOVE, None)
        posix_queue = f"/flacheck-{os.getpid()}"
        _libc.mq_open(posix_queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        stack.callback(_libc.mq_unlink, posix_queue.encode())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield {
            "file": file,
            "shared_file": shared_file,
            "segment": segment,
            "queue": queue,
            "posix_queue": posix_queue,
            "port": listener.getsockname()[1],
            "pid": os.getpid(),
        }


def main() -> None:
    """Enter a policy, try to break out of it, and print for each way if it is closed.

    The arguments of the process are the policy and the bait. The output is a JSON object, with
    `namespaces` beside the ways.
    """
    policy: Policy = json.loads(sys.argv[1])
    confinement = Confinement(policy)
    confinement.enter()
    ways = find_closed_ways(json.loads(sys.argv[2]))
    print(json.dumps({"namespaces": confinement.has_namespaces, "ways": ways}))


def find_closed_ways(bait: Bait) -> dict[str, bool]:
    """Return for each way out of a compiler's policy if it is closed to this process."""
    return {name: all(map(_fails, attempts)) for name, attempts in _ways(bait).items()}


def _ways(bait: Bait) -> dict[str, list[Callable[[], object]]]:
    """Return the attempts of each way. One that succeeds leaves the bait as it was."""
    file, pid = bait["file"], bait["pid"]
    return {
        "reading files": [lambda: open(file).close()],
        "writing files": [lambda: open(file + ".new", "w").close()],
        "attributes of files": [
            lambda: _change_times(file),
            lambda: _call("setxattr", file.encode(), _ATTRIBUTE, b"1", 1, 0),
            lambda: _set_attribute_at(file),
            lambda: _set_flags_at(file),
            _set_flags_of_readable_file,
        ],
        "programs": [lambda: _execute("/bin/sh")],
        "network": [lambda: socket.socket(socket.AF_INET).close()],
        "sockets of services": [
            lambda: socket.socket(socket.AF_UNIX).close(),
            lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        ],
        "connections": [lambda: _find_port("/proc/self/net/tcp", bait["port"])],
        "other processes": [lambda: open(f"/proc/{pid}/environ", "rb").close()],
        "signals": [lambda: os.kill(pid, 0)],
        "limits of processes": [
            lambda: resource.prlimit(pid, resource.RLIMIT_CORE),
            lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
            lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        ],
        "shared memory": [
            lambda: open(bait["shared_file"]).close(),
            lambda: _call("shmat", bait["segment"], None, 0),
        ],
        "message queues": [
            lambda: _call("msgsnd", bait["queue"], _MESSAGE, 8, _IPC_NOWAIT),
            lambda: _call("mq_open", bait["posix_queue"].encode(), os.O_RDONLY),
        ],
        "watching files": [
            lambda: _call("inotify_init1", 0),
            lambda: _watch(os.path.dirname(os.__file__)),
        ],
    }


def _fails(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _call(name: str, *arguments: object) -> None:
    """Call a function of libc; raise OSError if it fails."""
    if getattr(_libc, name)(*arguments) == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _change_times(file: str) -> None:
    """Change the times of a file by a second; raise OSError if they stay the same."""
    before = Path(file).stat().st_mtime
    os.utime(file, (before, before + 1))
    if Path(file).stat().st_mtime == before:
        raise PermissionError(file)


def _set_attribute_at(file: str) -> None:
    # struct xattr_args: the value's address, its size, flags.
    value = ctypes.create_string_buffer(b"1")
    arguments = struct.pack("=QII", ctypes.addressof(value), 1, 0)
    size = ctypes.c_size_t(len(arguments))
    call_kernel(_SETXATTRAT, _AT_FDCWD, file.encode(), 0, _ATTRIBUTE, arguments, size)


def _set_flags_at(file: str) -> None:
    # struct file_attr, of 24 bytes: no flag.
    attributes = bytes(24)
    size = ctypes.c_size_t(len(attributes))
    call_kernel(_FILE_SETATTR, _AT_FDCWD, file.encode(), attributes, size, 0)


def _set_flags_of_readable_file() -> None:
    """Set the flags that a file of Python's library has already."""
    with open(os.__file__, "rb") as file:
        flags = ioctl(file, _GET_FLAGS, bytes(8))
        ioctl(file, _SET_FLAGS, flags)


def _execute(program: str) -> None:
    """Run a program that does nothing; raise PermissionError if it may not be run."""
    child = os.fork()
    if child == 0:
        try:
            os.execv(program, [program, "-c", ":"])
        except OSError:
            os._exit(126)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 126:
        raise PermissionError(program)


def _find_port(table: str, port: int) -> None:
    """Raise PermissionError if a table of connections does not list a port."""
    with open(table) as file:
        if f":{port:04X} " not in file.read():
            raise PermissionError(table)


def _watch(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl(descriptor, F_NOTIFY, _DN_MODIFY)
    finally:
        os.close(descriptor)
