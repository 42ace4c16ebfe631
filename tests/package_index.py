"""A package index on this machine: pages by path, and the requests that came."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.forked import Script

JSON = "application/vnd.pypi.simple.v1+json"
PIP = """
import json, os, sys
from pip._internal.cli.main import main
os.dup2(1, 2)
os.environ.clear()
os.environ.update(json.loads(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Page:
    """A response: its body, type and status. `sent` cuts the body, `wait` delays it by seconds."""

    body: bytes = b""
    type: str = JSON
    status: int = 200
    sent: int | None = None
    wait: float = 0.0


@dataclass
class Index:
    """Pages of an index by path, a URL, and the path and credentials of each request."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def lists(self, name: str, *filenames: str, **more: object) -> None:
        """Answer with a page of PEP 691 for a project; `more` are entries of each file."""
        files = [
            {"filename": each, "url": f"../../{each}", "hashes": {}, **more} for each in filenames
        ]
        content = {"meta": {"api-version": "1.0"}, "name": name, "files": files}
        self.pages[f"/simple/{name}/"] = Page(json.dumps(content).encode())


@contextmanager
def served(tls: ssl.SSLContext | None = None) -> Iterator[Index]:
    """Serve an index on a free port until the end of the block; with `tls` by https."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            self._answer(is_head=False)

        def _answer(self, is_head: bool) -> None:
            index.requests.append((self.path, self.headers.get("Authorization")))
            page = index.pages.get(self.path, Page(b"none", "text/plain", 404))
            time.sleep(page.wait)
            self.send_response(page.status)
            self.send_header("Content-Type", page.type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            if not is_head:
                self.wfile.write(page.body[: page.sent])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        scheme = "https"
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    index = Index(f"{scheme}://127.0.0.1:{server.server_address[1]}/simple")
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def refused() -> Iterator[str]:
    """Yield the URL of an index on a port where nothing listens."""
    import socket

    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free_port.getsockname()[1]}/simple"


def forked_pip(
    command: Sequence[str], doing: str, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run `python -m pip …` as `wheels.run` does, in a process that has imported pip already."""
    variables = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environment or {})}
    script = Script(PIP, json.dumps(variables), *command[3:])
    output = script.output()
    return script.wait(), output
