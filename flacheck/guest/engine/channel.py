"""Messages between flacheck and a worker: one JSON value a packet on a SOCK_SEQPACKET socket. A
packet arrives whole or not at all, so a process killed in the middle of an answer cannot garble the
next one, and a process that dies before it reads leaves the request to its heir."""

from __future__ import annotations

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
# Longest message in bytes: a kernel's source and log fit many times. The socket's send buffer is
# set to it, for a packet must fit whole.
PACKET = 1 << 20
# The first byte of a packet can be looked at without taking the packet.
FRESH, ANY = b"!", b"."
# A compiler's dump of a module can fill megabytes, and each byte may grow to six in JSON.
LOG_LIMIT = 120_000


def receive(sock: socket.socket) -> dict[str, Any] | None:
    """The next message, or None when the other side is gone."""
    try:
        packet = sock.recv(PACKET)
    except ConnectionResetError:
        return None
    if not packet:
        return None
    message: dict[str, Any] = json.loads(packet[1:])
    return message


def send(sock: socket.socket, message: Mapping[str, object], fresh: bool = False) -> None:
    """`fresh`: only a worker that has done nothing yet may take this one."""
    mark = FRESH if fresh else ANY
    sock.sendall(mark + json.dumps(message).encode())


def wants_fresh(sock: socket.socket) -> bool:
    """Whether the request that comes next is for a fresh worker; it stays where it is."""
    try:
        return sock.recv(1, socket.MSG_PEEK) == FRESH
    except ConnectionResetError:
        return False


def trimmed(log: bytes) -> str:
    """The log as text; of a long one the beginning and the end, for the cause stands at either."""
    if len(log) > LOG_LIMIT:
        half = LOG_LIMIT // 2
        cut = f"\n[… {len(log) - 2 * half} bytes cut]\n".encode()
        log = log[:half] + cut + log[-half:]
    return log.decode("utf-8", "replace")
