"""Parts of the server: packets, the shared page, logs, and the form of an error."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from flacheck.guest.engine import channel, server
from flacheck.guest.engine.log import Log
from flacheck.guest.engine.messages import Request
from flacheck.guest.engine.server import SharedPage


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a channel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


class Failing:
    """A worker that raises the error of its request."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def run(self, request: Request, mark: Any) -> Any:
        mark("ttir")
        raise self._error

    def tolerates(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


def test_a_message_arrives_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    """One packet holds one value; afterwards the channel is empty."""
    ours, theirs = pair
    channel.send(ours, {"id": 1, "text": "µ"})
    assert channel.receive(theirs) == {"id": 1, "text": "µ"}
    ours.close()
    assert channel.receive(theirs) is None


def test_the_last_words_of_who_left_something_unread_are_heard(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The reason of a compiler that does not start is read, whatever is queued before it."""
    ours, theirs = pair
    channel.send(ours, {"id": 1})
    channel.send(theirs, {"event": "broken"})
    theirs.close()
    assert channel.receive(ours) == {"event": "broken"}
    assert channel.receive(ours) is None


def test_a_look_at_a_request_leaves_it_there(pair: tuple[socket.socket, socket.socket]) -> None:
    """A used worker leaves a fresh request to its successor."""
    ours, theirs = pair
    channel.send(ours, {"id": 1}, fresh=True)
    channel.send(ours, {"id": 2})
    assert channel.needs_fresh_worker(theirs)
    assert channel.receive(theirs) == {"id": 1}
    assert not channel.needs_fresh_worker(theirs)
    assert channel.receive(theirs) == {"id": 2}


def test_a_long_log_keeps_its_beginning_and_its_end() -> None:
    """The number of removed characters stands between them."""
    half = channel.LOG_LIMIT // 2
    text = channel.trim_log(b"a" * half + b"b" * 7 + b"c" * half)
    assert text == "a" * half + "\n[… 7 bytes cut]\n" + "c" * half
    assert channel.trim_log(b"short \xff") == "short �"


def test_the_page_survives_the_process_that_wrote_it() -> None:
    """The parent reads the state of a dead worker from the page."""
    page = SharedPage()
    assert page.read() == (-1, 0, "")
    pid = os.fork()
    if pid == 0:
        page.begin(4)
        page.finish()
        page.begin(5)
        page.stage("llir")
        os._exit(0)
    os.waitpid(pid, 0)
    assert page.read() == (5, 1, "llir")


def test_a_worker_is_fresh_until_it_finished_something() -> None:
    """A running request does not count as finished."""
    page = SharedPage()
    page.begin(1)
    assert page.fresh
    page.finish()
    assert not page.fresh


def test_an_error_is_told_with_its_causes_and_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    """The causes are listed outermost first, with the error's own stage."""
    error = RuntimeError("outer")
    error.__cause__ = KeyError("inner")
    error.__dict__["facts"] = {"keys": []}
    page = SharedPage()
    page.begin(1)
    answer = server.attempt_of(Failing(error), {"id": 1}, page, Log(), server.OwnMemory())
    assert answer["outcome"] == "raised"
    assert answer["exception"] == ["RuntimeError", "KeyError"]
    assert answer["stage"] == "ttir"
    assert answer["facts"] == {"keys": []}
    assert answer["resources"] == {}
    assert answer["tolerated"] is False
    assert "RuntimeError: outer" in capsys.readouterr().err


def test_the_worker_says_what_its_release_would_skip() -> None:
    """The server passes the information on unchanged."""
    answer = server.attempt_of(
        Failing(MemoryError()), {"id": 1}, SharedPage(), Log(), server.OwnMemory()
    )
    assert answer["tolerated"] is True


def test_a_context_that_is_suppressed_is_no_cause() -> None:
    """`raise … from None` hides what went before; without it the context counts."""
    hidden, visible = ValueError(), ValueError()
    hidden.__context__ = visible.__context__ = KeyError()
    hidden.__suppress_context__ = True
    assert server.exception_chain(hidden) == ["ValueError"]
    assert server.exception_chain(visible) == ["ValueError", "KeyError"]
