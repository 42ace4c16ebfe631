"""The bytes that an installer received, against the size of what it fetches."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flacheck.toolchains import connections, downloads, index_sources, wheels
from flacheck.toolchains.downloads import Download
from flacheck.toolchains.index_sources import Sources
from tests.package_index import served

MEGABYTE = 1_000_000
# Receives what the server sends, and stays for the second argument's seconds after that.
READER = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    left = int(sys.argv[3])
    while left > 0:
        left -= len(one.recv(65536))
    print("done", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@contextmanager
def sending(count: int) -> Iterator[int]:
    """Yield the port of a server that sends so many bytes and keeps the connection open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"x" * count)
                over.wait(30)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()


def test_the_bytes_of_a_process_and_its_children_are_counted() -> None:
    """pip may run below uv. A connection that was closed stays in the sum."""
    with sending(3 * MEGABYTE) as port:
        command = [sys.executable, "-c", READER, str(port), "30", str(3 * MEGABYTE)]
        shell = ["sh", "-c", '"$@" & wait', "sh", *command]
        with subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"done\n"
            download = Download(process.pid, [], ("pip",))
            download.poll()
            os.killpg(process.pid, 9)
            process.wait()
            download.poll()
    assert download.received == 3 * MEGABYTE


@pytest.mark.parametrize(
    ("size", "line"),
    [(4 * MEGABYTE, ", 1 of 4 MB, 25 %"), (None, ", 1 MB received")],
    ids=["sized", "without sizes"],
)
def test_the_line_has_percent_where_the_index_has_sizes(
    monkeypatch: pytest.MonkeyPatch, size: int | None, line: str
) -> None:
    """The sizes are those of PEP 700; time left only while bytes arrive."""
    with served() as server:
        server.lists("toy", "toy-1.0-py3-none-any.whl", size=size)
        connections.forget()
        monkeypatch.setattr(index_sources, "read", lambda pip: Sources((server.url,)))
        download = Download(0, ["install", "toy==1.0", "--target", "a"], ("pip",))
        assert download.line() == ""
        download._received = {7: MEGABYTE}
        first = download.line()
        assert first.startswith(line)
        assert first.endswith(" left") == (size is not None)
        assert download.line() == line
        assert len(server.requests) == 1


def test_an_installation_prints_percent_and_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In its lines of progress, for one distribution alone."""
    monkeypatch.setattr(wheels, "HEARTBEAT", 0.1)
    monkeypatch.setattr(downloads, "required_bytes", lambda *_: 4 * MEGABYTE)
    monkeypatch.setattr(connections, "try_all", lambda pip: None)
    with sending(2 * MEGABYTE) as port, caplog.at_level(logging.INFO, "flacheck"):
        command = [sys.executable, "-c", READER, str(port), "1", str(2 * MEGABYTE)]
        assert wheels.run(command, "toy 1.0")[0] == 0
    assert any("2 of 4 MB, 50 %" in message for message in caplog.messages)
