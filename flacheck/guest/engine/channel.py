"""Messages between flacheck and a worker: one JSON value a packet on a SOCK_SEQPACKET socket. A
packet arrives whole or not at all, so a process killed in the middle of an answer cannot garble the
next one, and a process that dies before it reads leaves the request to its heir. A long message
travels as a file in memory, whose descriptor is in the packet: sockets take no packet of megabytes
without the administrator's leave."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping
from typing import Any

# The guest is imported from its folder, under a name of its own: the interpreter knows no flacheck.
# The arguments are that folder and the module whose `main` runs, then those that `main` reads.
GUEST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOOT = (
    "import importlib.util as u, sys; f = sys.argv.pop(1); n = 'flacheck_guest'; "
    "s = u.spec_from_file_location(n, f + '/__init__.py', submodule_search_locations=[f]); "
    "m = sys.modules[n] = u.module_from_spec(s); s.loader.exec_module(m); "
    "import importlib; importlib.import_module(n + sys.argv.pop(1)).main()"
)
# Bytes that a socket is asked to hold for its reader, and the longest packet: a dozen requests wait
# at a worker even where the system grants less.
BUFFER, PACKET = 1 << 20, 1 << 14
# Bytes of the longest message: the largest source that is admitted, many times over.
LONGEST = 64 << 20
# The first byte of a packet can be looked at without taking the packet: whether the message is for
# a fresh worker only, and whether it lies in a file.
FRESH, ANY, FRESH_FILE, ANY_FILE = b"!", b".", b"?", b":"
# A compiler's dump of a module can fill megabytes.
LOG_LIMIT = 120_000


class Garbled(Exception):
    """What arrived is no message: a compiler wrote to a descriptor that was not its own."""


def receive(sock: socket.socket, flags: int = 0) -> dict[str, Any] | None:
    """The next message, or None when the other side is gone; with MSG_PEEK it stays where it is.
    Raises Garbled for anything else."""
    # Not `recv_fds`, which does not pass its flags on.
    size, room = PACKET + 1, socket.CMSG_SPACE(4)
    try:
        packet, ancillary, _, _ = sock.recvmsg(size, room, flags)
    except ConnectionResetError:
        # The other side ended with something unread, which is said before what it had sent itself.
        try:
            packet, ancillary, _, _ = sock.recvmsg(size, room, flags)
        except ConnectionResetError:
            return None
    files = _descriptors(ancillary)
    try:
        if not packet:
            return None
        text = packet[1:]
        if packet[:1] in (FRESH_FILE, ANY_FILE):
            text = _content(files)
    finally:
        for file in files:
            os.close(file)
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"a packet that is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise Garbled("a packet that is no JSON object")
    return message


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    return list(files)


def _content(files: list[int]) -> bytes:
    """A long message, read from its beginning: whoever peeks shares the file's position."""
    if not files:
        raise Garbled("a long message without its file")
    try:
        size = os.fstat(files[0]).st_size
        if size > LONGEST:
            raise Garbled(f"a message of {size} bytes")
        return os.pread(files[0], size, 0)
    except OSError as error:
        raise Garbled(f"a long message that cannot be read: {error}") from None


def take(sock: socket.socket) -> None:
    """Take the packet that was looked at."""
    sock.recv(1)


def send(
    sock: socket.socket, message: Mapping[str, object], fresh: bool = False, flags: int = 0
) -> None:
    """`fresh`: only a worker that has done nothing yet may take this one."""
    text = json.dumps(message).encode()
    if len(text) < PACKET:
        sock.send((FRESH if fresh else ANY) + text, flags)
        return
    with open(os.memfd_create("message"), "wb") as file:
        file.write(text)
        file.flush()
        mark = FRESH_FILE if fresh else ANY_FILE
        socket.send_fds(sock, [mark], [file.fileno()], flags)


def needs_fresh_worker(sock: socket.socket) -> bool:
    """Whether the request that comes next is for a fresh worker; it stays where it is."""
    try:
        return sock.recv(1, socket.MSG_PEEK) in (FRESH, FRESH_FILE)
    except ConnectionResetError:
        return False


def trim_log(log: bytes) -> str:
    """The log as text; of a long one the beginning and the end, for the cause stands at either."""
    if len(log) > LOG_LIMIT:
        half = LOG_LIMIT // 2
        cut = f"\n[… {len(log) - 2 * half} bytes cut]\n".encode()
        log = log[:half] + cut + log[-half:]
    return log.decode("utf-8", "replace")
