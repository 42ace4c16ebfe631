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
from pathlib import Path

import pytest

from flacheck.toolchains import connections, index_sources, wheels
from flacheck.toolchains.downloads import Download, required_bytes
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
            download = Download(process.pid, 0)
            download.poll()
            os.killpg(process.pid, 9)
            process.wait()
            download.poll()
    assert download.received == 3 * MEGABYTE


@pytest.mark.parametrize(
    ("size", "line"),
    [(4 * MEGABYTE, ", 1 of 4 MB, 25 %"), (0, ", 1 MB received")],
    ids=["sized", "without sizes"],
)
def test_the_line_has_percent_where_the_size_is_known(size: int, line: str) -> None:
    """Time left only while bytes arrive."""
    download = Download(0, size)
    assert download.line() == ""
    download._received = {7: MEGABYTE}
    first = download.line()
    assert first.startswith(line)
    assert first.endswith(" left") == (size > 0)
    assert download.line() == line


@pytest.mark.parametrize(
    ("requirements", "size"),
    [
        (["toy==1.0"], 4 * MEGABYTE),
        (["toy==1.0", "other==2"], 7 * MEGABYTE),
        (["toy==1.0", "unsized==1"], 0),
        (["toy"], 0),
        ([], 0),
    ],
)
def test_a_size_is_that_of_all_wheels_or_unknown(
    monkeypatch: pytest.MonkeyPatch, requirements: list[str], size: int
) -> None:
    """The sizes are those of PEP 700."""
    with served() as server:
        server.lists("toy", "toy-1.0-py3-none-any.whl", size=4 * MEGABYTE)
        server.lists("other", "other-2-py3-none-any.whl", size=3 * MEGABYTE)
        server.lists("unsized", "unsized-1-py3-none-any.whl")
        connections.forget()
        monkeypatch.setattr(index_sources, "read", lambda pip: Sources((server.url,)))
        assert required_bytes(requirements, ("pip",)) == size


UV = """
case "$*" in
*--dry-run*) printf '%s\n' "$PLAN";;
*) mkdir -p "$SEEN";;
esac
"""


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("Would download 1 package\n + toy==1.0\n + other==2", "fetching toys (7 MB) …"),
        ("Would download 1 package\n + unsized==1", "fetching toys …"),
        ("Would install 1 package\n + toy==1.0", "installing toys …"),
    ],
)
def test_what_is_fetched_is_named_with_its_size_before(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    plan: str,
    said: str,
) -> None:
    """Requirements of requirements count; a full cache of uv's is none of a download."""
    caplog.set_level(logging.INFO, logger="flacheck")
    sizes = {"toy==1.0": 4 * MEGABYTE, "other==2": 3 * MEGABYTE}

    def size_of(planned: list[str], _: object) -> int:
        return sum(sizes[each] for each in planned) if sizes.keys() >= set(planned) else 0

    monkeypatch.setattr(wheels, "required_bytes", size_of)
    monkeypatch.setenv("PLAN", plan)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    installer = wheels.Installer("uv", ("sh", "-c", UV, "sh"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [installer])
    wheels.install(["toy"], tmp_path / "into", what="toys")
    assert caplog.messages[0] == said
    assert (tmp_path / "seen").is_dir()


def test_offline_nothing_is_announced_as_a_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor looked up."""
    caplog.set_level(logging.INFO, logger="flacheck")
    installer = wheels.Installer("uv", ("sh", "-c", "true", "sh"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [installer])
    with connections.of_indexes(offline=True):
        wheels.install(["toy"], tmp_path / "into", what="toys")
    assert caplog.messages[0] == "installing toys …"


def test_an_installation_prints_percent_and_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In its lines of progress, for one distribution alone."""
    monkeypatch.setattr(wheels, "HEARTBEAT", 0.1)
    monkeypatch.setattr(connections, "try_all", lambda pip: None)
    with sending(2 * MEGABYTE) as port, caplog.at_level(logging.INFO, "flacheck"):
        command = [sys.executable, "-c", READER, str(port), "1", str(2 * MEGABYTE)]
        assert wheels.run(command, "toy 1.0", size=4 * MEGABYTE)[0] == 0
    assert any("2 of 4 MB, 50 %" in message for message in caplog.messages)
