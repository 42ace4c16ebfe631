"""Messages between flacheck and a worker: one JSON value a packet on a SOCK_SEQPACKET socket.

A packet arrives whole or not at all. A process that is killed while it sends an answer cannot
garble the next answer, and a process that dies before it reads a request leaves the request to its
successor. A long message travels as a file in memory whose descriptor is in the packet, because
without privileges a socket does not take packets of megabytes.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

# The guest is imported from its folder under the name `flacheck_guest`, because flacheck is not
# installed in the interpreter. The arguments are that folder, the module whose `main` runs, and the
# arguments of `main`: mostly a file with its config.
GUEST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOOT = (
    "import importlib.util as u, sys; f = sys.argv.pop(1); n = 'flacheck_guest'; "
    "s = u.spec_from_file_location(n, f + '/__init__.py', submodule_search_locations=[f]); "
    "m = sys.modules[n] = u.module_from_spec(s); s.loader.exec_module(m); "
    "import importlib; importlib.import_module(n + sys.argv.pop(1)).main()"
)
# The socket's buffer in bytes, and the longest packet. A dozen requests fit at a worker even if the
# system grants a smaller buffer.
BUFFER, PACKET = 1 << 20, 1 << 14
# Bytes of the longest message, many times the largest source that is admitted.
LONGEST = 64 << 20
# The first byte of a packet can be read without taking the packet. It marks a message for a fresh
# worker only, and a message in a file.
FRESH, ANY, FRESH_FILE, ANY_FILE = b"!", b".", b"?", b":"
# A compiler's dump of a module can fill megabytes.
LOG_LIMIT = 120_000


def read_config() -> dict[str, Any]:
    """Return the config in the file that is the program's first argument."""
    with open(sys.argv[1], encoding="utf-8") as file:
        config: dict[str, Any] = json.load(file)
    return config


class Garbled(Exception):
    """Received data that is not a message: a compiler wrote to a foreign descriptor."""


def receive(sock: socket.socket, flags: int = 0) -> dict[str, Any] | None:
    """Return the next message, None if the other side is gone; MSG_PEEK leaves it in place.

    Raises Garbled if the data is not a message.
    """
    # `recv_fds` does not pass its flags on.
    size, room = PACKET + 1, socket.CMSG_SPACE(4)
    try:
        packet, ancillary, _, _ = sock.recvmsg(size, room, flags)
    except ConnectionResetError:
        # The other side ended before it read everything. This error comes before the data that it
        # sent itself.
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
        raise Garbled(f"a packet that is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise Garbled("a packet that is not a JSON object")
    return message


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    return list(files)


def _content(files: list[int]) -> bytes:
    """Return a long message from its start: a reader that peeks shares the file's position."""
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
    """Take the packet that was peeked at."""
    sock.recv(1)


def send(
    sock: socket.socket, message: Mapping[str, object], fresh: bool = False, flags: int = 0
) -> None:
    """Send a message; if `fresh`, only for a worker that has not run any request yet."""
    text = json.dumps(message).encode()
    if len(text) < PACKET:
        mark = ANY
        if fresh:
            mark = FRESH
        sock.send(mark + text, flags)
        return
    with open(os.memfd_create("message"), "wb") as file:
        file.write(text)
        file.flush()
        mark = ANY_FILE
        if fresh:
            mark = FRESH_FILE
        socket.send_fds(sock, [mark], [file.fileno()], flags)


def needs_fresh_worker(sock: socket.socket) -> bool:
    """Return True if the next request is for a fresh worker; it stays in the socket."""
    try:
        return sock.recv(1, socket.MSG_PEEK) in (FRESH, FRESH_FILE)
    except ConnectionResetError:
        return False


def trim_log(log: bytes) -> str:
    """Return the log as text; of a long log the start and the end, which hold the cause."""
    if len(log) > LOG_LIMIT:
        half = LOG_LIMIT // 2
        cut = f"\n[… {len(log) - 2 * half} bytes cut]\n".encode()
        log = log[:half] + cut + log[-half:]
    return log.decode("utf-8", "replace")
