"""The launches file as it is written: by several threads, and in which order."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flacheck.guest.recorder.journal import SCHEMA, Journal
from flacheck.model.launch import LAUNCHES_SCHEMA

THREADS, LAUNCHES = 8, 40


@contextlib.contextmanager
def taking_turns_often() -> Iterator[None]:
    """Switch threads as often as possible, after all have started, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path / "l.jsonl"), "tiny==1.0", "real")


def read_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "l.jsonl").read_text().splitlines()]


def test_both_sides_speak_of_the_same_file() -> None:
    """The recorder's copies of the names equal the host's, which its interpreter cannot import."""
    assert SCHEMA == LAUNCHES_SCHEMA


def test_equal_launches_are_one_line_and_a_count(tmp_path: Path, journal: Journal) -> None:
    """Sizes are computed for the first launch only, and remarks do not distinguish launches."""
    calls = []

    def sizes() -> dict[str, Any]:
        calls.append("asked")
        return {"grids": []}

    journal.launch({"kernel": "m:k", "source": "s"}, "text", {"by": "a", "uncut": None}, sizes)
    journal.launch({"source": "s", "kernel": "m:k"}, "text", {"by": "b"}, sizes)
    journal.launch({"kernel": "m:other", "source": "s"}, "text", {}, sizes)
    journal.flush()
    header, first, other, count = read_lines(tmp_path)
    assert (header["package"], header["device"]) == ("tiny==1.0", "real")
    assert list(first) == ["id", "kernel", "source", "grids", "paths", "by", "text"]
    assert list(other) == ["id", "kernel", "source", "grids", "paths"]
    assert count == {"of": first["id"], "count": 1}
    assert len(calls) == 2


def test_a_launch_keeps_all_paths_that_it_came_by(tmp_path: Path, journal: Journal) -> None:
    """Each path is written once, before the lines that refer to it."""
    line = {"kernel": "m:k", "source": "s"}
    for path in (("m.f", "m.g"), ("m.f", "m.g"), ("m.h",), ()):
        journal.launch(line, "text", {}, dict, path)
    journal.launch({**line, "grid": 1}, None, {}, dict, ("m.h",))
    journal.flush()
    _, long, first, short, other, more = read_lines(tmp_path)
    assert (long["through"], short["through"]) == (["m.f", "m.g"], ["m.h"])
    assert first["paths"] == [long["path"]]
    assert other["paths"] == [short["path"]]
    assert more == {"of": first["id"], "count": 3, "paths": [short["path"]]}


def test_every_launch_is_seen(journal: Journal) -> None:
    """The witness receives launches that were written before, too."""
    lines: list[str] = []
    journal.on_launch = lines.append
    for name in ("a", "b", "a"):
        journal.launch({"kernel": name, "source": None}, None, {}, dict)
    assert lines[0] == lines[2]
    assert lines[0] != lines[1]


def test_guesses_alone_make_no_file(tmp_path: Path, journal: Journal) -> None:
    """A program without launches needs no file; after its first launch, guesses are written."""
    journal.guess("m:1", "int64")
    assert not (tmp_path / "l.jsonl").exists()
    journal.launch({"kernel": "m:k", "source": None}, None, {}, dict)
    journal.guess("m:2", "item")
    assert read_lines(tmp_path)[2:] == [
        {"guessed": "int64", "at": "m:1", "count": 1},
        {"guessed": "item", "at": "m:2", "count": 1},
    ]


def test_threads_write_whole_lines_in_an_order_that_can_be_read(
    tmp_path: Path, journal: Journal
) -> None:
    """The header first, a source's text in the first line that names it, every launch counted."""
    append, together = journal._append, threading.Barrier(THREADS + 1, timeout=60)

    def slowly(*values: dict[str, object]) -> None:
        time.sleep(0.001)
        append(*values)

    def work() -> None:
        together.wait()
        for n in range(LAUNCHES):
            journal.launch({"kernel": f"k{n}", "source": f"s{n % 4}"}, "text", {}, dict)
            journal.guess("m.py:1", "item")

    journal._append = slowly  # type: ignore[method-assign]
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    with taking_turns_often():
        together.wait()
        for thread in threads:
            thread.join()
    journal.flush()
    lines = read_lines(tmp_path)
    assert lines[0]["schema"] == SCHEMA
    assert not any("schema" in line for line in lines[1:])
    launches = [line for line in lines if "kernel" in line]
    assert ["text" in line for line in launches] == [n < 4 for n in range(LAUNCHES)]
    assert sum(line["count"] for line in lines if "of" in line) == (THREADS - 1) * LAUNCHES
    assert sum(line["count"] for line in lines if "guessed" in line) == THREADS * LAUNCHES
