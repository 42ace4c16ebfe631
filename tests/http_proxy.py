"""An HTTP proxy on this machine: requests of http, tunnels to https, and the lines that came."""

from __future__ import annotations

import select
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Proxy:
    """The proxy's host and port, the first line of each request, and the credentials sent."""

    place: str
    requests: list[str] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Proxy]:
    """Serve a proxy on a free port until the end of the block; every request reaches its host."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._forward("HEAD")

        def do_GET(self) -> None:
            self._forward("GET")

        def _forward(self, method: str) -> None:
            self._note()
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                answer = direct.open(urllib.request.Request(self.path, method=method))
            except urllib.error.HTTPError as refusal:
                # The host's refusal is forwarded.
                answer = refusal
            with answer:
                body = answer.read()
                self.send_response(answer.status)
                for name in ("Content-Type", "Content-Length"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(body)

        def do_CONNECT(self) -> None:
            self._note()
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port))) as remote:
                self.send_response(200)
                self.end_headers()
                _copy(self.connection, remote)

        def _note(self) -> None:
            proxy.requests.append(self.requestline.rpartition(" ")[0])
            proxy.credentials.append(self.headers.get("Proxy-Authorization"))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy = Proxy(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _copy(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes both ways until one side ends."""
    partner = {one: other, other: one}
    while True:
        ready, _, _ = select.select(list(partner), [], [], 10)
        for side in ready:
            data = side.recv(65_536)
            if not data:
                return
            partner[side].sendall(data)
        if not ready:
            return
